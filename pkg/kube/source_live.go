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
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
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

// Load reads the cluster once, all kinds at the same time. A kind that cannot be listed becomes an entry in Unknown, so that what can be read
// still gives an answer; a kind the server does not have becomes a note. The error is set only if ctx ended or nothing at all could be read.
func Load(ctx context.Context, reader client.Reader, opts LoadOptions) (*Objects, error) {
	var kinds []source
	for _, s := range sources() {
		if !slices.Contains(opts.Skip, s.kind) {
			kinds = append(kinds, s)
		}
	}
	found := make([]listing, len(kinds))
	var wg sync.WaitGroup
	for i, s := range kinds {
		wg.Go(func() { found[i] = s.read(ctx, reader, opts) })
	}
	wg.Wait()
	out := &Objects{}
	var errs []error
	for i, f := range found {
		each(f.items, out.add)
		if f.missing {
			out.Notes = append(out.Notes, Note{Where: kinds[i].kind, Text: "the cluster does not have this kind; its CRD is not installed"})
		}
		if f.err != nil {
			errs = append(errs, f.err)
			out.Unknown = append(out.Unknown, cluster.Unknown{Kind: kinds[i].kind, Problem: f.err.Error()})
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	if len(errs) > 0 && len(errs) == len(kinds) {
		return nil, fmt.Errorf("reading the cluster: %w", errors.Join(dedupe(errs)...))
	}
	return out, nil
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
