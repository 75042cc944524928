package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Default returns the configuration of a process without flags and environment. It lacks the required settings.
func Default() Config {
	c := Config{Gates: defaultGates()}
	for _, s := range Table() {
		// The defaults of the table parse, which a test holds.
		_ = s.set(&c, s.Default)
	}
	return c
}

// Parse reads the arguments (without the program's name) and the environment, looked up with lookup (os.LookupEnv in a program).
// The error says which setting is wrong and what it takes; it is flag.ErrHelp when the arguments ask for help.
func Parse(args []string, lookup func(string) (string, bool)) (Config, error) {
	c := Default()
	table := Table()
	if err := fromEnvironment(&c, table, lookup); err != nil {
		return Config{}, err
	}
	flags := flag.NewFlagSet("karp-agent", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for i := range table {
		if s := &table[i]; s.Flag != "" {
			flags.Var(&value{config: &c, setting: s}, s.Flag, s.Meaning)
		}
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return Config{}, err
		}
		return Config{}, fmt.Errorf("reading flags: %w", err)
	}
	if rest := flags.Args(); len(rest) > 0 {
		return Config{}, fmt.Errorf("reading flags: unexpected argument %q: the agent takes flags only", rest[0])
	}
	if err := c.validate(table); err != nil {
		return Config{}, err
	}
	return c, nil
}

// fromEnvironment applies the environment. A value that does not parse leaves the default (as in Karpenter); a malformed document
// or gate list is an error.
func fromEnvironment(c *Config, table []Setting, lookup func(string) (string, bool)) error {
	for _, s := range table {
		if s.Env == "" {
			continue
		}
		v, ok := lookup(s.Env)
		if !ok {
			continue
		}
		var bad malformed
		if err := s.set(c, v); errors.As(err, &bad) {
			return fmt.Errorf("reading %s: %w", s.Env, bad.error)
		}
	}
	return nil
}

// value makes a setting a flag.
type value struct {
	config  *Config
	setting *Setting
}

var _ flag.Value = (*value)(nil)

func (v *value) String() string {
	if v.setting == nil {
		return ""
	}
	return v.setting.Default
}

func (v *value) Set(s string) error {
	if v.setting.Kind == Bool && s != "true" && s != "false" {
		return errors.New("must be true or false")
	}
	// A gate flag replaces what the environment said rather than adding to it.
	if v.setting.Flag == "feature-gates" {
		v.config.Gates = defaultGates()
	}
	return v.setting.set(v.config, s)
}

// IsBoolFlag lets --flag stand for --flag=true.
func (v *value) IsBoolFlag() bool { return v.setting.Kind == Bool }

// validate checks what parsed, reports all problems at once, and reads the scheduler document.
func (c *Config) validate(table []Setting) error {
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", describe(table, name), fmt.Sprintf(format, args...)))
	}
	if c.AWS.ClusterName == "" {
		bad("cluster-name", "is empty; set it to the name of the cluster")
	}
	if c.LeaderElectionName == "" {
		bad("leader-election-name", "is empty")
	}
	oneOf := func(name, got string, allowed ...string) {
		if !slices.Contains(allowed, got) {
			bad(name, "%q is not one of %s", got, strings.Join(allowed, ", "))
		}
	}
	oneOf("log-level", c.LogLevel, "", "debug", "info", "error")
	oneOf("preference-policy", c.PreferencePolicy, Respect, Ignore)
	oneOf("min-values-policy", c.MinValuesPolicy, Strict, BestEffort)
	oneOf("placement-hints", c.PlacementHints, Auto, On, Off)
	for name, port := range map[string]int{"metrics-port": c.MetricsPort, "health-probe-port": c.HealthProbePort, "status-port": c.StatusPort} {
		if port < 0 || port > 65535 {
			bad(name, "%d is not a port (0 to 65535)", port)
		}
	}
	for name, value := range map[string]string{"cluster-endpoint": c.AWS.ClusterEndpoint, "status-url": c.StatusURL} {
		if u, err := url.Parse(value); value != "" && (err != nil || !u.IsAbs() || u.Hostname() == "") {
			bad(name, "%q is not an absolute URL with a host, such as https://example.eks.amazonaws.com", value)
		}
	}
	if p := c.AWS.VMMemoryOverheadPercent; p < 0 || math.IsNaN(p) || math.IsInf(p, 0) {
		bad("vm-memory-overhead-percent", "%v is not a fraction of 0 or more", p)
	}
	if p := c.ConsolidationMinimumSaving; !(p >= 0 && p < 1) {
		bad("consolidation-minimum-saving", "%v is not a fraction of at least 0 and less than 1", p)
	}
	if c.AWS.ReservedENIs < 0 {
		bad("reserved-enis", "%d is negative", c.AWS.ReservedENIs)
	}
	for name, d := range map[string]time.Duration{"ami-refresh-interval": c.AWS.AMIRefreshInterval, "subnet-refresh-interval": c.AWS.SubnetRefreshInterval} {
		if d < time.Minute {
			bad(name, "%s is less than 1m", d)
		}
	}
	for name, d := range map[string]time.Duration{"batch-max-duration": c.BatchMaxDuration, "batch-idle-duration": c.BatchIdleDuration} {
		if d < 0 {
			bad(name, "%s is negative", d)
		}
	}
	if c.KubeClientQPS <= 0 || c.KubeClientBurst <= 0 {
		bad("kube-client-qps", "%d, with a burst of %d: both must be greater than 0", c.KubeClientQPS, c.KubeClientBurst)
	}
	var err error
	if c.DefaultSpread, err = parseSchedulerConfig(c.SchedulerConfig); err != nil {
		bad("scheduler-config", "%v", err)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// describe names a setting as both flag and variable, since the reader may have used either.
func describe(table []Setting, name string) string {
	for _, s := range table {
		if s.Flag == name {
			return fmt.Sprintf("--%s (%s)", s.Flag, s.Env)
		}
	}
	return name
}

// Markdown returns the table of settings for the documentation.
func Markdown() string {
	var b strings.Builder
	section := ""
	for _, s := range Table() {
		if s.Section != section {
			section = s.Section
			fmt.Fprintf(&b, "\n### %s\n\n| Flag | Environment | Type | Default | Meaning |\n|---|---|---|---|---|\n", section)
		}
		def := "`" + s.Default + "`"
		if s.Default == "" {
			def = "–"
		}
		if s.Required && s.Default == "" {
			def = "required"
		}
		name := "–"
		if s.Flag != "" {
			name = "`--" + s.Flag + "`"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", name, s.Env, s.Kind, def, s.Meaning)
	}
	return strings.TrimPrefix(b.String(), "\n")
}
