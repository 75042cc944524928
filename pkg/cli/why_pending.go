package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/view"
)

// pendingArgs is the command line of why-pending.
type pendingArgs struct {
	o        *options
	target   string
	file     string
	all      bool
	selector string
	pools    []string
	assume   map[string]string
	// fixes is how many ways out the text lists, reported how many the report does (0: all): all unless the user gave a number.
	fixes, reported int
	// watch prints again whenever the answer changes, watchOnly leaves out the first; wait blocks until the pods have a node, at most for timeout.
	watch, watchOnly, wait bool
	timeout                time.Duration
}

func newWhyPending(o *options) *cobra.Command {
	a := &pendingArgs{o: o}
	cmd := &cobra.Command{
		Use:     "why-pending [POD | TYPE/NAME | -f FILE]",
		Aliases: []string{"why"},
		Short:   "Why has this pod no node yet, and what would help?",
		Example: `  # Why is this pod pending?
  kubectl karp why-pending checkout-7d9f6c5b8-x2lqp -n shop

  # All pending pods of the cluster, grouped by answer
  kubectl karp why-pending -A

  # A pod that does not exist yet
  kubectl karp why-pending -f pod.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.target = args[0]
			}
			if cmd.Flags().Changed("max-fixes") {
				a.reported = a.fixes
			}
			return a.run(cmd.Context())
		},
		ValidArgsFunction: o.completePendingPods,
	}
	f := cmd.Flags()
	f.StringVarP(&a.file, "filename", "f", "", "ask about the pod in this file, - for standard input")
	f.BoolVarP(&a.all, "all-namespaces", "A", false, "all namespaces")
	f.StringVarP(&a.selector, "selector", "l", "", "label selector of the pods")
	f.StringSliceVar(&a.pools, "nodepool", nil, "answer for these NodePools only")
	f.StringToStringVar(&a.assume, "assume", nil, "test an idea: labels the pod would ask for, e.g. zone=us-east-1b")
	f.IntVar(&a.fixes, "max-fixes", 3, "how many fixes to print, 0 for all; reports for programs list all unless this is given")
	f.BoolVarP(&a.watch, "watch", "w", false, "print again whenever the answer changes")
	f.BoolVar(&a.watchOnly, "watch-only", false, "as --watch, without the present answer")
	f.BoolVar(&a.wait, "wait", false, "block until every pod in question has a node")
	f.DurationVar(&a.timeout, "timeout", 15*time.Minute, "how long --wait waits")
	_ = cmd.RegisterFlagCompletionFunc("nodepool", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return o.completePools(c, nil, func(p *karpv1.NodePool) string { return p.Name })
	})
	return cmd
}

func (a *pendingArgs) run(ctx context.Context) error {
	if a.file != "" && a.target != "" {
		return usageError("give a pod or -f FILE, not both")
	}
	if a.fixes < 0 {
		return usageError("--max-fixes must not be negative")
	}
	if _, err := labels.Parse(a.selector); err != nil {
		return usageError("--selector: %w", err)
	}
	if err := a.followable(); err != nil {
		return err
	}
	a.o.lines = a.watch || a.watchOnly
	f, err := a.once(ctx)
	if err != nil {
		return err
	}
	if !a.watchOnly {
		if err := f.print(); err != nil {
			return err
		}
	}
	switch {
	case a.watch || a.watchOnly:
		return a.follow(ctx, f)
	case a.wait:
		return a.await(ctx, f)
	case a.o.exitCode && f.blocked:
		return &exitError{code: ExitFinding}
	case a.o.strict && f.partial:
		return &exitError{code: ExitPartial}
	}
	return nil
}

// found is the answer of one look at the cluster.
type found struct {
	print            func() error
	blocked, partial bool
	// key changes when the answer does, not with every second that passes.
	key string
	// waiting are the pods that have no node yet.
	waiting []reason.Object
}

// once looks at the cluster and answers.
func (a *pendingArgs) once(ctx context.Context) (*found, error) {
	s, err := a.o.observe(ctx, a.o.namespace())
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := a.knownPools(s); err != nil {
		return nil, err
	}
	pods, single, err := a.pods(ctx, s)
	if err != nil {
		return nil, err
	}
	out := &found{partial: s.partial()}
	answers := make([]reason.Pending, len(pods))
	owners := map[reason.Object]reason.Object{}
	for i, p := range pods {
		x := explain.WhyPending(s.snapshot, engine.Policy{}, s.facts, explain.Question{Pod: p, Assume: assumed(a.assume), Pools: a.pools})
		if _, known := owners[x.Owner]; !known {
			owners[x.Owner] = topOwner(ctx, s, p, x.Owner)
		}
		x.Owner = owners[x.Owner]
		answers[i] = x
		out.add(p, x)
	}
	if single && s.agent != nil {
		s.sources = append(s.sources, s.agent.verdict(ctx, answers[0]))
	}
	out.print = func() error { return a.print(s, answers, single) }
	return out, nil
}

func (f *found) add(p *cluster.Pod, x reason.Pending) {
	f.blocked = f.blocked || x.Blocked
	f.partial = f.partial || len(x.Unknown) > 0
	f.key += fmt.Sprintf("%s %s %s %s %s\n", x.Pod, x.Code, x.Sub, x.Nearest, p.Node)
	for _, pool := range x.Pools {
		f.key += fmt.Sprintf("  %s %s\n", pool.Pool, pool.Code)
	}
	if c := x.Coming; c != nil {
		f.key += fmt.Sprintf("  %s %s %t %t\n", c.Claim, c.Node, c.Launched.IsZero(), c.Registered.IsZero())
	}
	if p.Node == "" {
		f.waiting = append(f.waiting, x.Pod)
	}
}

func (a *pendingArgs) print(s *observed, answers []reason.Pending, single bool) error {
	head := view.NewEnvelope("PendingReport", s.cluster, a.o.Version, a.o.now)
	items := []view.PendingReport{}
	var names []string
	for _, x := range answers {
		r := view.NewPendingReport(x, head, s.sources, view.PendingOptions{Zone: a.o.zone, Fixes: a.reported})
		r.Partial = r.Partial || s.partial()
		items = append(items, r)
		names = append(names, "pod/"+r.Subject.Name)
	}
	if single {
		doc := view.Pending(answers[0], view.PendingOptions{Zone: a.o.zone, Fixes: a.fixes, Wide: a.o.output == "wide"})
		doc.Sources = s.sourceLine()
		return a.o.emit(doc, items[0], names...)
	}
	groups := explain.Group(answers)
	doc := view.PendingList(groups, a.o.now, a.o.zone)
	doc.Sources = s.sourceLine()
	head.Kind = "PendingReportList"
	report := view.NewPendingReportList(groups, items, head, s.sources, a.o.now)
	report.Partial = report.Partial || s.partial()
	if a.o.output == "name" && len(names) == 0 {
		return nil
	}
	return a.o.emit(doc, report, names...)
}

// assumed spells out the short names that may be used with --assume.
func assumed(in map[string]string) map[string]string {
	short := map[string]string{"zone": corev1.LabelTopologyZone, "arch": corev1.LabelArchStable, "os": corev1.LabelOSStable, "type": corev1.LabelInstanceTypeStable,
		"capacity-type": "karpenter.sh/capacity-type", "ct": "karpenter.sh/capacity-type", "nodepool": "karpenter.sh/nodepool"}
	out := map[string]string{}
	for k, v := range in {
		if long := short[k]; long != "" {
			k = long
		}
		out[k] = v
	}
	return out
}

func (a *pendingArgs) knownPools(s *observed) error {
	var names []string
	for _, p := range s.snapshot.Pools {
		names = append(names, p.Name)
	}
	for _, p := range a.pools {
		if !slices.Contains(names, p) {
			return fmt.Errorf("NodePool %q not found%s", p, suggest(p, names))
		}
	}
	return nil
}

// pods selects the pods the question is about; single tells that it is about one.
func (a *pendingArgs) pods(ctx context.Context, s *observed) ([]*cluster.Pod, bool, error) {
	if a.file != "" {
		p, err := a.podFromFile(s)
		return []*cluster.Pod{p}, true, err
	}
	kind, name, typed := strings.Cut(a.target, "/")
	if !typed {
		kind, name = "pod", a.target
	}
	switch {
	case a.target == "":
		return a.pending(s, func(*cluster.Pod) bool { return true }), false, nil
	case isPod(kind):
		p, err := a.pod(s, name)
		return []*cluster.Pod{p}, true, err
	}
	owner, err := ownerKind(kind)
	if err != nil {
		return nil, false, err
	}
	pods := a.pending(s, func(p *cluster.Pod) bool { return ownedBy(s, p, owner, name) })
	if len(pods) == 0 {
		return nil, false, a.noPods(ctx, s, owner, name)
	}
	return pods, false, nil
}

func isPod(kind string) bool { return slices.Contains([]string{"pod", "pods", "po"}, kind) }

func ownerKind(kind string) (string, error) {
	kinds := map[string]string{"deploy": "Deployment", "deployment": "Deployment", "deployments": "Deployment", "rs": "ReplicaSet", "replicaset": "ReplicaSet", "replicasets": "ReplicaSet",
		"sts": "StatefulSet", "statefulset": "StatefulSet", "statefulsets": "StatefulSet", "job": "Job", "jobs": "Job", "ds": "DaemonSet", "daemonset": "DaemonSet", "daemonsets": "DaemonSet"}
	if k := kinds[strings.ToLower(kind)]; k != "" {
		return k, nil
	}
	return "", usageError("why-pending knows pods, deployments, replicasets, statefulsets, daemonsets and jobs, not %q", kind)
}

// ownedBy follows a pod to its controller. A Deployment owns through a ReplicaSet whose name is the Deployment's with a hash.
func ownedBy(_ *observed, p *cluster.Pod, kind, name string) bool {
	if kind == "Deployment" && p.Owner.Kind == "ReplicaSet" {
		i := strings.LastIndex(p.Owner.Name, "-")
		return i > 0 && p.Owner.Name[:i] == name
	}
	return p.Owner.Kind == kind && p.Owner.Name == name
}

// topOwner follows a ReplicaSet to its Deployment: by the ReplicaSet if it can be read, else by the hash that the Deployment controller puts on the
// pod and at the end of the ReplicaSet's name.
func topOwner(ctx context.Context, s *observed, p *cluster.Pod, owner reason.Object) reason.Object {
	if owner.Kind != "ReplicaSet" {
		return owner
	}
	for _, x := range s.dir.Objects.Others {
		rs, ok := x.(*appsv1.ReplicaSet)
		if !ok || rs.Namespace != p.Namespace || rs.Name != owner.Name {
			continue
		}
		return deploymentOf(rs, owner)
	}
	if s.reader != nil {
		rs := &appsv1.ReplicaSet{}
		if err := s.reader.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: owner.Name}, rs); err == nil {
			return deploymentOf(rs, owner)
		}
	}
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" {
		if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok {
			return reason.Object{Kind: "Deployment", Namespace: p.Namespace, Name: name}
		}
	}
	return owner
}

// deploymentOf is the Deployment behind a ReplicaSet, or the given owner if there is none.
func deploymentOf(rs *appsv1.ReplicaSet, otherwise reason.Object) reason.Object {
	for _, ref := range rs.OwnerReferences {
		if ref.Kind == "Deployment" {
			return reason.Object{Kind: ref.Kind, Namespace: rs.Namespace, Name: ref.Name, UID: string(ref.UID)}
		}
	}
	return otherwise
}

// pending lists the unbound pods in question, oldest first.
func (a *pendingArgs) pending(s *observed, match func(*cluster.Pod) bool) []*cluster.Pod {
	sel, err := labels.Parse(a.selector)
	if err != nil {
		sel = labels.Nothing() // parsed before
	}
	ns := a.o.namespace()
	var out []*cluster.Pod
	for _, p := range s.snapshot.Pods {
		waiting := p.Buffer == "" && p.Node == "" && p.Deleted.IsZero() && p.Phase != "Succeeded" && p.Phase != "Failed"
		here := a.all || ns == "" || p.Namespace == ns
		if waiting && here && sel.Matches(labels.Set(p.Labels)) && match(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(x, y *cluster.Pod) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return out
}

// pod finds one by name, or says what is there instead.
func (a *pendingArgs) pod(s *observed, name string) (*cluster.Pod, error) {
	ns := a.o.namespace()
	var found []*cluster.Pod
	var names []string
	for _, p := range s.snapshot.Pods {
		if p.Buffer != "" || ns != "" && !a.all && p.Namespace != ns {
			continue
		}
		names = append(names, p.Name)
		if p.Name == name {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("there are %d pods named %q; choose one with -n NAMESPACE", len(found), name)
	case ns == "":
		return nil, fmt.Errorf("pod %q not found%s", name, suggest(name, names))
	}
	return nil, fmt.Errorf("pod %q not found in namespace %q%s", name, ns, suggest(name, names))
}

// podFromFile reads a pod that does not exist yet and treats it as if the scheduler had found no node for it.
func (a *pendingArgs) podFromFile(s *observed) (*cluster.Pod, error) {
	objects, err := a.o.readManifests(a.file)
	if err != nil {
		return nil, err
	}
	if len(objects.Pods) != 1 {
		return nil, fmt.Errorf("%s: want exactly one Pod, found %d", a.file, len(objects.Pods))
	}
	return hypothetical(s, objects.Pods[0], a.o.namespace()), nil
}

// hypothetical turns a pod manifest into a pending pod.
func hypothetical(s *observed, pod *corev1.Pod, namespace string) *cluster.Pod {
	pod = pending(pod, namespace, s)
	state := s.dir.Objects.State(s.dir.Settings)
	state.SetPod(pod)
	for _, p := range state.Snapshot(context.Background(), s.snapshot.At, s.dir).Pods {
		if p.UID == string(pod.UID) {
			return p
		}
	}
	return nil
}
