package crd_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/karp-sh/karp/test/cluster"
	"github.com/karp-sh/karp/test/cluster/control"
)

// sandbox is an API server for all tests. Nothing else has to run: the API server alone enforces the CRDs.
var sandbox = cluster.Shared{Options: cluster.Options{Components: []string{control.Etcd, control.APIServer}}}

func TestMain(m *testing.M) { os.Exit(sandbox.Main(m)) }

// install installs the CRDs, once.
var install sync.Once

// installed is a client for an API server with the CRDs. Before they are as they should be, they are installed without
// their rules, so that objects exist which the rules would refuse (see TestOldObjects).
func installed(t *testing.T) dynamic.Interface {
	t.Helper()
	config := rest.CopyConfig(sandbox.Cluster(t).Config)
	config.WarningHandler = rest.NoWarnings{} // one for each rule that an old object breaks
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	crds, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	install.Do(func() {
		for _, crd := range definitions(t) {
			relaxed := crd.DeepCopy()
			relax(relaxed.Spec.Versions[0].Schema.OpenAPIV3Schema)
			if _, err := crds.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), relaxed, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		createOld(t, client)
		for _, crd := range definitions(t) {
			tighten(t, crds, crd)
		}
		awaitRules(t, client)
	})
	return client
}

// await asks again until done, and fails the test after a minute.
func await(t *testing.T, what string, done func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = done(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v: %v", what, err, last)
	}
}

func tighten(t *testing.T, crds clientset.Interface, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	await(t, "CRD "+crd.Name, func(ctx context.Context) error {
		stored, err := crds.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, crd.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		stored.Spec = crd.Spec
		_, err = crds.ApiextensionsV1().CustomResourceDefinitions().Update(ctx, stored, metav1.UpdateOptions{})
		return err
	})
}

// relax takes all that can refuse a value of the right type out of a schema.
func relax(s *apiextensionsv1.JSONSchemaProps) {
	s.XValidations, s.Pattern, s.Enum = nil, "", nil
	s.MaxLength, s.MinLength, s.MaxItems, s.MinItems, s.MaxProperties, s.Minimum, s.Maximum = nil, nil, nil, nil, nil, nil, nil
	for name, p := range s.Properties {
		relax(&p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		relax(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		relax(s.AdditionalProperties.Schema)
	}
}

// awaitRules waits until every kind refuses what its CRD without rules admitted: a spec that breaks one.
func awaitRules(t *testing.T, client dynamic.Interface) {
	t.Helper()
	for resource, o := range oldObjects() {
		await(t, "the rules of "+resource.Resource, func(ctx context.Context) error {
			fresh := o.DeepCopy()
			fresh.SetName("probe")
			_, err := in(client, resource, fresh).Create(ctx, fresh, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil {
				return fmt.Errorf("%s is still admitted", o.GetKind())
			}
			if len(causes(err)) == 0 {
				return err
			}
			return nil
		})
	}
}

func gvr(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}
