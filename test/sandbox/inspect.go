package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/karp-sh/karp/test/cluster/control"
)

func newVerb(p *place, verb control.Verb) *cobra.Command {
	short := map[control.Verb]string{
		control.Start:   "Start a component that does not run, and wait until it is ready",
		control.Stop:    "End a component by SIGTERM; it stays down",
		control.Kill:    "End a component by SIGKILL; it stays down",
		control.Restart: "Stop and start a component, and wait until it is ready",
		control.Pause:   "Suspend a component by SIGSTOP: it hangs, its connections stay open",
		control.Resume:  "Let a paused component go on",
	}[verb]
	return &cobra.Command{
		Use: string(verb) + " COMPONENT...", Short: short, Args: cobra.MinimumNArgs(1), ValidArgs: control.Components(),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.open()
			if err != nil {
				return err
			}
			for _, name := range args {
				c, err := control.NewClient(s).Do(cmd.Context(), verb, name)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", c.Name, c.State)
			}
			return nil
		},
	}
}

func newStatus(p *place) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "status", Short: "Show the components of the sandbox; fails when one has failed", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.open()
			if err != nil {
				return err
			}
			now, err := running(cmd.Context(), s)
			if errors.Is(err, errDead) {
				return fmt.Errorf("the sandbox in %s is dead: %w; `karp-sandbox down%s` removes its folder", s.Dir, err, p.flag())
			}
			if err != nil {
				return err
			}
			if err := printStatus(cmd.OutOrStdout(), now, output); err != nil {
				return err
			}
			if failures := now.Failures(); failures != nil {
				return fmt.Errorf("failed: %s", strings.Join(failures, "; "))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or empty for a table")
	return cmd
}

func printStatus(w io.Writer, s *control.Sandbox, output string) error {
	switch output {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	case "":
		return printTable(w, s)
	}
	return fmt.Errorf("unknown output %q; there is json, or none for a table", output)
}

func printTable(w io.Writer, s *control.Sandbox) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "COMPONENT\tSTATE\tPID\tSTARTS\tREADY IN\tMEMORY\tURL\tEXIT")
	total := int64(0)
	for _, c := range s.Components {
		total += c.Memory
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%.1fs\t%s\t%s\t%s\n", c.Name, c.State, orDash(c.PID), c.Starts, c.Seconds, mebibytes(c.Memory), c.URL, c.Exit)
	}
	fmt.Fprintf(t, "total\t\t\t\t%.1fs\t%s\t\t\n", s.Seconds, mebibytes(total))
	return t.Flush()
}

func orDash(pid int) string {
	if pid == 0 {
		return "-"
	}
	return fmt.Sprint(pid)
}

func mebibytes(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

func newList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the sandboxes that have a name", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := control.Names()
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
			fmt.Fprintln(t, "NAME\tSTATE\tAPI SERVER\tFOLDER")
			for _, name := range names {
				p := place{name: name}
				s, err := p.open()
				if err != nil {
					fmt.Fprintf(t, "%s\t%v\t\t\n", name, err)
					continue
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", name, summarise(cmd, s), s.APIServer, s.Dir)
			}
			return t.Flush()
		},
	}
}

func summarise(cmd *cobra.Command, s *control.Sandbox) string {
	now, err := running(cmd.Context(), s)
	switch {
	case errors.Is(err, errDead):
		return "dead"
	case err != nil:
		return "silent"
	case now.Failures() != nil:
		return "failed"
	case !now.Ready:
		return "starting"
	}
	return "ready"
}

func newKubeconfig(p *place) *cobra.Command {
	var path bool
	cmd := &cobra.Command{
		Use: "kubeconfig", Short: "Print the kubeconfig of the sandbox's administrator", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.open()
			if err != nil {
				return err
			}
			if s.Kubeconfig == "" {
				return errors.New("this sandbox has no API server")
			}
			if path {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), s.Kubeconfig)
				return err
			}
			raw, err := os.ReadFile(s.Kubeconfig)
			if err != nil {
				return fmt.Errorf("reading kubeconfig: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(raw)
			return err
		},
	}
	cmd.Flags().BoolVar(&path, "path", false, "print the path of the file instead")
	return cmd
}

func newEnv(p *place) *cobra.Command {
	return &cobra.Command{
		Use: "env", Short: "Print shell lines that point kubectl, karp and the AWS SDK to the sandbox", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.open()
			if err != nil {
				return err
			}
			for _, kv := range s.Env {
				name, value, _ := strings.Cut(kv, "=")
				fmt.Fprintf(cmd.OutOrStdout(), "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
			}
			return nil
		},
	}
}

func newLogs(p *place) *cobra.Command {
	return &cobra.Command{
		Use: "logs COMPONENT", Short: "Print the log of a component", Args: cobra.ExactArgs(1), ValidArgs: control.Components(),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.open()
			if err != nil {
				return err
			}
			c, ok := s.Component(args[0])
			if !ok {
				return fmt.Errorf("component %q: %w to this sandbox", args[0], control.ErrUnknown)
			}
			f, err := os.Open(c.Log)
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s has not logged anything: it is %s", c.Name, c.State)
			}
			if err != nil {
				return fmt.Errorf("reading log: %w", err)
			}
			defer f.Close()
			_, err = io.Copy(cmd.OutOrStdout(), f)
			return err
		},
	}
}
