package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/catalog/listing"
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
	// reader asks the cluster for more; nil for files.
	reader client.Reader
	// agent is nil without one.
	agent *agentLink
}

// partial tells that something of the cluster could not be read. Without an agent an answer is estimated, not partial.
func (s *observed) partial() bool {
	return slices.ContainsFunc(s.sources, func(s view.Source) bool { return s.Missing != "" && !strings.HasPrefix(s.Name, agentName) })
}

// close lets the agent go.
func (s *observed) close() { s.agent.close() }

// sourceLine spells the sources for people.
func (s *observed) sourceLine() []string {
	var out []string
	for _, src := range s.sources {
		text := src.Name
		switch {
		case src.Missing != "" && strings.HasPrefix(src.Name, agentName):
			text += ": not used (" + src.Missing + ")"
		case src.Missing != "":
			text += ": not read (" + src.Missing + ")"
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
	s := &observed{reader: reader, cluster: o.contextName(), sources: []view.Source{{Name: "API server", AgeSeconds: new(int64(0)), OK: true}}}
	agent := make(chan view.Source, 1)
	go func() {
		var source view.Source
		s.agent, source = o.reachAgent(ctx, cfg)
		agent <- source
	}()
	objects, err := kube.Load(ctx, reader, kube.LoadOptions{Namespace: namespace})
	if err == nil {
		s.records(ctx, reader, objects, o.agentNamespace)
	}
	reached := <-agent
	if err != nil {
		s.close()
		return nil, unreadable(err)
	}
	for _, u := range objects.Unknown {
		s.sources = append(s.sources, view.Source{Name: kindPlural(u.Kind), Missing: clause(errors.New(u.Problem))})
	}
	s.sources = append(s.sources, reached)
	return s, s.complete(ctx, objects, namespace, o.now)
}

// complete takes settings, prices and closed offerings from the agent if there is one, else from what is built in.
func (s *observed) complete(ctx context.Context, objects *kube.Objects, namespace string, at time.Time) error {
	var offerings listing.Offerings
	prices := view.Source{Name: "sizes and prices: built-in catalogue", OK: true}
	if s.agent != nil {
		var source view.Source
		offerings, source = s.agent.offerings(ctx)
		s.sources = append(s.sources, source)
		if source.OK {
			prices.Name = "sizes: built-in catalogue"
		}
	}
	var err error
	if s.dir, err = offline.FromObjects(objects, offerings); err != nil {
		s.close()
		return err
	}
	if s.agent != nil {
		if s.dir.Settings, err = s.agent.settings(); err != nil {
			s.sources = append(s.sources, view.Source{Name: "the agent's scheduler configuration", Missing: clause(err)})
		}
		s.dir.SettingsFrom = agentName
	}
	if err := s.gated(ctx, objects, namespace); err != nil {
		s.close()
		return err
	}
	s.sources = append(s.sources, prices)
	s.snapshot, s.facts = s.dir.Snapshot(ctx, at), s.dir.Facts()
	return nil
}

// gated reads what only the settings found make necessary.
func (s *observed) gated(ctx context.Context, objects *kube.Objects, namespace string) error {
	before := len(objects.Unknown)
	if err := kube.LoadGated(ctx, s.reader, s.dir.Settings, kube.LoadOptions{Namespace: namespace}, objects); err != nil {
		return err
	}
	for _, u := range objects.Unknown[before:] {
		s.sources = append(s.sources, view.Source{Name: kindPlural(u.Kind), Missing: clause(errors.New(u.Problem))})
	}
	return nil
}

// unreadable says that nothing at all could be read.
func unreadable(err error) error {
	var connection *net.OpError
	switch {
	case forbidden().MatchString(err.Error()):
		return fmt.Errorf("%w\n  fix: ask an admin to bind ClusterRole karp-view", err)
	case errors.As(err, &connection):
		return fmt.Errorf("%w\n  fix: choose a cluster with --context or --kubeconfig, or answer from files with --snapshot DIR", err)
	}
	return err
}

// records adds the cluster's events, the ReplicaSets behind pods and the controller's Deployment to the objects; they are evidence, so the absence
// of most is only noted.
func (s *observed) records(ctx context.Context, reader client.Reader, objects *kube.Objects, namespace string) {
	list := &corev1.EventList{}
	if err := reader.List(ctx, list); err != nil {
		s.sources = append(s.sources, view.Source{Name: "events", Missing: clause(err)})
	}
	for i := range list.Items {
		objects.Others = append(objects.Others, &list.Items[i])
	}
	deployments := &appsv1.DeploymentList{}
	if err := reader.List(ctx, deployments, client.InNamespace(namespace)); err != nil {
		s.sources = append(s.sources, view.Source{Name: "controller settings", Missing: clause(err) + "; defaults assumed"})
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if _, err := offline.SettingsOf(d); err != nil {
			s.sources = append(s.sources, view.Source{Name: "settings of Deployment " + d.Name, Missing: err.Error() + "; defaults assumed"})
			continue
		}
		objects.Others = append(objects.Others, d)
	}
}

// kindPlural is a kind as the API server's lists are called.
func kindPlural(kind string) string {
	name := strings.ToLower(kind)
	if strings.HasSuffix(name, "s") {
		return name + "es"
	}
	return name + "s"
}

func (o *options) observeFiles(ctx context.Context) (*observed, error) {
	if _, err := os.Stat(o.snapshot); err != nil {
		return nil, fmt.Errorf("--snapshot %s: %w\n  fix: name a directory or file with the cluster's objects as YAML or JSON", o.snapshot, cause(err))
	}
	dir, err := offline.Read(o.snapshot)
	if err != nil {
		return nil, fmt.Errorf("--snapshot: %w", err)
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

// cause leaves out the operation and the path of an error of the file system.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
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
