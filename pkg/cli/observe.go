package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/kube/offline"
	"github.com/karp-sh/karp/pkg/view"
)

// observed is what a verb decides on: a snapshot, the records beside it, and where both came from.
type observed struct {
	dir      *offline.Directory
	snapshot *cluster.Snapshot
	facts    explain.Facts
	cluster  string
	sources  []view.Source
}

// partial tells that something could not be read.
func (s *observed) partial() bool {
	return slices.ContainsFunc(s.sources, func(s view.Source) bool { return s.Missing != "" })
}

// sourceLine spells the sources for people.
func (s *observed) sourceLine() []string {
	var out []string
	for _, src := range s.sources {
		text := src.Name
		switch {
		case src.Missing != "":
			text += ": not used (" + src.Missing + ")"
		case src.AgeSeconds != nil && *src.AgeSeconds == 0:
			text += " now"
		case src.AgeSeconds != nil:
			text += " " + view.Duration(time.Duration(*src.AgeSeconds)*time.Second) + " old"
		}
		out = append(out, text)
	}
	return out
}

// observe reads the cluster, or the directory given with --snapshot.
func (o *options) observe(ctx context.Context, namespace string) (*observed, error) {
	if o.snapshot != "" {
		return o.observeFiles(ctx)
	}
	cfg, err := o.rest()
	if err != nil {
		return nil, err
	}
	reader, err := kube.NewReader(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	objects, err := kube.Load(ctx, reader, kube.LoadOptions{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	s := &observed{cluster: o.contextName(), sources: []view.Source{{Name: "API server", AgeSeconds: new(int64(0)), OK: true}}}
	for _, u := range objects.Unknown {
		s.sources = append(s.sources, view.Source{Name: u.Kind, Missing: u.Problem})
	}
	events(ctx, reader, objects, s)
	offerings := o.askAgent(ctx, cfg, s)
	if s.dir, err = offline.FromObjects(objects, offerings); err != nil {
		return nil, err
	}
	s.sources = append(s.sources, view.Source{Name: "sizes and prices: built-in catalogue", OK: true})
	s.snapshot, s.facts = s.dir.Snapshot(ctx, o.now), s.dir.Facts()
	return s, nil
}

// events adds the cluster's events to the objects; they are evidence, so their absence is only noted.
func events(ctx context.Context, reader client.Reader, objects *kube.Objects, s *observed) {
	list := &corev1.EventList{}
	if err := reader.List(ctx, list); err != nil {
		s.sources = append(s.sources, view.Source{Name: "events", Missing: err.Error()})
		return
	}
	for i := range list.Items {
		objects.Others = append(objects.Others, &list.Items[i])
	}
}

func (o *options) observeFiles(ctx context.Context) (*observed, error) {
	dir, err := offline.Read(o.snapshot)
	if err != nil {
		return nil, err
	}
	if o.at == "" && !dir.Info.At.IsZero() {
		o.now = dir.Info.At.UTC()
	}
	s := &observed{dir: dir, cluster: dir.Info.Cluster, sources: []view.Source{{Name: "files in " + o.snapshot, OK: true}}}
	for _, n := range dir.Objects.Notes {
		s.sources = append(s.sources, view.Source{Name: strings.TrimSpace(n.Where + " " + n.Text), OK: true})
	}
	if dir.Catalogue == nil {
		s.sources = append(s.sources, view.Source{Name: "sizes and prices: built-in catalogue", OK: true})
	}
	s.snapshot, s.facts = dir.Snapshot(ctx, o.now), dir.Facts()
	return s, nil
}

// contextName is the kubeconfig context in use, as the name of the cluster.
func (o *options) contextName() string {
	if o.kube.Context != nil && *o.kube.Context != "" {
		return *o.kube.Context
	}
	raw, err := o.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// namespace is -n, or the one of the context, or default.
func (o *options) namespace() string {
	if o.kube.Namespace != nil && *o.kube.Namespace != "" {
		return *o.kube.Namespace
	}
	if o.snapshot != "" {
		return ""
	}
	ns, _, err := o.kube.ToRawKubeConfigLoader().Namespace()
	if err != nil || ns == "" {
		return "default"
	}
	return ns
}
