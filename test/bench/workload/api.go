package workload

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/units"
)

// Settings of all workloads.
func Settings() cluster.Settings {
	return cluster.Settings{IgnoreDRA: true, StaticCapacity: true, ReservedCapacity: true, PlacementHints: true}
}

// API expands the workload into API objects as a watch would deliver them: no two share anything.
func (w *Workload) API(c *catalog.Catalog) (*kube.Objects, error) {
	values, err := w.Objects(c)
	if err != nil {
		return nil, err
	}
	o := &kube.Objects{
		Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}},
		NodePools:  []*karpv1.NodePool{apiPool(values.Pool)}, Classes: []*awsv1.EC2NodeClass{apiClass()},
	}
	for _, n := range values.Nodes {
		o.Nodes = append(o.Nodes, APINode(n))
	}
	for _, x := range values.Claims {
		o.NodeClaims = append(o.NodeClaims, apiClaim(x))
	}
	for _, p := range values.Pods {
		o.Pods = append(o.Pods, APIPod(p))
	}
	return o, nil
}

func ready() []metav1.Condition {
	return []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(Epoch())}}
}

func classRef() karpv1.NodeClassRef {
	group, kind := kube.ClassKind()
	return karpv1.NodeClassRef{Group: group, Kind: kind, Name: "default"}
}

func apiPool(p *cluster.Pool) *karpv1.NodePool {
	out := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: types.UID(p.UID), Generation: p.Generation}}
	out.Spec.Template.Spec.NodeClassRef = classRef()
	out.Spec.Template.Spec.Requirements = kube.APIRequirements(p.Requirements)
	out.Spec.Limits = kube.Quantities(p.Limits)
	out.Status.Conditions = ready()
	return out
}

func apiClass() *awsv1.EC2NodeClass {
	out := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	out.Status.Conditions = ready()
	return out
}

// APINode is the Node object of a node.
func APINode(n *cluster.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID(n.UID), CreationTimestamp: metav1.NewTime(n.Created), Labels: maps.Clone(n.Labels)},
		Spec:       corev1.NodeSpec{ProviderID: n.ProviderID},
		Status: corev1.NodeStatus{Capacity: kube.Quantities(n.Capacity), Allocatable: kube.Quantities(n.Allocatable),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func apiClaim(c *cluster.Claim) *karpv1.NodeClaim {
	out := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: c.Name, UID: types.UID(c.UID), CreationTimestamp: metav1.NewTime(c.Created), Labels: maps.Clone(c.Labels)}}
	out.Spec.NodeClassRef = classRef()
	out.Status.ProviderID, out.Status.NodeName = c.ProviderID, c.NodeName
	out.Status.Capacity, out.Status.Allocatable = kube.Quantities(c.Capacity), kube.Quantities(c.Allocatable)
	for _, t := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized} {
		out.Status.Conditions = append(out.Status.Conditions, metav1.Condition{Type: t, Status: metav1.ConditionTrue})
	}
	return out
}

// APIPod is the Pod object of a pod, with what admission adds to every pod.
func APIPod(p *cluster.Pod) *corev1.Pod {
	yes, seconds, expiry, mode := true, int64(300), int64(3607), int32(0o644)
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: uid(p.UID), CreationTimestamp: metav1.NewTime(p.Created), Labels: maps.Clone(p.Labels),
			GenerateName: strings.TrimRight(p.Name, "0123456789"), ResourceVersion: "1000",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: p.Owner.APIVersion, Kind: p.Owner.Kind, Name: p.Owner.Name, UID: uid(p.Owner.Name), Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: corev1.PodSpec{
			NodeName: p.Node, SchedulerName: corev1.DefaultSchedulerName, ServiceAccountName: "default", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/app", ImagePullPolicy: corev1.PullIfNotPresent,
				Resources:    corev1.ResourceRequirements{Requests: requests(p.Shape.Requests)},
				VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode,
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expiry, Path: "token"}}}}}}},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
				{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPhase(p.Phase), Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}},
	}
	if p.Scheduled != "" {
		out.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: p.Scheduled, Message: "0/0 nodes are available"}
	}
	ties(&out.Spec, p)
	return out
}

// uid is like those of the API server: random to look at, the same for the same name.
func uid(name string) types.UID {
	sum := sha256.Sum256([]byte(name))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

// requests writes amounts as people do, so that they are parsed like those of a real pod.
func requests(l units.List) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range l.Names() {
		switch name {
		case units.Pods:
		case units.CPU:
			out[corev1.ResourceCPU] = resource.MustParse(strconv.FormatInt(l[name], 10) + "m")
		default:
			out[corev1.ResourceName(name)] = resource.MustParse(fmt.Sprintf("%dMi", l[name]>>20))
		}
	}
	return out
}

// ties are the constraints a workload's pod can have.
func ties(spec *corev1.PodSpec, p *cluster.Pod) {
	selector := func(s *cluster.Selector) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: maps.Clone(s.MatchLabels)}
	}
	for _, s := range p.Shape.Spread {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{MaxSkew: s.MaxSkew, TopologyKey: s.Key,
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector(s.Selector)})
	}
	anti := &corev1.PodAntiAffinity{}
	for _, t := range p.Shape.AntiAffinity.Required {
		anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution,
			corev1.PodAffinityTerm{TopologyKey: t.TopologyKey, LabelSelector: selector(t.Selector)})
	}
	for _, t := range p.Shape.AntiAffinity.Preferred {
		anti.PreferredDuringSchedulingIgnoredDuringExecution = append(anti.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{
			Weight: t.Weight, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: t.Term.TopologyKey, LabelSelector: selector(t.Term.Selector)}})
	}
	if len(anti.RequiredDuringSchedulingIgnoredDuringExecution)+len(anti.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: anti}
	}
}
