package crd_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// old are objects as an earlier or laxer CRD may have let in: each breaks a rule.
const oldPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: old}
spec:
  template:
    metadata: {labels: {karpenter.sh/custom: x}}
    spec:
      taints: [{key: a, value: "", effect: NoSchedule}]
      requirements: [{key: karpenter.sh/custom, operator: In, values: []}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
`

const oldClaim = `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: old}
spec:
  requirements: [{key: kubernetes.io/hostname, operator: In, values: [a]}]
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
`

const oldClass = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: old}
spec:
  role: a
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1, tags: {a: b}}]
  securityGroupSelectorTerms: [{id: sg-1}]
  tags: {karpenter.sh/nodepool: x}
`

const oldOverlay = `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: old}
spec: {requirements: [{key: a, operator: NotIn}]}
`

const oldBuffer = `
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: old, namespace: default}
spec: {podTemplateRef: {name: ""}, replicas: 1}
`

const oldRecord = `
apiVersion: karp.sh/v1alpha1
kind: DecisionRecord
metadata: {name: old}
spec: {type: Launch, decisionID: "", time: "2026-01-01T00:00:00.000000Z", code: X}
`

func oldObjects() map[schema.GroupVersionResource]*unstructured.Unstructured {
	texts := map[schema.GroupVersionResource]string{
		gvr("karpenter.sh", "v1", "nodepools"):                    oldPool,
		gvr("karpenter.sh", "v1", "nodeclaims"):                   oldClaim,
		gvr("karpenter.sh", "v1alpha1", "nodeoverlays"):           oldOverlay,
		gvr("karpenter.k8s.aws", "v1", "ec2nodeclasses"):          oldClass,
		gvr("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers"): oldBuffer,
		gvr("karp.sh", "v1alpha1", "decisionrecords"):             oldRecord,
	}
	objects := map[schema.GroupVersionResource]*unstructured.Unstructured{}
	for resource, text := range texts {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err == nil {
			objects[resource] = o
		}
	}
	return objects
}

func in(client dynamic.Interface, resource schema.GroupVersionResource, o *unstructured.Unstructured) dynamic.ResourceInterface {
	if o.GetNamespace() != "" {
		return client.Resource(resource).Namespace(o.GetNamespace())
	}
	return client.Resource(resource)
}

func createOld(t *testing.T, client dynamic.Interface) {
	t.Helper()
	for resource, o := range oldObjects() {
		await(t, "kind "+o.GetKind(), func(ctx context.Context) error {
			_, err := in(client, resource, o).Create(ctx, o, metav1.CreateOptions{})
			return err
		})
	}
}

// TestOldObjects checks that an object which breaks a rule can still be annotated, labelled, given a status and deleted:
// the API server looks at what changes.
func TestOldObjects(t *testing.T) {
	client := installed(t)
	for resource, o := range oldObjects() {
		t.Run(o.GetKind(), func(t *testing.T) {
			r := in(client, resource, o)
			stored, err := r.Get(t.Context(), "old", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stored.SetAnnotations(map[string]string{"karpenter.sh/nodepool-hash": "1"})
			stored.SetFinalizers([]string{"karpenter.sh/termination"})
			if stored, err = r.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatalf("annotating: %v", err)
			}
			if resource.Resource != "decisionrecords" {
				condition := map[string]any{"type": "Ready", "status": "False", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
				stored.Object["status"] = map[string]any{"conditions": []any{condition}}
				if stored, err = r.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
					t.Fatalf("writing status: %v", err)
				}
			}
			stored.SetFinalizers(nil)
			if _, err = r.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatalf("removing the finalizer: %v", err)
			}
		})
	}
}

// TestOldObjectsCanBeImproved checks that an unrelated part of a pool with bad parts can change, and a bad part can not
// change into another bad one.
func TestOldObjectsCanBeImproved(t *testing.T) {
	r := installed(t).Resource(gvr("karpenter.sh", "v1", "nodepools"))
	change := func(path string, value any) error {
		stored, err := r.Get(t.Context(), "old", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		set(stored.Object, path, value)
		_, err = r.Update(t.Context(), stored, metav1.UpdateOptions{})
		return err
	}
	if err := change("spec.weight", int64(5)); err != nil {
		t.Errorf("changing the weight: %v", err)
	}
	if err := change("spec.template.spec.expireAfter", "24h"); err != nil {
		t.Errorf("changing expireAfter: %v", err)
	}
	if err := change("spec.template.metadata.labels", map[string]any{"karpenter.sh/other": "x"}); err == nil {
		t.Error("another reserved label was admitted")
	}
	if err := change("spec.template.metadata.labels", map[string]any{"team": "x"}); err != nil {
		t.Errorf("mending the labels: %v", err)
	}
}
