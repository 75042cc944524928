package crd_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

const tables = `
- object:
    apiVersion: karpenter.sh/v1
    kind: NodePool
    spec: {weight: 10, template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}}
    status: {nodes: 3, resources: {cpu: "12", memory: 48Gi}, conditions: [{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
  columns: ["NodeClass string 0 = default", "Nodes string 0 = 3", "Ready string 0 = True", "Age date 0 = *", "Weight integer 1 = 10", "CPU string 1 = 12", "Memory string 1 = 48Gi"]
- object:
    apiVersion: karpenter.sh/v1
    kind: NodeClaim
    metadata: {labels: {node.kubernetes.io/instance-type: m5.large, karpenter.sh/capacity-type: spot, topology.kubernetes.io/zone: us-west-2a, karpenter.sh/nodepool: default}}
    spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: class}}
    status: {nodeName: node, imageID: ami-1, providerID: "aws:///us-west-2a/i-1", conditions: [{type: Ready, status: "False", lastTransitionTime: "2026-01-01T00:00:00Z"}, {type: Drifted, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
  columns: ["Type string 0 = m5.large", "Capacity string 0 = spot", "Zone string 0 = us-west-2a", "Node string 0 = node", "Ready string 0 = False", "Age date 0 = *", "ImageID string 1 = ami-1", "ID string 1 = aws:///us-west-2a/i-1", "NodePool string 1 = default", "NodeClass string 1 = class", "Drifted string 1 = True"]
- object:
    apiVersion: karpenter.sh/v1alpha1
    kind: NodeOverlay
    spec: {weight: 7, requirements: []}
    status: {conditions: [{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
  columns: ["Ready string 0 = True", "Age date 0 = *", "Weight integer 1 = 7"]
- object:
    apiVersion: karpenter.k8s.aws/v1
    kind: EC2NodeClass
    spec: {role: node, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}
    status: {conditions: [{type: Ready, status: "Unknown", reason: X, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
  columns: ["Ready string 0 = Unknown", "Age date 0 = *", "Role string 1 = node"]
- object:
    apiVersion: autoscaling.x-k8s.io/v1beta1
    kind: CapacityBuffer
    metadata: {namespace: default}
    spec: {podTemplateRef: {name: a}, replicas: 1}
    status: {replicas: 1, podTemplateRef: {name: a}, conditions: [{type: Provisioning, status: "True", reason: Fits, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
  columns: ["Strategy string 0 = buffer.x-k8s.io/active-capacity", "PodTemplate string 0 = a", "Replicas integer 0 = 1", "ConditionsType string 0 = Provisioning", "ConditionsStatus string 0 = True", "ConditionsReason string 0 = Fits", "Age date 0 = *"]
- object:
    apiVersion: karp.sh/v1alpha1
    kind: DecisionRecord
    spec: {type: Launch, decisionID: d, time: "2026-01-01T00:00:00.000000Z", code: PodsPending, nodePool: default, summary: because}
  columns: ["Type string 0 = Launch", "Code string 0 = PodsPending", "NodePool string 0 = default", "Age date 0 = *", "Summary string 1 = because"]
`

// TestPrinterColumns compares what kubectl get shows (priority 0) and adds with -o wide (priority 1).
func TestPrinterColumns(t *testing.T) {
	client := installed(t)
	core, err := kubernetes.NewForConfig(sandbox.Cluster(t).Config)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Object  map[string]any `json:"object"`
		Columns []string       `json:"columns"`
	}
	if err := yaml.UnmarshalStrict([]byte(tables), &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c.Object["kind"]), func(t *testing.T) {
			stored := create(t, resourceOf(t, client, c.Object), object(c.Object))
			raw, err := core.RESTClient().Get().AbsPath(self(t, client, stored)).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			table := metav1.Table{}
			if err := json.Unmarshal(raw, &table); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.Columns, columns(table)); diff != "" {
				t.Errorf("columns after the name (-want +got):\n%s", diff)
			}
		})
	}
}

func columns(table metav1.Table) []string {
	var out []string
	for i, column := range table.ColumnDefinitions[1:] {
		cell := fmt.Sprint(table.Rows[0].Cells[i+1])
		if column.Type == "date" {
			cell = "*"
		}
		out = append(out, fmt.Sprintf("%s %s %d = %s", column.Name, column.Type, column.Priority, cell))
	}
	return out
}

// create stores an object with its status until the end of the test.
func create(t *testing.T, resource dynamic.ResourceInterface, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	status, hasStatus := o.Object["status"]
	stored, err := resource.Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, resource, stored.GetName()) })
	if !hasStatus {
		return stored
	}
	stored.Object["status"] = status
	if stored, err = resource.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return stored
}

// self is the URL path of an object.
func self(t *testing.T, _ dynamic.Interface, o *unstructured.Unstructured) string {
	t.Helper()
	for _, crd := range definitions(t) {
		if crd.Spec.Names.Kind != o.GetKind() {
			continue
		}
		parts := []string{"/apis", o.GetAPIVersion()}
		if o.GetNamespace() != "" {
			parts = append(parts, "namespaces", o.GetNamespace())
		}
		return strings.Join(append(parts, crd.Spec.Names.Plural, o.GetName()), "/")
	}
	t.Fatalf("no CRD of %s", o.GetKind())
	return ""
}

func TestScale(t *testing.T) {
	client := installed(t)
	base := load(t, "testdata/nodepool.yaml").Base
	pools := resourceOf(t, client, base)
	static := object(base)
	set(static.Object, "spec.replicas", int64(2))
	set(static.Object, "status", map[string]any{"nodes": int64(1)})
	static = create(t, pools, static)

	scale, err := pools.Get(t.Context(), static.GetName(), metav1.GetOptions{}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	if want, got := "2 1 <nil>", fmt.Sprint(get(scale.Object, "spec.replicas"), " ", get(scale.Object, "status.replicas"), " ", get(scale.Object, "status.selector")); got != want {
		t.Errorf("scale shows %s, want %s", got, want)
	}
	set(scale.Object, "spec.replicas", int64(5))
	if _, err := pools.Update(t.Context(), scale, metav1.UpdateOptions{}, "scale"); err != nil {
		t.Fatalf("scaling a static pool: %v", err)
	}
	if static, err = pools.Get(t.Context(), static.GetName(), metav1.GetOptions{}); err != nil || get(static.Object, "spec.replicas") != int64(5) {
		t.Errorf("replicas after scaling: %v, %v", get(static.Object, "spec.replicas"), err)
	}

	dynamicPool := create(t, pools, object(base))
	scale.SetName(dynamicPool.GetName())
	scale.SetUID(dynamicPool.GetUID())
	scale.SetResourceVersion(dynamicPool.GetResourceVersion())
	if _, err := pools.Update(t.Context(), scale, metav1.UpdateOptions{}, "scale"); err == nil || !strings.Contains(err.Error(), "replicas:") {
		t.Errorf("scaling a dynamic pool: %v, want an error about replicas", err)
	}
}

// TestNames checks what a user may type, and where a kind is listed with others.
func TestNames(t *testing.T) {
	want := map[string]string{
		"nodepools":       "Cluster NodePool [] [karpenter]",
		"nodeclaims":      "Cluster NodeClaim [] [karpenter]",
		"nodeoverlays":    "Cluster NodeOverlay [overlays] [karpenter]",
		"ec2nodeclasses":  "Cluster EC2NodeClass [ec2nc ec2ncs] [karpenter]",
		"capacitybuffers": "Namespaced CapacityBuffer [cb] [autoscaling]",
		"decisionrecords": "Cluster DecisionRecord [] []",
	}
	got := map[string]string{}
	for _, crd := range definitions(t) {
		n := crd.Spec.Names
		got[n.Plural] = fmt.Sprint(crd.Spec.Scope, " ", n.Kind, " ", n.ShortNames, " ", n.Categories)
		if len(crd.Spec.Versions) != 1 || !crd.Spec.Versions[0].Served || !crd.Spec.Versions[0].Storage {
			t.Errorf("%s: not one version, served and stored", crd.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
