package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/karp-sh/karp/pkg/apis/autoscaling/v1beta1"
	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	karpv1alpha1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1alpha1"
	"github.com/karp-sh/karp/pkg/cluster"
)

// NewReader returns a client for Load. Built-in kinds travel as protobuf.
func NewReader(cfg *rest.Config) (client.Client, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return c, nil
}

// LoadOptions narrow what Load reads. The zero value reads everything.
type LoadOptions struct {
	// Skip names kinds that are not needed.
	Skip []string
	// Namespace is where namespaced kinds are read if the whole cluster is forbidden. What is outside is then unknown.
	Namespace string
	// Page is the number of objects a request returns, where the server pages; 0 asks for everything at once. A reader that is a cache does not
	// page: it must be 0 there.
	Page int64
}

// source is one kind to list.
type source struct {
	kind       string
	namespaced bool
	list       func() client.ObjectList
}

func sources() []source {
	return []source{
		{PodKind, true, func() client.ObjectList { return &corev1.PodList{} }},
		{NodeKind, false, func() client.ObjectList { return &corev1.NodeList{} }},
		{NodeClaimKind, false, func() client.ObjectList { return &karpv1.NodeClaimList{} }},
		{NodePoolKind, false, func() client.ObjectList { return &karpv1.NodePoolList{} }},
		{EC2NodeClassKind, false, func() client.ObjectList { return &awsv1.EC2NodeClassList{} }},
		{DaemonSetKind, true, func() client.ObjectList { return &appsv1.DaemonSetList{} }},
		{NamespaceKind, false, func() client.ObjectList { return &corev1.NamespaceList{} }},
		{PersistentVolumeClaimKind, true, func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} }},
		{PersistentVolumeKind, false, func() client.ObjectList { return &corev1.PersistentVolumeList{} }},
		{StorageClassKind, false, func() client.ObjectList { return &storagev1.StorageClassList{} }},
		{CSINodeKind, false, func() client.ObjectList { return &storagev1.CSINodeList{} }},
		{PodDisruptionBudgetKind, true, func() client.ObjectList { return &policyv1.PodDisruptionBudgetList{} }},
	}
}

// gatedSources are the kinds that only gates and settings need.
func gatedSources(s cluster.Settings) []source {
	var out []source
	if s.NodeOverlay {
		out = append(out, source{NodeOverlayKind, false, func() client.ObjectList { return &karpv1alpha1.NodeOverlayList{} }})
	}
	if s.CapacityBuffer {
		out = append(out,
			source{CapacityBufferKind, true, func() client.ObjectList { return &autoscalingv1beta1.CapacityBufferList{} }},
			source{PodTemplateKind, true, func() client.ObjectList { return &corev1.PodTemplateList{} }},
			source{DeploymentKind, true, func() client.ObjectList { return &appsv1.DeploymentList{} }})
	}
	if len(s.DefaultSpread) > 0 {
		out = append(out,
			source{ServiceKind, true, func() client.ObjectList { return &corev1.ServiceList{} }},
			source{ReplicationControllerKind, true, func() client.ObjectList { return &corev1.ReplicationControllerList{} }})
	}
	if !s.IgnoreDRA {
		out = append(out,
			source{ResourceSliceKind, false, func() client.ObjectList { return &resourcev1.ResourceSliceList{} }},
			source{ResourceClaimKind, true, func() client.ObjectList { return &resourcev1.ResourceClaimList{} }},
			source{DeviceClassKind, false, func() client.ObjectList { return &resourcev1.DeviceClassList{} }})
	}
	if s.CapacityBuffer || len(s.DefaultSpread) > 0 {
		out = append(out,
			source{ReplicaSetKind, true, func() client.ObjectList { return &appsv1.ReplicaSetList{} }},
			source{StatefulSetKind, true, func() client.ObjectList { return &appsv1.StatefulSetList{} }})
	}
	return out
}

// LoadGated adds to objects the kinds that only these settings need: NodeOverlays, CapacityBuffers with what they refer to, Services and controllers,
// claims for devices with what serves them.
// They go into Others; what cannot be read into Unknown. With no such setting it reads nothing. The error is that of ctx.
func LoadGated(ctx context.Context, reader client.Reader, settings cluster.Settings, opts LoadOptions, objects *Objects) error {
	objects.read(ctx, reader, gatedSources(settings), opts)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reading the cluster: %w", err)
	}
	return nil
}

// Load reads the cluster once, all kinds at the same time. A kind that cannot be listed becomes an entry in Unknown, so that what can be read
// still gives an answer; a kind the server does not have becomes a note. The error is set only if ctx ended or nothing at all could be read.
func Load(ctx context.Context, reader client.Reader, opts LoadOptions) (*Objects, error) {
	var kinds []source
	for _, s := range sources() {
		if !slices.Contains(opts.Skip, s.kind) {
			kinds = append(kinds, s)
		}
	}
	out := &Objects{}
	errs := out.read(ctx, reader, kinds, opts)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	if len(errs) > 0 && len(errs) == len(kinds) {
		return nil, fmt.Errorf("reading the cluster: %w", errors.Join(dedupe(errs)...))
	}
	return out, nil
}

// read lists kinds at the same time and returns the errors of those that could not be listed.
func (o *Objects) read(ctx context.Context, reader client.Reader, kinds []source, opts LoadOptions) []error {
	found := make([]listing, len(kinds))
	var wg sync.WaitGroup
	for i, s := range kinds {
		wg.Go(func() { found[i] = s.read(ctx, reader, opts) })
	}
	wg.Wait()
	var errs []error
	for i, f := range found {
		each(f.items, o.add)
		if f.missing {
			o.Notes = append(o.Notes, Note{Where: kinds[i].kind, Text: "the cluster does not have this kind; its CRD is not installed"})
		}
		if f.err != nil {
			errs = append(errs, f.err)
			o.Unknown = append(o.Unknown, cluster.Unknown{Kind: kinds[i].kind, Problem: f.err.Error()})
		}
	}
	return errs
}

// dedupe keeps one of the errors with the same text: an unreachable server fails every list alike.
func dedupe(errs []error) []error {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(errs), func(err error) bool {
		text := err.Error()
		old := seen[text]
		seen[text] = true
		return old
	})
}

// listing is what became of one list.
type listing struct {
	items   []client.Object
	err     error
	missing bool
}

func (s source) read(ctx context.Context, reader client.Reader, opts LoadOptions) listing {
	items, err := s.pages(ctx, reader, opts, "")
	switch {
	case err == nil:
		return listing{items: items}
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return listing{missing: true}
	case apierrors.IsForbidden(err) && s.namespaced && opts.Namespace != "":
		some, again := s.pages(ctx, reader, opts, opts.Namespace)
		if again == nil {
			return listing{items: some, err: fmt.Errorf("only namespace %s could be read: %w", opts.Namespace, err)}
		}
	}
	return listing{err: err}
}

// pages lists a kind page by page, from the server's cache where it has one.
func (s source) pages(ctx context.Context, reader client.Reader, opts LoadOptions, namespace string) ([]client.Object, error) {
	var out []client.Object
	first := &metav1.ListOptions{ResourceVersion: "0"}
	options := &client.ListOptions{Namespace: namespace, Limit: opts.Page, Raw: first}
	for restarts := 0; ; {
		list := s.list()
		err := reader.List(ctx, list, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" && restarts == 0 {
			// The server compacted the version we were paging through: begin once more.
			out, options.Continue, options.Raw, restarts = nil, "", first, 1
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			if obj, ok := o.(client.Object); ok {
				out = append(out, obj)
			}
			return nil
		}); err != nil {
			return nil, err
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return out, nil
		}
		// A continuation carries its own version.
		options.Raw = &metav1.ListOptions{}
	}
}
