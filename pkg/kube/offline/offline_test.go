package offline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/karp-sh/karp/pkg/kube/offline"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	class = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: std}
spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{tags: {a: b}}], securityGroupSelectorTerms: [{tags: {a: b}}]}
status:
  subnets: [{id: subnet-1, zone: eu-west-1a, zoneID: euw1-az1}]
  conditions: [{type: Ready, status: "True"}]
`
	pool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec: {template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: std}}}}
status: {conditions: [{type: Ready, status: "True"}]}
`
	deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: karpenter, namespace: kube-system}
spec:
  selector: {}
  template: {spec: {containers: [{name: controller, env: [
    {name: FEATURE_GATES, value: "StaticCapacity=false"}, {name: MIN_VALUES_POLICY, value: BestEffort}, {name: VM_MEMORY_OVERHEAD_PERCENT, value: "0.1"}]}]}}
`
)

func TestWithoutCatalogueTheEmbeddedFactsAnswer(t *testing.T) {
	d, err := offline.Read(write(t, map[string]string{"class.yaml": class, "pool.yaml": pool}))
	if err != nil {
		t.Fatal(err)
	}
	s := d.Snapshot(t.Context(), time.Date(2026, 9, 8, 12, 20, 0, 0, time.UTC))
	c := s.Pools[0].Catalog
	if c == nil || len(c.Types()) < 100 {
		t.Fatalf("pool default has no catalogue of the region: %v (%s)", c, s.Pools[0].CatalogProblem)
	}
	for _, o := range c.Types()[0].Offerings {
		if o.Zone != "eu-west-1a" {
			t.Errorf("offering in zone %s, the class has a subnet in eu-west-1a only", o.Zone)
		}
	}
}

func TestSettingsComeFromTheController(t *testing.T) {
	d, err := offline.Read(write(t, map[string]string{"class.yaml": class, "deploy.yaml": deployment}))
	if err != nil {
		t.Fatal(err)
	}
	if d.SettingsFrom != "kube-system/karpenter" || d.Settings.StaticCapacity || !d.Settings.BestEffortMinValues || d.Settings.VMMemoryOverhead != 100_000 {
		t.Errorf("settings of %q: %+v", d.SettingsFrom, d.Settings)
	}
}

func TestBadExtrasAreNamed(t *testing.T) {
	const version = "apiVersion: cli.karp.sh/v1alpha1\n"
	for _, c := range []struct{ file, text, want string }{
		{offline.CatalogueFile, version + "kind: Other", "catalogue.yaml: reading the catalogue: is cli.karp.sh/v1alpha1 Other"},
		{offline.OfferingsFile, version + "kind: Other", "offerings.yaml: reading offerings: is cli.karp.sh/v1alpha1 Other"},
		{offline.InfoFile, version + "kind: Other", `snapshot.yaml: kind is "Other", want SnapshotInfo`},
		{offline.InfoFile, version + "kind: SnapshotInfo\nwhen: now", "snapshot.yaml: "},
	} {
		_, err := offline.Read(write(t, map[string]string{"class.yaml": class, c.file: c.text}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: got %v, want an error with %q", c.file, c.text, err, c.want)
		}
	}
}

// What the controller's gates and settings turn on counts offline, too: overlays correct prices, buffers are virtual pods, and pods are spread.
func TestGatesCountOffline(t *testing.T) {
	const gated = `apiVersion: apps/v1
kind: Deployment
metadata: {name: karp-agent, namespace: kube-system}
spec:
  selector: {}
  template: {spec: {containers: [{name: controller, env: [
    {name: FEATURE_GATES, value: "NodeOverlay=true,CapacityBuffer=true"},
    {name: SCHEDULER_CONFIG, value: '{podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}'}]}]}}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: cheap}
spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}], price: "0.001"}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: t, namespace: shop}
template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare, namespace: shop, uid: u}
spec: {podTemplateRef: {name: t}, replicas: 2}
status: {replicas: 2, conditions: [{type: ReadyForProvisioning, status: "True"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}}
`
	d, err := offline.Read(write(t, map[string]string{"class.yaml": class, "pool.yaml": pool, "gated.yaml": gated}))
	if err != nil {
		t.Fatal(err)
	}
	s := d.Snapshot(t.Context(), time.Date(2026, 9, 8, 12, 20, 0, 0, time.UTC))
	found := false
	for _, m := range s.Pools[0].Catalog.Types() {
		if m.Name == "m5.large" {
			found = m.PriceOverlay && m.Offerings[0].Price.Decimal() == "0.001"
		}
	}
	if !found {
		t.Error("m5.large does not cost what the overlay says")
	}
	if len(s.Pods) != 2 || s.Pods[0].Buffer != "shop/spare" {
		t.Fatalf("pods %v, want two virtual ones", s.Pods)
	}
	if spread := s.Pods[0].Shape.Spread; len(spread) != 1 || spread[0].Selector.MatchLabels["app"] != "web" {
		t.Errorf("spread %v, want the cluster's over what the Service selects", spread)
	}
}
