package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// LogOptions say how a program logs.
type LogOptions struct {
	// Level is debug, info, error or empty for info.
	Level string
	// Paths and ErrorPaths list stdout, stderr or files; the latter take errors of the logger itself. Empty means stdout and stderr.
	Paths, ErrorPaths []string
	// Commit of the program, on every line.
	Commit string
	// Stdout and Stderr are what those paths stand for; nil means the process's own.
	Stdout, Stderr io.Writer
	// Now is the clock of the sampling; nil means time.Now.
	Now func() time.Time
}

// NewLogger returns a logger that writes one JSON object a line (lifecycle rules 27), and a function that closes its files. Of one message it
// writes the first 100 in a second and then every 100th.
func NewLogger(o LogOptions) (*slog.Logger, func() error, error) {
	level, err := parseLevel(o.Level)
	if err != nil {
		return nil, nil, err
	}
	var files []io.Closer
	done := func() error {
		var errs []error
		for _, f := range files {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}
	out, err := o.open(o.Paths, "stdout", &files)
	if err == nil {
		var failures io.Writer
		if failures, err = o.open(o.ErrorPaths, "stderr", &files); err == nil {
			out = &reporting{out: out, failures: failures}
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	handler := slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, AddSource: level <= slog.LevelDebug, ReplaceAttr: rename})
	logger := slog.New(&sampler{Handler: handler, shared: &counts{now: now, n: map[string]int{}}})
	if o.Commit != "" {
		logger = logger.With("commit", o.Commit)
	}
	return logger, done, nil
}

func parseLevel(s string) (slog.Level, error) {
	switch s {
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q is not one of debug, info, error", s)
}

// open returns a writer to all paths.
func (o *LogOptions) open(paths []string, otherwise string, files *[]io.Closer) (io.Writer, error) {
	if len(paths) == 0 {
		paths = []string{otherwise}
	}
	var out []io.Writer
	for _, p := range paths {
		switch p {
		case "stdout":
			out = append(out, orElse(o.Stdout, os.Stdout))
		case "stderr":
			out = append(out, orElse(o.Stderr, os.Stderr))
		default:
			f, err := os.OpenFile(p, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // the log file the operator names
			if err != nil {
				return nil, fmt.Errorf("opening log: %w", err)
			}
			*files = append(*files, f)
			out = append(out, f)
		}
	}
	return io.MultiWriter(out...), nil
}

func orElse(w, otherwise io.Writer) io.Writer {
	if w == nil {
		return otherwise
	}
	return w
}

// reporting tells about lines that could not be written.
type reporting struct{ out, failures io.Writer }

func (r *reporting) Write(p []byte) (int, error) {
	n, err := r.out.Write(p)
	if err != nil {
		_, _ = fmt.Fprintf(r.failures, "writing log: %v\n", err)
	}
	return n, err
}

// timeFormat is ISO 8601 with milliseconds and zone.
const timeFormat = "2006-01-02T15:04:05.000Z0700"

// rename gives the handler's own attributes the keys of the log contract.
func rename(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		return slog.String("time", a.Value.Time().Format(timeFormat))
	case slog.MessageKey:
		a.Key = "message"
	case slog.SourceKey:
		if s, ok := a.Value.Any().(*slog.Source); ok {
			return slog.String("caller", fmt.Sprintf("%s:%d", s.File, s.Line))
		}
	}
	return a
}

// Limits of the sampling: so many lines of one message in a second, then one of so many.
const (
	sampleFirst = 100
	sampleThen  = 100
)

// sampler drops repetitions of a message.
type sampler struct {
	slog.Handler
	shared *counts
}

type counts struct {
	now func() time.Time
	mu  sync.Mutex
	// second is the one that n counts in.
	second int64
	n      map[string]int
}

// pass counts a message and tells whether to write it.
func (c *counts) pass(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.now().Unix(); s != c.second {
		c.second = s
		clear(c.n)
	}
	c.n[key]++
	n := c.n[key]
	return n <= sampleFirst || (n-sampleFirst)%sampleThen == 0
}

// Handle writes the record unless it is one repetition too many.
func (s *sampler) Handle(ctx context.Context, r slog.Record) error {
	if !s.shared.pass(r.Level.String() + r.Message) {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs keeps the sampling.
func (s *sampler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sampler{s.Handler.WithAttrs(attrs), s.shared}
}

// WithGroup keeps the sampling.
func (s *sampler) WithGroup(name string) slog.Handler {
	return &sampler{s.Handler.WithGroup(name), s.shared}
}

// Bridge sends what controller-runtime and client-go log to the logger. Of client-go only warnings and errors pass: its informational lines
// mean nothing to an operator.
func Bridge(l *slog.Logger) {
	ctrl.SetLogger(logr.FromSlogHandler(l.Handler()))
	klog.SetLogger(logr.FromSlogHandler(&atLeast{l.Handler(), slog.LevelWarn}))
}

// atLeast drops records below a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

// Enabled reports whether the level is high enough.
func (a *atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= a.level && a.Handler.Enabled(ctx, l)
}

// WithAttrs keeps the level.
func (a *atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &atLeast{a.Handler.WithAttrs(attrs), a.level}
}

// WithGroup keeps the level.
func (a *atLeast) WithGroup(name string) slog.Handler {
	return &atLeast{a.Handler.WithGroup(name), a.level}
}
