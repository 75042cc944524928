package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"

	"github.com/karp-sh/karp/pkg/view"
)

// options are the flags that all commands share, and the facts that follow from them.
type options struct {
	Program
	kube *genericclioptions.ConfigFlags

	output                string
	color, theme          string
	ascii                 bool
	width                 int
	quiet                 bool
	agent, agentNamespace string
	snapshot              string
	at, tz                string
	exitCode, strict      bool
	noHeaders             bool
	// lines prints JSON reports on one line each.
	lines bool

	// origin tells where a flag's value came from, when not from the command line or the default.
	origin map[string]string
	now    time.Time
	zone   *time.Location
	style  view.Style
}

func newOptions(p Program) *options {
	return &options{Program: p, kube: genericclioptions.NewConfigFlags(true), origin: map[string]string{}}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	o.kube.AddFlags(f)
	f.StringVarP(&o.output, "output", "o", "", "output format: wide, json, yaml, name, jsonpath=…, jsonpath-file=…, go-template=…, custom-columns=…")
	f.StringVar(&o.color, "color", "auto", "auto, always or never; auto means a terminal, unless NO_COLOR is set or TERM is dumb")
	f.StringVar(&o.theme, "theme", "auto", "auto, "+strings.Join(view.ThemeNames(), ", "))
	f.BoolVar(&o.ascii, "ascii", false, "no symbols and no box drawing (the default where the locale is not UTF-8)")
	f.IntVar(&o.width, "width", 0, "columns; the default is the terminal's width, 80 to 100, and 100 in a pipe")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "only the sentence that answers")
	f.StringVar(&o.agent, "agent", "auto", "how to reach the agent: auto, proxy, port-forward, none")
	f.StringVar(&o.agentNamespace, "agent-namespace", "kube-system", "namespace of the agent")
	f.StringVar(&o.snapshot, "snapshot", "", "answer from YAML files in this file or directory instead of a cluster")
	f.StringVar(&o.at, "at", "", "answer for another instant: RFC 3339, or a duration from now such as +6h")
	f.StringVar(&o.tz, "tz", "", "time zone for times in text, e.g. Europe/Berlin (default UTC)")
	f.BoolVar(&o.exitCode, "exit-code", false, "exit with 3 when there is a finding")
	f.BoolVar(&o.strict, "strict", false, "exit with 4 when the answer is partial")
	f.BoolVar(&o.noHeaders, "no-headers", false, "tables without header")
}

// ownFlags are those whose defaults may come from the environment or the configuration file.
func ownFlags() []string {
	return []string{"output", "color", "theme", "ascii", "width", "quiet", "agent", "agent-namespace", "tz", "exit-code", "strict", "no-headers"}
}

// complete applies environment and configuration file below the flags and derives the facts that all commands need.
func (o *options) complete(cmd *cobra.Command) error {
	if err := o.layer(cmd.Flags()); err != nil {
		return err
	}
	if !slices.Contains([]string{"auto", "always", "never"}, o.color) {
		return usageError("--color must be auto, always or never, not %q", o.color)
	}
	if !slices.Contains([]string{"auto", "proxy", "port-forward", "none"}, o.agent) {
		return usageError("--agent must be auto, proxy, port-forward or none, not %q", o.agent)
	}
	if o.width != 0 && o.width < 40 {
		return usageError("--width must be at least 40, not %d", o.width)
	}
	if _, known := view.NamedTheme(o.theme); o.theme != "auto" && !known {
		return usageError("--theme must be auto, %s, not %q", strings.Join(view.ThemeNames(), ", "), o.theme)
	}
	if err := o.clock(); err != nil {
		return err
	}
	o.style = o.look()
	return nil
}

// layer sets flags that were not given from KARP_<FLAG>, else from the configuration file.
func (o *options) layer(flags *pflag.FlagSet) error {
	path, file, err := o.configFile()
	if err != nil {
		return err
	}
	for key := range file {
		if !slices.Contains(ownFlags(), key) {
			return usageError("%s: unknown key %q; the keys are: %s", path, key, strings.Join(ownFlags(), ", "))
		}
	}
	for _, name := range ownFlags() {
		f := flags.Lookup(name)
		if f == nil || f.Changed {
			continue
		}
		env := "KARP_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value, origin := o.Getenv(env), env
		if value == "" {
			v, ok := file[name]
			if !ok {
				continue
			}
			value, origin = fmt.Sprint(v), path
		}
		if err := f.Value.Set(value); err != nil {
			return usageError("%s: invalid value %q for %s: %w", origin, value, name, err)
		}
		o.origin[name] = origin
	}
	return nil
}

// configFile reads ~/.config/kubectl-karp/config.yaml if it exists.
func (o *options) configFile() (string, map[string]any, error) {
	dir := o.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := o.Getenv("HOME")
		if home == "" {
			return "", nil, nil
		}
		dir = filepath.Join(home, ".config")
	}
	path := filepath.Join(dir, "kubectl-karp", "config.yaml")
	raw, err := os.ReadFile(path) //nolint:gosec // the user's own configuration
	if os.IsNotExist(err) {
		return path, nil, nil
	}
	if err != nil {
		return path, nil, fmt.Errorf("reading defaults: %w", err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		return path, nil, usageError("%s: not YAML with flag names as keys: %w", path, err)
	}
	return path, values, nil
}

// clock fixes the instant the answer is for, and the zone times are shown in.
func (o *options) clock() error {
	o.now, o.zone = time.Now().UTC(), time.UTC
	if o.tz != "" {
		zone, err := time.LoadLocation(o.tz)
		if err != nil {
			return usageError("--tz: %q is not a time zone; use a name such as Europe/Berlin or UTC", o.tz)
		}
		o.zone = zone
	}
	switch {
	case o.at == "":
	case strings.HasPrefix(o.at, "+") || strings.HasPrefix(o.at, "-"):
		d, err := time.ParseDuration(o.at)
		if err != nil {
			return usageError("--at: %q is not a duration such as +6h or +1h30m", o.at)
		}
		o.now = o.now.Add(d)
	default:
		t, err := time.Parse(time.RFC3339, o.at)
		if err != nil {
			return usageError("--at: %q is neither RFC 3339 (2026-09-08T12:20:00Z) nor a duration (+6h)", o.at)
		}
		o.now = t.UTC()
	}
	return nil
}

// look decides width, colour, theme and symbols from flags, environment and terminal.
func (o *options) look() view.Style {
	out, isFile := o.Streams.Out.(*os.File)
	tty := isFile && isatty.IsTerminal(out.Fd())
	s := view.Style{Width: o.width, Quiet: o.quiet, ASCII: o.ascii || !o.utf8(), Profile: colorprofile.NoTTY}
	if s.Width == 0 {
		s.Width = 100
		if tty {
			if w, _, err := term.GetSize(int(out.Fd())); err == nil {
				s.Width = min(max(w, 80), 100)
			}
		}
	}
	forced := slices.ContainsFunc([]string{"CLICOLOR_FORCE", "FORCE_COLOR", "KUBECOLOR_FORCE_COLORS"}, func(name string) bool {
		v := o.Getenv(name)
		return v != "" && v != "0" && v != "false"
	})
	dumb := o.Getenv("NO_COLOR") != "" || o.Getenv("TERM") == "dumb"
	if o.color == "always" || o.color == "auto" && (forced || tty && !dumb) {
		s.Profile = colorprofile.Env(o.Environ)
		if s.Profile <= colorprofile.ASCII {
			s.Profile = colorprofile.ANSI
		}
	}
	name := o.theme
	if name == "auto" {
		name = "dark"
		if tty && s.Profile > colorprofile.ASCII && !darkBackground(o.Streams.In, out) {
			name = "light"
		}
	}
	s.Theme, _ = view.NamedTheme(name)
	return s
}

// utf8 reports whether the locale says so; without any locale variable it is assumed, as kubectl does.
func (o *options) utf8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := o.Getenv(name); v != "" {
			v = strings.ToLower(strings.ReplaceAll(v, "-", ""))
			return strings.Contains(v, "utf8")
		}
	}
	return true
}

// newOptionsCommand prints the effective flags and where their values came from.
func newOptionsCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "Show the effective defaults of all flags and where they come from",
		Example: `  # Which flags are in force?
  kubectl karp options

  # Keep a default
  echo 'agent: none' >> ~/.config/kubectl-karp/config.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := view.Table{Columns: []view.Column{{Title: "FLAG"}, {Title: "VALUE"}, {Title: "FROM"}}}
			for _, name := range ownFlags() {
				f := cmd.Flags().Lookup(name)
				from := o.origin[name]
				switch {
				case f.Changed:
					from = "command line"
				case from == "":
					from = "default"
				}
				t.Rows = append(t.Rows, view.Row{Cells: []string{"--" + name, strconv.Quote(f.Value.String()), from}})
			}
			return view.Print(o.Streams.Out, view.Doc{Answer: "These flags are in force.", Sections: []view.Section{{Table: &t}}}, o.style)
		},
	}
}
