package kube_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	autoscalingv1beta1 "github.com/karp-sh/karp/pkg/apis/autoscaling/v1beta1"
	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	karpv1alpha1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1alpha1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/units"
)

func nodeOverlay(t *testing.T, name, spec string) *karpv1alpha1.NodeOverlay {
	t.Helper()
	o := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
	if err := yaml.UnmarshalStrict([]byte(spec), &o.Spec); err != nil {
		t.Fatal(err)
	}
	return o
}

func poolOf(name, class string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.NodeClassRef = ref(class)
	return p
}

// shop sells one type to all classes but "closed", which nobody can ask about.
func shop() kube.Catalogs {
	c := catalog.New([]catalog.InstanceType{{
		Name: "m", Capacity: units.List{units.CPU: 2000}, Requirements: []constraint.Expr{{Key: constraint.InstanceTypeKey, Operator: constraint.In, Values: []string{"m"}}},
		Offerings: []catalog.Offering{{Zone: "z", CapacityType: catalog.Spot, Price: units.Dollar, Available: true}},
	}})
	return kube.CatalogFunc(func(_ context.Context, class *awsv1.EC2NodeClass) (*catalog.Catalog, error) {
		if class.Name == "closed" {
			return nil, errors.New("timeout")
		}
		return c, nil
	})
}

func price(s *cluster.Snapshot, pool string) string {
	p := s.Pool(pool)
	if p.Catalog == nil {
		return p.CatalogProblem
	}
	_, o := p.Catalog.Offer(0)
	return o.Price.Decimal()
}

// Overlays reach the catalogues of the pools they match; a pool whose types are unknown does not hold up the others; without the gate they do nothing.
func TestOverlays(t *testing.T) {
	s := kube.NewState(cluster.Settings{NodeOverlay: true})
	for _, name := range []string{"open", "closed"} {
		s.SetClass(&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
		s.SetNodePool(poolOf(name, name))
	}
	s.SetNodePool(poolOf("plain", "open"))
	catalogs := shop()
	s.SetNodeOverlay(nodeOverlay(t, "o", `{requirements: [{key: karpenter.sh/nodepool, operator: In, values: [open]}], priceAdjustment: "-50%", capacity: {acme.com/fuse: 2}}`))
	first := snapshot(t, s, catalogs)
	got := []string{price(first, "open"), price(first, "plain"), price(first, "closed")}
	if diff := cmp.Diff([]string{"0.5", "1", "timeout"}, got); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	if m := first.Pool("open").Catalog.Types()[0]; m.Capacity["acme.com/fuse"] != 2 || !m.PriceOverlay || !m.CapacityOverlay {
		t.Errorf("type %+v", m)
	}
	s.SetNodePool(poolOf("open", "open")) // as a change of its status does
	if again := snapshot(t, s, catalogs); again.Pool("open").Catalog != first.Pool("open").Catalog {
		t.Error("nothing changed, but the catalogue is another")
	}
	s.DeleteNodeOverlay("o")
	if got := price(snapshot(t, s, catalogs), "open"); got != "1" {
		t.Errorf("price without the overlay is %s, want 1", got)
	}
	s.SetNodeOverlay(nodeOverlay(t, "bad", `{requirements: [], price: "0.1", capacity: {aws.amazon.com/neuron: 1}}`)) // S-385
	if got := price(snapshot(t, s, catalogs), "open"); got != "1" {
		t.Errorf("price with an invalid overlay is %s, want 1", got)
	}
	s.SetNodeOverlay(nodeOverlay(t, "good", `{requirements: [], price: "0.1"}`))
	if got := price(snapshot(t, s, catalogs), "open"); got != "0.1" {
		t.Errorf("price is %s, want 0.1", got)
	}
	s.SetSettings(cluster.Settings{}) // S-387
	if got := price(snapshot(t, s, catalogs), "open"); got != "1" {
		t.Errorf("price with the gate off is %s, want 1", got)
	}
}

// Overlays that could not be read leave no pool evaluated.
func TestOverlaysUnknown(t *testing.T) {
	o := kube.Objects{
		Classes: []*awsv1.EC2NodeClass{{ObjectMeta: metav1.ObjectMeta{Name: "open"}}}, NodePools: []*karpv1.NodePool{poolOf("p", "open")},
		Unknown: []cluster.Unknown{{Kind: kube.NodeOverlayKind, Problem: "forbidden"}},
	}
	got := price(o.Snapshot(t.Context(), at, cluster.Settings{NodeOverlay: true}, shop()), "p")
	if want := "node overlays are not evaluated for this pool yet: forbidden"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFeedOverlays(t *testing.T) {
	inWorldWith(t, cluster.Settings{NodeOverlay: true}, shop(), func(t *testing.T, w *world, feed *kube.Feed) {
		w.source(&awsv1.EC2NodeClass{}).Add(&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "open", UID: "open"}})
		w.source(&karpv1.NodePool{}).Add(poolOf("p", "open"))
		w.source(&karpv1alpha1.NodeOverlay{}).Add(nodeOverlay(t, "a", `{requirements: [], price: "0.1", weight: 5}`))
		w.source(&karpv1alpha1.NodeOverlay{}).Add(nodeOverlay(t, "b", `{requirements: [], price: "0.1", weight: 5, capacity: {acme.com/fuse: 3}}`))
		if _, _, err := feed.Overlays(t.Context()); !errors.Is(err, kube.ErrNotSynced) {
			t.Errorf("before the feed is synced: %v", err)
		}
		register(t, w, feed)
		verdicts, complete, err := feed.Overlays(t.Context())
		if err != nil || !complete || len(verdicts) != 2 || verdicts[0].Reason != "Conflict" || verdicts[1].Reason != "" || verdicts[0].Generation != 1 { // S-382
			t.Errorf("verdicts %+v, %v", verdicts, err)
		}
		w.source(&karpv1.NodePool{}).Add(poolOf("classless", "missing"))
		settle()
		if _, complete, err := feed.Overlays(t.Context()); err != nil || complete {
			t.Errorf("a pool without types: complete %v, %v", complete, err)
		}
		mine := []catalog.InstanceType{{Name: "m", Offerings: []catalog.Offering{{Zone: "z", Price: 7}}}}
		got, err := feed.Overlay(t.Context(), "p", mine)
		if err != nil || got[0].Offerings[0].Price.Decimal() != "0.1" || mine[0].Offerings[0].Price != 7 {
			t.Errorf("types for a launch %+v, %v; given %+v", got, err, mine)
		}
		if got, err := feed.Overlay(t.Context(), "other", mine); err != nil || got[0].Offerings[0].Price != 7 {
			t.Errorf("types for another pool %+v, %v", got, err)
		}
		if diff := cmp.Diff(units.List{"acme.com/fuse": 3}, feed.OverlayCapacity("p", "m")); diff != "" {
			t.Errorf("promised capacity (-want +got):\n%s", diff)
		}
		if got := feed.OverlayCapacity("p", "n"); got != nil {
			t.Errorf("promised capacity of an unknown type: %v", got)
		}
	})
}

func podTemplate(cpu string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName: "pinned",
			Volumes:  []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}},
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}, Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}},
		},
	}
}

func capacityBuffer(t *testing.T, spec string, replicas int32, ready bool) *autoscalingv1beta1.CapacityBuffer {
	t.Helper()
	b := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "spare", UID: "u"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &b.Spec); err != nil {
		t.Fatal(err)
	}
	b.Status.Replicas = &replicas
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	b.Status.Conditions = []metav1.Condition{{Type: autoscalingv1beta1.ConditionReadyForProvisioning, Status: status}}
	return b
}

// Ready buffers are virtual pods of their template, whatever comes first, and follow it (S-397).
func TestBuffers(t *testing.T) {
	s := kube.NewState(cluster.Settings{CapacityBuffer: true})
	spec := `{podTemplateRef: {name: t}, replicas: 2}`
	s.SetCapacityBuffer(capacityBuffer(t, spec, 2, true))
	count := func(want int, what string) []*cluster.Pod {
		t.Helper()
		pods := snapshot(t, s, nil).Pods
		if len(pods) != want {
			t.Errorf("%s: %d virtual pods, want %d", what, len(pods), want)
		}
		return pods
	}
	count(0, "without template")
	s.SetPodTemplate(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "t"}, Template: podTemplate("1")})
	pods := count(2, "with template")
	want := units.List{"cpu": 1000, "memory": 1 << 30, "pods": 1}
	if p := pods[0]; p.Node != "" || p.Buffer != "shop/spare" || p.UID != "u-1" || len(p.Shape.Volumes) != 0 || !cmp.Equal(want, p.Shape.Requests) || p.Labels["app"] != "web" {
		t.Errorf("pod %+v of shape %+v", p, p.Shape)
	}
	if unbound := snapshot(t, s, nil).Unbound(); len(unbound) != 1 || len(unbound[0].Pods) != 2 {
		t.Errorf("groups %v", unbound)
	}
	s.SetCapacityBuffer(capacityBuffer(t, spec, 5, true))
	count(5, "grown")
	s.SetPodTemplate(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "t"}, Template: podTemplate("3")})
	if pods := count(5, "another template"); pods[4].Shape.Requests["cpu"] != 3000 {
		t.Errorf("requests %v, want those of the new template", pods[4].Shape.Requests)
	}
	s.SetCapacityBuffer(capacityBuffer(t, spec, 5, false))
	count(0, "not ready")
	s.SetCapacityBuffer(capacityBuffer(t, `{scalableRef: {kind: Deployment, name: d}, percentage: 50}`, 1, true))
	s.SetDeployment(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d"}, Spec: appsv1.DeploymentSpec{Template: podTemplate("1")}})
	count(1, "of a workload")
	s.DeleteDeployment("shop", "d")
	count(0, "workload gone")
	s.SetStatefulSet(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d"}, Spec: appsv1.StatefulSetSpec{Template: podTemplate("1")}})
	s.SetCapacityBuffer(capacityBuffer(t, `{scalableRef: {apiGroup: apps, kind: StatefulSet, name: d}, percentage: 50}`, 1, true))
	count(1, "of a StatefulSet")
	s.DeleteCapacityBuffer("shop", "spare")
	count(0, "deleted")
}

// S-396, and what the sizes of S-390 and S-391 come from.
func TestResolveBuffer(t *testing.T) {
	two, zero := int32(2), int32(0)
	exist := map[string]client.Object{
		"PodTemplate t": &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Template: podTemplate("1")},
		"Deployment d":  &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &two, Template: podTemplate("1")}},
		"StatefulSet s": &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: podTemplate("1")}},
		"ReplicaSet z":  &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &zero, Template: podTemplate("1")}},
	}
	get := func(o client.Object, namespace, name string) (bool, error) {
		switch x := o.(type) {
		case *corev1.PodTemplate:
			if y, ok := exist["PodTemplate "+name]; ok {
				*x = *y.(*corev1.PodTemplate)
				return true, nil
			}
		case *appsv1.Deployment:
			if name == "broken" {
				return false, errors.New("timeout")
			}
			if y, ok := exist["Deployment "+name]; ok {
				*x = *y.(*appsv1.Deployment)
				return true, nil
			}
		case *appsv1.StatefulSet:
			if y, ok := exist["StatefulSet "+name]; ok {
				*x = *y.(*appsv1.StatefulSet)
				return true, nil
			}
		case *appsv1.ReplicaSet:
			if y, ok := exist["ReplicaSet "+name]; ok {
				*x = *y.(*appsv1.ReplicaSet)
				return true, nil
			}
		default:
			t.Errorf("asked for %T in %s", o, namespace)
		}
		return false, nil
	}
	for name, tt := range map[string]struct {
		spec, reason, template string
		replicas               int32
		fails                  bool
	}{
		"template":            {spec: `{podTemplateRef: {name: t}, replicas: 3}`, reason: "Resolved", replicas: 3, template: "t 7"},
		"limits and requests": {spec: `{podTemplateRef: {name: t}, limits: {cpu: 5, memory: 4Gi, pods: 1}}`, reason: "Resolved", replicas: 4, template: "t 7"},
		"template missing":    {spec: `{podTemplateRef: {name: x}, replicas: 3}`, reason: "PodTemplateNotFound"},
		"workload":            {spec: `{scalableRef: {kind: Deployment, name: d}, percentage: 60}`, reason: "Resolved", replicas: 2},
		"nil replicas":        {spec: `{scalableRef: {apiGroup: apps, kind: StatefulSet, name: s}, percentage: 50}`, reason: "Resolved", replicas: 1},
		"no replicas":         {spec: `{scalableRef: {kind: ReplicaSet, name: z}, percentage: 50, limits: {cpu: 5}}`, reason: "Resolved"},
		"workload missing":    {spec: `{scalableRef: {kind: Deployment, name: x}, replicas: 1}`, reason: "ScalableRefNotFound"},
		"unsupported kind":    {spec: `{scalableRef: {apiGroup: batch, kind: CronJob, name: x}, replicas: 1}`, reason: "ResolutionFailed"},
		"unsupported in apps": {spec: `{scalableRef: {kind: DaemonSet, name: x}, replicas: 1}`, reason: "ResolutionFailed"},
		"neither":             {spec: `{replicas: 1}`, reason: "ResolutionFailed"},
		"API error":           {spec: `{scalableRef: {kind: Deployment, name: broken}, replicas: 1}`, reason: "ResolutionFailed", fails: true},
	} {
		got, err := kube.ResolveBuffer(capacityBuffer(t, tt.spec, 0, false), get)
		from := ""
		if got.Template != "" {
			from = fmt.Sprint(got.Template, " ", got.Generation)
		}
		if got.Reason != tt.reason || got.Ready != (tt.reason == "Resolved") || got.Replicas != tt.replicas || from != tt.template || (err != nil) != tt.fails {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Pods without constraints get the defaults, selected by their controller and Services, whatever comes first, and follow them (S-269, S-272, S-286).
func TestDefaultSpread(t *testing.T) {
	zone := cluster.Spread{Key: constraint.ZoneKey, MaxSkew: 1, Hard: true, HonorAffinity: true}
	s := kube.NewState(cluster.Settings{DefaultSpread: []cluster.Spread{zone}})
	owned := func(name string, controller bool) *corev1.Pod {
		return pod(name, func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "web", "tier": "fe"}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", Controller: &controller}}
		})
	}
	s.SetPod(owned("controlled", true))
	s.SetPod(owned("owned", false))
	s.SetPod(pod("declares", func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "web", "tier": "fe"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "host", MaxSkew: 2}}
	}))
	selectors := func() map[string]string {
		out := map[string]string{}
		for _, p := range snapshot(t, s, nil).Pods {
			for _, c := range p.Shape.Spread {
				out[p.Name] += c.Key[:4] + " "
				if c.Selector != nil {
					out[p.Name] += fmt.Sprint(c.Selector.MatchLabels, c.Selector.Exprs)
				}
			}
		}
		return out
	}
	check := func(what string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, selectors()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("alone", map[string]string{"declares": "host "})
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "rs"}, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	s.SetReplicaSet(rs)
	check("with ReplicaSet", map[string]string{"declares": "host ", "controlled": "topo map[] [{app In [web] 0}]"})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"tier": "fe"}}}
	s.SetService(service)
	s.SetService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"tier": "be"}}})
	s.SetService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "s"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
	check("with Service", map[string]string{"declares": "host ", "controlled": "topo map[tier:fe] [{app In [web] 0}]", "owned": "topo map[tier:fe] []"})
	s.DeleteReplicaSet("shop", "rs")
	check("ReplicaSet gone (S-284)", map[string]string{"declares": "host ", "controlled": "topo map[tier:fe] []", "owned": "topo map[tier:fe] []"})
	s.DeleteService("shop", "s")
	check("alone again", map[string]string{"declares": "host "})
}
