package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/budget"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/view"
)

// simulateArgs is the command line of simulate.
type simulateArgs struct {
	o           *options
	files       []string
	removeNodes []string
	// changes are the fields of NodePools that the files change.
	changes []view.FieldChange
}

func newSimulate(o *options) *cobra.Command {
	a := &simulateArgs{o: o}
	cmd := &cobra.Command{
		Use:   "simulate -f FILE",
		Short: "What would happen if I applied these NodePools, pods or workloads?",
		Long: `What would happen if these NodePools, pods or workloads were applied: which pods would get a place, which nodes would drift, what it would cost.

Nothing is written and the cloud is not asked. A NodePool in the file replaces the one of its name; pods, and the replicas of workloads (Deployment,
StatefulSet, ReplicaSet, Job), that do not exist yet are added as pending pods. The rollout of a changed pod template is not simulated.`,
		Example: `  # What would this change of a NodePool do?
  kubectl karp simulate -f nodepool.yaml

  # Where would this Deployment go, and at what price?
  kubectl karp simulate -f deployment.yaml -n shop`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringSliceVarP(&a.files, "filename", "f", nil, "file or directory with the objects, - for standard input (required unless --remove-node is given)")
	f.StringSliceVar(&a.removeNodes, "remove-node", nil, "also take this node away")
	return cmd
}

func (a *simulateArgs) run(ctx context.Context) error {
	if len(a.files) == 0 && len(a.removeNodes) == 0 {
		return usageError("give -f FILE, or --remove-node NODE")
	}
	s, err := a.o.observe(ctx, a.o.namespace())
	if err != nil {
		return err
	}
	defer s.close()
	proposal, names, err := a.proposal(ctx, s)
	if err != nil {
		return err
	}
	effect := explain.WhatIf(s.snapshot, engine.Policy{}, proposal)
	sim := view.Simulation{Objects: names, Changes: a.changes, Effect: effect}
	doc := sim.Doc()
	doc.Sources = s.sourceLine()
	head := view.NewEnvelope("SimulateReport", s.cluster, a.o.Version, a.o.now)
	report := sim.Report(head, s.sources)
	report.Partial = report.Partial || s.partial()
	if err := a.o.emit(doc, report, kubectlNames(names)...); err != nil {
		return err
	}
	switch {
	case a.o.exitCode && sim.Homeless() > 0:
		return &exitError{code: ExitFinding}
	case a.o.strict && (s.partial() || len(effect.Unknown) > 0):
		return &exitError{code: ExitPartial}
	}
	return nil
}

// kubectlNames spells "NodePool default" as nodepool/default.
func kubectlNames(objects []string) []string {
	var out []string
	for _, o := range objects {
		kind, name, _ := strings.Cut(o, " ")
		out = append(out, strings.ToLower(kind)+"/"+name)
	}
	return out
}

// readManifests reads the objects in a file or directory, or on standard input.
func (o *options) readManifests(path string) (*kube.Objects, error) {
	if path == "-" {
		text, err := io.ReadAll(o.Streams.In)
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return kube.ReadBytes("standard input", text)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("--filename: %w", err)
	}
	return kube.ReadFiles(path)
}

// proposal turns the files into what the engine tries.
func (a *simulateArgs) proposal(ctx context.Context, s *observed) (explain.Proposal, []string, error) {
	p := explain.Proposal{RemoveNodes: a.removeNodes}
	if err := knownNodes(s, a.removeNodes); err != nil {
		return p, nil, err
	}
	state := s.dir.Objects.State(s.dir.Settings)
	var names, pools []string
	uids := map[string]bool{}
	for _, file := range a.files {
		objects, err := a.o.readManifests(file)
		if err != nil {
			return p, nil, err
		}
		if len(objects.Classes) > 0 {
			return p, nil, fmt.Errorf("%s: simulate does not try changes of an EC2NodeClass; give NodePools, pods or workloads", file)
		}
		for _, pool := range objects.NodePools {
			proposed, err := proposedPool(s, pool)
			if err != nil {
				return p, nil, fmt.Errorf("%s: %w", file, err)
			}
			changes, err := poolChanges(poolNamed(s, pool.Name), proposed)
			if err != nil {
				return p, nil, err
			}
			a.changes = append(a.changes, changes...)
			state.SetNodePool(proposed)
			pools = append(pools, pool.Name)
			names = append(names, "NodePool "+pool.Name)
		}
		for _, pod := range newPods(s, objects, a.o.namespace(), &names) {
			state.SetPod(pod)
			uids[string(pod.UID)] = true
		}
	}
	if len(names) == 0 && len(a.removeNodes) == 0 {
		return p, nil, fmt.Errorf("nothing to simulate in the files: want NodePools, pods or workloads")
	}
	changed := state.Snapshot(ctx, s.snapshot.At, s.dir)
	for _, pool := range changed.Pools {
		if slices.Contains(pools, pool.Name) {
			p.Pools = append(p.Pools, pool)
		}
	}
	p.Pods = slices.Collect(func(yield func(*cluster.Pod) bool) {
		for _, pod := range changed.Pods {
			if uids[pod.UID] && !yield(pod) {
				return
			}
		}
	})
	return p, names, nil
}

// newPods are the pods that the files add to those that exist, and the names of what they come from: a pod that exists is left as it is, and of
// a workload that exists only the replicas beyond its pods are new.
func newPods(s *observed, objects *kube.Objects, namespace string, names *[]string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range objects.Pods {
		*names = append(*names, "Pod "+pod.Name)
		pod = pending(pod, namespace, s)
		if !slices.ContainsFunc(s.snapshot.Pods, func(p *cluster.Pod) bool { return p.Namespace == pod.Namespace && p.Name == pod.Name }) {
			out = append(out, pod)
		}
	}
	for _, x := range objects.Others {
		pods := podsOf(x)
		if pods == nil {
			continue
		}
		kind := x.GetObjectKind().GroupVersionKind().Kind
		*names = append(*names, kind+" "+x.GetName())
		for i, pod := range pods {
			if pod = pending(pod, namespace, s); i >= running(s, kind, pod.Namespace, x.GetName()) {
				out = append(out, pod)
			}
		}
	}
	return out
}

// running counts the pods of a workload that have neither ended nor been deleted.
func running(s *observed, kind, namespace, name string) int {
	n := 0
	for _, p := range s.snapshot.Pods {
		if p.Namespace == namespace && p.Deleted.IsZero() && !p.Terminal() && ownedBy(s, p, kind, name) {
			n++
		}
	}
	return n
}

// poolNamed is the present NodePool of that name, nil if there is none.
func poolNamed(s *observed, name string) *karpv1.NodePool {
	for _, p := range s.dir.Objects.NodePools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

func knownNodes(s *observed, remove []string) error {
	var names []string
	for _, n := range s.snapshot.Nodes {
		names = append(names, n.Name)
	}
	for _, n := range remove {
		if !slices.Contains(names, n) {
			return fmt.Errorf("node %q not found%s", n, suggest(n, names))
		}
	}
	return nil
}

// proposedPool completes a manifest as the API server would, and judges a new pool as Ready.
func proposedPool(s *observed, pool *karpv1.NodePool) (*karpv1.NodePool, error) {
	pool = pool.DeepCopy()
	if pool.Spec.Template.Spec.ExpireAfter == nil {
		pool.Spec.Template.Spec.ExpireAfter = new(karpv1.DurationOrNever("720h"))
	}
	if err := pool.RuntimeValidate(); err != nil {
		return nil, fmt.Errorf("NodePool %s: %w", pool.Name, err)
	}
	// The API server checks the form alone, and a budget that cannot be evaluated closes the pool to every disruption.
	for i, b := range kube.NewPool(pool).Disruption.Budgets {
		if _, err := budget.Parse(b); err != nil {
			return nil, fmt.Errorf("NodePool %s: spec.disruption.budgets[%d]: %w; such a budget closes the pool to all disruption", pool.Name, i, err)
		}
	}
	if pool.Annotations == nil {
		pool.Annotations = map[string]string{}
	}
	pool.Annotations[karpv1.NodePoolHashAnnotation] = pool.Hash()
	pool.Annotations[karpv1.NodePoolHashVersionAnnotation] = karpv1.HashVersion
	if old := poolNamed(s, pool.Name); old != nil {
		pool.UID, pool.Generation, pool.Status = old.UID, old.Generation+1, old.Status
		stampLike(pool, old)
		return pool, nil
	}
	pool.UID, pool.Generation = types.UID("proposed-"+pool.Name), 1
	pool.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: 1}}
	return pool, nil
}

// stampLike gives a proposed pool the hash that whoever stamped the present one would: the same if the template is equal, another one if not. The
// version stays, because a cluster may be stamped by Karpenter, whose hashes are opaque to us.
func stampLike(pool, old *karpv1.NodePool) {
	hash, version := old.Annotations[karpv1.NodePoolHashAnnotation], old.Annotations[karpv1.NodePoolHashVersionAnnotation]
	if hash == "" || version == karpv1.HashVersion {
		return
	}
	if pool.Hash() != old.Hash() {
		hash = "proposed-" + pool.Hash()
	}
	pool.Annotations[karpv1.NodePoolHashAnnotation], pool.Annotations[karpv1.NodePoolHashVersionAnnotation] = hash, version
}

// pending treats a manifest as a pod that the scheduler has looked at: it found no node for it, or leaves it alone because of a scheduling gate.
func pending(pod *corev1.Pod, namespace string, s *observed) *corev1.Pod {
	pod = pod.DeepCopy()
	if pod.Namespace == "" {
		pod.Namespace = namespace
	}
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	if pod.UID == "" {
		pod.UID = "hypothetical-" + podUID(pod)
	}
	reason := corev1.PodReasonUnschedulable
	if len(pod.Spec.SchedulingGates) > 0 {
		reason = corev1.PodReasonSchedulingGated
	}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(s.snapshot.At)}}
	return pod
}

// podsOf are the pods a workload would make.
func podsOf(x client.Object) []*corev1.Pod {
	var template *corev1.PodTemplateSpec
	var replicas *int32
	switch w := x.(type) {
	case *appsv1.Deployment:
		template, replicas = &w.Spec.Template, w.Spec.Replicas
	case *appsv1.StatefulSet:
		template, replicas = &w.Spec.Template, w.Spec.Replicas
	case *appsv1.ReplicaSet:
		template, replicas = &w.Spec.Template, w.Spec.Replicas
	case *batchv1.Job:
		template, replicas = &w.Spec.Template, w.Spec.Parallelism
	default:
		return nil
	}
	n := int32(1)
	if replicas != nil {
		n = *replicas
	}
	out := []*corev1.Pod{}
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", x.GetName(), i), x.GetNamespace()
		out = append(out, pod)
	}
	return out
}
