package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/engine/budget"
	"github.com/karp-sh/karp/pkg/engine/disrupt"
	"github.com/karp-sh/karp/pkg/kube/offline"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/view"
)

// keptArgs is the command line of why-kept.
type keptArgs struct {
	o            *options
	target       string
	reason, sort string
	all          bool
}

func newWhyKept(o *options) *cobra.Command {
	a := &keptArgs{o: o}
	cmd := &cobra.Command{
		Use:   "why-kept [NODE | NODECLAIM | nodepool/NAME]",
		Short: "Why is this node still here?",
		Long: `Why a node is neither removed nor replaced: every gate between it and its disruption, in the order of the decision, also those behind the first
that is closed. Without a name all nodes are answered for, the most expensive first.`,
		Example: `  # Why is this node kept?
  kubectl karp why-kept ip-10-0-31-7

  # Why has it not been replaced, although it drifted?
  kubectl karp why-kept ip-10-0-31-7 --reason Drifted

  # All nodes of a NodePool
  kubectl karp why-kept nodepool/default`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.target = args[0]
			}
			return a.run(cmd.Context())
		},
		ValidArgsFunction: o.completeNodes,
	}
	f := cmd.Flags()
	f.StringVar(&a.reason, "reason", "", "the reason to go: "+strings.Join(budget.Reasons(), ", ")+"; the default is the first that applies")
	f.StringVar(&a.sort, "sort-by", "waste", "order of a list: waste or name")
	f.BoolVar(&a.all, "all", false, "all nodes, as without a name")
	// These fail only for flags that do not exist.
	_ = cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(budget.Reasons(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("sort-by", cobra.FixedCompletions([]string{"waste", "name"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *keptArgs) run(ctx context.Context) error {
	switch {
	case a.reason != "" && !slices.Contains(budget.Reasons(), a.reason):
		return usageError("--reason %s: want one of %s", a.reason, strings.Join(budget.Reasons(), ", "))
	case a.sort != "waste" && a.sort != "name":
		return usageError("--sort-by %s: want waste or name", a.sort)
	case a.all && a.target != "":
		return usageError("give a name or --all, not both")
	}
	// Pods of all namespaces are on nodes.
	s, err := a.o.observe(ctx, "")
	if err != nil {
		return err
	}
	defer s.close()
	q := disrupt.Inquire(s.snapshot, disrupt.Options{})
	kind, name, typed := strings.Cut(a.target, "/")
	switch {
	case a.target == "":
		return a.list(s, q, "")
	case typed && slices.Contains([]string{"nodepool", "nodepools", "np"}, kind):
		if err := (&pendingArgs{pools: []string{name}}).knownPools(s); err != nil {
			return err
		}
		return a.list(s, q, name)
	case !typed:
		name = a.target
	case !slices.Contains([]string{"node", "nodes", "no", "nodeclaim", "nodeclaims"}, kind):
		return usageError("why-kept knows nodes, nodeclaims and nodepools, not %q", kind)
	}
	return a.one(s, q, name)
}

func (a *keptArgs) one(s *observed, q *disrupt.Inquiry, name string) error {
	k, ok := q.Why(name, a.reason)
	if !ok {
		names := q.Nodes()
		for _, n := range s.snapshot.Nodes {
			names = append(names, n.Name)
		}
		slices.Sort(names)
		return fmt.Errorf("no node and no NodeClaim %q%s", name, suggest(name, slices.Compact(names)))
	}
	answer := view.Kept{Answer: k, Zone: a.o.zone}
	doc := answer.Doc()
	doc.Sources = s.sourceLine()
	report := answer.Report(view.NewEnvelope("KeptReport", s.cluster, a.o.Version, a.o.now), s.sources)
	report.Partial = report.Partial || s.partial()
	if err := a.o.emit(doc, report, keptName(k)); err != nil {
		return err
	}
	return a.end(answer.Closed(), report.Partial)
}

func keptName(k reason.Kept) string {
	if k.Node == "" {
		return "nodeclaim/" + k.Claim
	}
	return "node/" + k.Node
}

func (a *keptArgs) end(closed, partial bool) error {
	switch {
	case a.o.exitCode && closed:
		return &exitError{code: ExitFinding}
	case a.o.strict && partial:
		return &exitError{code: ExitPartial}
	}
	return nil
}

func (a *keptArgs) list(s *observed, q *disrupt.Inquiry, pool string) error {
	var answers []reason.Kept
	for _, n := range q.Nodes() {
		if k, ok := q.Why(n, a.reason); ok && (pool == "" || k.Pool == pool) {
			answers = append(answers, k)
		}
	}
	slices.SortFunc(answers, func(x, y reason.Kept) int {
		byName := cmp.Compare(cmp.Or(x.Node, x.Claim), cmp.Or(y.Node, y.Claim))
		if a.sort == "name" {
			return byName
		}
		return cmp.Or(cmp.Compare(y.Price, x.Price), byName)
	})
	doc := view.KeptList(answers)
	doc.Sources = s.sourceLine()
	report := view.NewKeptReportList(answers, view.NewEnvelope("KeptReportList", s.cluster, a.o.Version, a.o.now), s.sources, a.o.zone)
	report.Partial = report.Partial || s.partial()
	var names []string
	for _, k := range answers {
		names = append(names, keptName(k))
	}
	if a.o.output == "name" && len(names) == 0 {
		return nil
	}
	if err := a.o.emit(doc, report, names...); err != nil {
		return err
	}
	return a.end(report.Answer.Going < report.Answer.Nodes, report.Partial)
}

// completeNodes offers the nodes that NodePools made.
func (o *options) completeNodes(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	claims, err := o.claimsNow(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, c := range claims {
		names = append(names, cmp.Or(c.Status.NodeName, c.Name))
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// claimsNow are the NodeClaims of the cluster.
func (o *options) claimsNow(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	if o.snapshot != "" {
		dir, err := offline.Read(o.snapshot)
		if err != nil {
			return nil, err
		}
		return dir.Objects.NodeClaims, nil
	}
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	list := &karpv1.NodeClaimList{}
	if err := c.List(ctx, list); err != nil {
		return nil, err
	}
	var out []*karpv1.NodeClaim
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}
