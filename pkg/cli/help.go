package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/karp-sh/karp/pkg/view"
)

// page explains one code.
type page struct {
	// Code as it stands in reports; a code that refines another is written CODE.SUB. Where says which commands and layers use it.
	Code, Where string
	// Meaning in a sentence or two, Detected how it is found, Causes what is usually behind it, Fix what to do.
	Meaning, Detected, Causes, Fix string
}

// doc is the page for people.
func (p page) doc() view.Doc {
	return view.Doc{Answer: p.Code + ": " + p.Meaning, Facts: []string{p.Where}, Sections: []view.Section{
		{Title: "DETECTED", Notes: []string{p.Detected}},
		{Title: "USUAL CAUSES", Notes: []string{p.Causes}},
		{Title: "WHAT TO DO", Notes: []string{p.Fix}},
	}}
}

// newHelp is cobra's help command that also knows the codes of reports.
func newHelp(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND | CODE]",
		Short: "Explain a command, or a code that a report shows",
		Example: `  # What does this code mean, and what helps?
  kubectl karp help TooBig

  # All codes
  kubectl karp help codes`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var out []string
			for _, p := range codePages() {
				out = append(out, p.Code+"\t"+p.Meaning)
			}
			if len(args) > 0 {
				out = nil
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if doc, ok := codeHelp(args[0]); ok {
					return view.Print(o.Streams.Out, doc, o.style)
				}
			}
			root := cmd.Root()
			found, rest, err := root.Find(args)
			if err != nil || found == nil || len(rest) > 0 || found == root && len(args) > 0 {
				return usageError("no command and no code %q%s\nSee '%s --help' and '%s help codes'.", strings.Join(args, " "), suggest(strings.Join(args, " "), helpTopics(root)), root.CommandPath(), root.CommandPath())
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// codeHelp is the page of a code, in any case, or the list of all.
func codeHelp(topic string) (view.Doc, bool) {
	pages := codePages()
	if topic == "codes" {
		t := &view.Table{Columns: []view.Column{{Title: "CODE"}, {Title: "MEANING"}}}
		for _, p := range pages {
			t.Rows = append(t.Rows, view.Row{Cells: []string{p.Code, p.Meaning}})
		}
		return view.Doc{Answer: "These codes appear in reports; kubectl karp help CODE tells more.", Sections: []view.Section{{Table: t}}}, true
	}
	i := slices.IndexFunc(pages, func(p page) bool {
		_, sub, _ := strings.Cut(p.Code, ".")
		return strings.EqualFold(p.Code, topic) || sub != "" && strings.EqualFold(sub, topic)
	})
	if i < 0 {
		return view.Doc{}, false
	}
	return pages[i].doc(), true
}

// helpTopics are all commands and codes.
func helpTopics(root *cobra.Command) []string {
	var out []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			out = append(out, c.Name())
		}
	}
	for _, p := range codePages() {
		out = append(out, p.Code)
	}
	return out
}

// pendingPage is a page of a code of why-pending.
func pendingPage(layer, code, meaning, detected, causes, fix string) page {
	return page{code, fmt.Sprintf("why-pending, layer %s", layer), meaning, detected, causes, fix}
}
