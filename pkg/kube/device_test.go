package kube_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/kube"
)

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDeviceClaimRefs holds S-357 to S-359: by name, by what the status says of a template, and nothing where it says that nothing is needed.
func TestDeviceClaimRefs(t *testing.T) {
	p := pod("p", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{
			{Name: "direct", ResourceClaimName: new("c")}, {Name: "made", ResourceClaimTemplateName: new("t")}, {Name: "none", ResourceClaimTemplateName: new("t")},
			{Name: "soon", ResourceClaimTemplateName: new("t")},
		}
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: new("p-made-x")}, {Name: "none"}}
	})
	s := kube.NewState(cluster.Settings{})
	s.SetPod(p)
	want := []cluster.DeviceClaimRef{{Name: "direct", Claim: "c"}, {Name: "made", Claim: "p-made-x"}, {Name: "soon"}}
	if diff := cmp.Diff(want, snapshot(t, s, nil).Pods[0].DeviceClaims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	s = kube.NewState(cluster.Settings{IgnoreDRA: true})
	s.SetPod(p)
	if got := snapshot(t, s, nil).Pods[0].DeviceClaims; got != nil {
		t.Errorf("claims %v although they are not simulated", got)
	}
}

func TestNewDeviceSlice(t *testing.T) {
	got := kube.NewDeviceSlice(decode[resourcev1.ResourceSlice](t, `
metadata: {name: s, ownerReferences: [{apiVersion: v1, kind: Node, name: n1, uid: u}]}
spec:
  driver: gpu.example.com
  pool: {name: p, generation: 2, resourceSliceCount: 3}
  perDeviceNodeSelection: true
  sharedCounters: [{name: card, counters: {mem: {value: 80Gi}}}]
  devices:
  - name: a
    nodeName: n1
    attributes: {model: {string: A}, other.example.com/rev: {version: 1.2.0}, numa: {ints: [0, 1]}}
    capacity: {mem: {value: 500m, requestPolicy: {default: 100m, validRange: {min: 100m, step: 50m}}}}
    consumesCounters: [{counterSet: card, counters: {mem: {value: 40Gi}}}]
    allowMultipleAllocations: true
    taints: [{key: broken, value: x, effect: NoSchedule}]
  - name: b
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n2]}], matchExpressions: [{key: zone, operator: In, values: [a]}]}, {}]}
  - name: c
    allNodes: true
`))
	want := &cluster.DeviceSlice{
		Name: "s", Driver: "gpu.example.com", Pool: "p", Generation: 2, Count: 3, OwnerNode: "n1",
		Counters: []catalog.Counters{{Name: "card", Values: map[string]int64{"mem": 80 << 30 * 1000}}},
		Devices: []cluster.PublishedDevice{
			{Reach: cluster.Reach{Node: "n1"}, Device: catalog.Device{
				Name: "a", Shared: true,
				Attributes: map[string]catalog.Attribute{
					"gpu.example.com/model": {Kind: "string", Values: []string{"A"}}, "other.example.com/rev": {Kind: "version", Values: []string{"1.2.0"}},
					"gpu.example.com/numa": {Kind: "int", List: true, Values: []string{"0", "1"}},
				},
				Capacity: map[string]catalog.DeviceCapacity{"gpu.example.com/mem": {Value: 500, Policy: &catalog.CapacityPolicy{Default: new(int64(100)), Ranged: true, Min: 100, Step: new(int64(50))}}},
				Consumes: []catalog.CounterUse{{Set: "card", Values: map[string]int64{"mem": 40 << 30 * 1000}}},
				Taints:   []constraint.Taint{{Key: "broken", Value: "x", Effect: "NoSchedule"}},
			}},
			{Device: catalog.Device{Name: "b"}, Reach: cluster.Reach{Terms: []cluster.ReachTerm{
				{Exprs: []constraint.Expr{{Key: "zone", Operator: "In", Values: []string{"a"}}}, Nodes: []string{"n2"}}, {Nodes: []string{}},
			}}},
			{Device: catalog.Device{Name: "c"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slice (-want +got):\n%s", diff)
	}
}

func TestNewDeviceClaim(t *testing.T) {
	got := kube.NewDeviceClaim(decode[resourcev1.ResourceClaim](t, `
metadata: {name: c, namespace: shop, uid: u}
spec:
  devices:
    requests:
    - name: r
      exactly: {deviceClassName: gpu, selectors: [{cel: {expression: "true"}}], adminAccess: true, capacity: {requests: {mem: 4Gi}}, tolerations: [{key: broken, operator: Exists}]}
    - name: s
      firstAvailable: [{name: x, deviceClassName: big, count: 2}, {name: z, deviceClassName: small, allocationMode: All}]
    constraints: [{requests: [r, s/x], matchAttribute: gpu.example.com/model}]
status:
  reservedFor: [{resource: pods, name: p, uid: pu}]
  allocation:
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}
    devices: {results: [{request: r, driver: d, pool: p, device: a, consumedCapacity: {mem: 1Gi}}]}
`))
	want := &cluster.DeviceClaim{
		Namespace: "shop", Name: "c", UID: "u", ReservedFor: []string{"pu"}, Bound: true,
		Requests: []cluster.DeviceRequest{
			{Name: "r", Ways: []cluster.DeviceWay{{Class: "gpu", Selectors: []string{"true"}, Count: 1, Admin: true, Capacity: map[string]int64{"mem": 4 << 30 * 1000},
				Tolerations: []constraint.Toleration{{Key: "broken", Operator: "Exists"}}}}},
			{Name: "s", Ways: []cluster.DeviceWay{{Name: "x", Class: "big", Count: 2}, {Name: "z", Class: "small", All: true}}},
		},
		Match:     []cluster.DeviceMatch{{Attribute: "gpu.example.com/model", Requests: []string{"r", "s/x"}}},
		Reach:     cluster.Reach{Terms: []cluster.ReachTerm{{Nodes: []string{"n1"}}}},
		Allocated: []cluster.AllocatedDevice{{Request: "r", Driver: "d", Pool: "p", Device: "a", Consumed: map[string]int64{"d/mem": 1 << 30 * 1000}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
	for name, spec := range map[string]string{ // S-375
		kube.UnsupportedConstraint: `{requests: [{name: r, exactly: {deviceClassName: gpu}}], constraints: [{distinctAttribute: a/b}]}`,
		kube.UnsupportedSelector:   `{requests: [{name: r, exactly: {deviceClassName: gpu, selectors: [{}]}}]}`,
		kube.UnsupportedRequest:    `{requests: [{name: r}]}`,
	} {
		c := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: *decode[resourcev1.DeviceClaim](t, spec)}}
		if got := kube.NewDeviceClaim(c).Problem; got != name {
			t.Errorf("problem of %s is %q, want %s", spec, got, name)
		}
	}
}

// TestSelectors evaluates expressions with Kubernetes' own environment on devices that exist and on those of instance types.
func TestSelectors(t *testing.T) {
	s := kube.NewState(cluster.Settings{})
	s.SetResourceSlice(decode[resourcev1.ResourceSlice](t, `
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: n
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices:
  - name: a
    attributes: {model: {string: A}, cores: {int: 8}, fast: {bool: true}, rev: {version: 1.10.0}}
    capacity: {mem: {value: 40Gi}}
  - name: b
    attributes: {model: {string: B}}
    allowMultipleAllocations: true
`))
	const domain = `device.attributes["gpu.example.com"]`
	tests := map[string]struct {
		want string
		bad  bool
	}{
		`device.driver == "gpu.example.com"`:                                      {want: "abt"},
		`device.driver == "other"`:                                                {},
		domain + `.model == "A"`:                                                  {want: "at"},
		domain + `.cores > 4`:                                                     {want: "a"}, // the others lack it, which is an error there and no match
		domain + `.?fast.orValue(false)`:                                          {want: "a"},
		domain + `.rev.isGreaterThan(semver("1.9.0"))`:                            {want: "a"},
		`device.capacity["gpu.example.com"].mem.compareTo(quantity("40Gi")) >= 0`: {want: "a"},
		`device.allowMultipleAllocations`:                                         {want: "b"},
		`device.nonsense`:                                                         {bad: true},
		`"text"`:                                                                  {bad: true},
		`((`:                                                                      {bad: true},
	}
	deviceClass := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	for text := range tests {
		deviceClass.Spec.Selectors = append(deviceClass.Spec.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: text}})
	}
	s.SetDeviceClass(deviceClass)
	template := catalog.Device{Name: "t", Attributes: map[string]catalog.Attribute{"gpu.example.com/model": {Kind: "string", Values: []string{"A"}}}}
	s.SetNodePool(pool("np", "default"))
	s.SetClass(class("default"))
	types := catalog.New([]catalog.InstanceType{{Name: "m", Devices: []catalog.DevicePool{{Driver: "gpu.example.com", Devices: []catalog.Device{template}}},
		Offerings: []catalog.Offering{{Zone: "z", Available: true}}}})
	catalogs := kube.CatalogFunc(func(context.Context, *awsv1.EC2NodeClass) (*catalog.Catalog, error) { return types, nil })
	got := snapshot(t, s, catalogs)
	keys := map[string]string{template.Key("gpu.example.com"): "t"}
	for i := range got.Devices.Slices[0].Devices {
		d := &got.Devices.Slices[0].Devices[i].Device
		keys[d.Key("gpu.example.com")] = d.Name
	}
	for text, tt := range tests {
		x := got.Devices.Selectors[text]
		if x == nil {
			t.Errorf("%s was not evaluated", text)
			continue
		}
		var names []byte
		for key := range x.Matches {
			names = append(names, keys[key]...)
		}
		slices.Sort(names)
		if string(names) != tt.want || (x.Problem != "") != tt.bad {
			t.Errorf("%s selects %q (problem %q), want %q, a problem: %v", text, names, x.Problem, tt.want, tt.bad)
		}
	}
	again := snapshot(t, s, catalogs)
	for text := range tests {
		if again.Devices.Selectors[text] != got.Devices.Selectors[text] {
			t.Errorf("%s was evaluated again although nothing had changed", text)
		}
	}
	s.DeleteDeviceClass("gpu")
	if left := snapshot(t, s, catalogs).Devices.Selectors; len(left) > 0 {
		t.Errorf("selectors %v are left of a class that is gone", left)
	}
}
