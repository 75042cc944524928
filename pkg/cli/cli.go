// Package cli is kubectl-karp: one file a verb, each turning arguments into a value and running it on the given streams.
//
// A verb observes (a live cluster, or a directory of YAML), asks the engine, and renders the answer with package view. It never decides by itself.
package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Exit codes, one table for every command.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitFinding     = 3   // a finding, and --exit-code was given
	ExitPartial     = 4   // the answer is partial, and --strict was given
	ExitTimeout     = 5   // --wait timed out
	ExitInterrupted = 130 // SIGINT
)

// Program is what the process gives to the commands.
type Program struct {
	Streams genericiooptions.IOStreams
	// Version of the plugin.
	Version string
	// Getenv reads the environment.
	Getenv func(string) string
	// Environ is the whole environment, for terminal detection.
	Environ []string
}

// Main runs the command line and returns the exit code. Errors are written to the error stream.
func Main(ctx context.Context, p Program, args []string) int {
	root := New(p)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	var code *exitError
	if errors.As(err, &code) {
		if code.err != nil {
			report(p, code.err)
		}
		return code.code
	}
	if ctx.Err() != nil {
		return ExitInterrupted
	}
	report(p, err)
	return ExitError
}

func report(p Program, err error) {
	text := err.Error()
	if !strings.HasPrefix(text, "error:") {
		text = "error: " + text
	}
	_, _ = fmt.Fprintln(p.Streams.ErrOut, text) // nowhere is left to tell of a failure
}

// exitError ends the program with a code; a nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// New returns the command tree.
func New(p Program) *cobra.Command {
	o := newOptions(p)
	root := &cobra.Command{
		Use:   "kubectl-karp",
		Short: "Why is my pod pending, why is this node kept, what drifted, when may it be disrupted?",
		Long: `kubectl karp answers why: why a pod has no node, why a node is kept, what drifted and when it may be disrupted.

It reads the cluster with your own rights and never writes unless a verb says so. It works on clusters that run karp or Karpenter, and
with --snapshot on YAML files without any cluster.`,
		Example: `  # Why is this pod pending?
  kubectl karp why-pending checkout-7d9f6c5b8-x2lqp -n shop

  # What would happen if I applied this NodePool?
  kubectl karp simulate -f nodepool.yaml`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return o.complete(cmd)
		},
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl karp"},
	}
	root.SetIn(p.Streams.In)
	root.SetOut(p.Streams.Out)
	root.SetErr(p.Streams.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w\nSee '%s --help'.", err, cmd.CommandPath())
	})
	o.addFlags(root.PersistentFlags())
	root.SetHelpCommand(newHelp(o))
	examplesFirst(root)
	o.completeFlags(root)
	for _, verb := range []*cobra.Command{
		newOptionsCommand(o),
		newVersion(o),
		newSchema(o),
		newWhyPending(o),
		newWhyKept(o),
		newSimulate(o),
		newScale(o),
		newScaleStatic(o),
	} {
		checkUsage(verb)
		root.AddCommand(verb)
	}
	describeCompletion(root)
	return root
}

// examplesFirst begins every help text with the examples, which is what people look for.
func examplesFirst(root *cobra.Command) {
	const block = "{{if .HasExample}}\n\nExamples:\n{{.Example}}{{end}}"
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), block, "", 1))
	root.SetHelpTemplate("{{if .HasExample}}{{.Example}}\n\n{{end}}{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}\n\n{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}")
}

// knownCommand refuses the name of a command that does not exist, and offers those it may stand for.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usageError("unknown command %q%s\nSee '%s --help'.", args[0], suggest(args[0], names), cmd.CommandPath())
}

// checkUsage turns errors about positional arguments into usage errors, for the command and all below it.
func checkUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usageError("%w\nSee '%s --help'.", err, c.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		checkUsage(sub)
	}
}
