// Package offline reads a cluster from a directory: kubectl karp --snapshot DIR.
//
// The directory holds API objects as YAML or JSON, as kubectl writes them, and, each optional:
//
//	catalogue.yaml  instance types with sizes and prices (package catalog/listing); absent: the facts embedded in the program
//	offerings.yaml  offerings that cannot be bought; absent: those of recent events
//	snapshot.yaml   {apiVersion: cli.karp.sh/v1alpha1, kind: SnapshotInfo, at: TIME, cluster: NAME}: when it was taken
//
// Controller settings come from the environment of the controller's Deployment if the directory holds it.
package offline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/catalog/listing"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/kube/record"
)

// Names of the files that hold no API objects.
const (
	CatalogueFile = "catalogue.yaml"
	OfferingsFile = "offerings.yaml"
	InfoFile      = "snapshot.yaml"
)

// InfoKind is the kind of InfoFile.
const InfoKind = "SnapshotInfo"

// Info says when a snapshot was taken and of which cluster. At is the clock of whoever reads the directory without being told another.
type Info struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	At         time.Time `json:"at"`
	Cluster    string    `json:"cluster,omitempty"`
}

// Directory is a snapshot as read.
type Directory struct {
	Objects *kube.Objects
	// Info is zero if the directory does not say when it was taken.
	Info Info
	// Catalogue is nil if the directory has none; then the embedded facts of the region are used.
	Catalogue *listing.File
	Offerings listing.Offerings
	Settings  cluster.Settings
	// SettingsFrom names the Deployment the settings come from, empty for the defaults.
	SettingsFrom string

	region string
	data   *ec2data.Data
}

// Read reads a directory, or a single file with API objects.
func Read(path string) (*Directory, error) {
	objects, err := kube.ReadFiles(path)
	if err != nil {
		return nil, err
	}
	d := &Directory{Objects: objects}
	if err := d.readExtras(path); err != nil {
		return nil, err
	}
	if err := d.readSettings(); err != nil {
		return nil, err
	}
	if d.Catalogue == nil {
		if d.data, err = ec2data.Load(); err != nil {
			return nil, err
		}
		d.region = regionOf(objects)
	}
	return d, nil
}

func (d *Directory) readExtras(path string) error {
	if text, err := optional(path, CatalogueFile); err != nil {
		return err
	} else if text != nil {
		if d.Catalogue, err = listing.Decode(text); err != nil {
			return fmt.Errorf("%s: %w", CatalogueFile, err)
		}
	}
	if text, err := optional(path, OfferingsFile); err != nil {
		return err
	} else if text != nil {
		if d.Offerings, err = listing.DecodeOfferings(text); err != nil {
			return fmt.Errorf("%s: %w", OfferingsFile, err)
		}
	}
	text, err := optional(path, InfoFile)
	if err != nil || text == nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, &d.Info); err != nil {
		return fmt.Errorf("%s: %w", InfoFile, err)
	}
	if d.Info.Kind != InfoKind {
		return fmt.Errorf("%s: kind is %q, want %s", InfoFile, d.Info.Kind, InfoKind)
	}
	return nil
}

// optional reads a file of the directory as JSON; nil if there is none.
func optional(dir, name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // the snapshot the user names
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &path) && strings.Contains(path.Err.Error(), "not a directory"):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	out, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// readSettings looks for the controller's Deployment; without one the defaults of the real Karpenter do not apply but karp's own.
func (d *Directory) readSettings() error {
	c := config.Default()
	d.Settings = c.Settings(false)
	for _, o := range d.Objects.Others {
		deployment, ok := o.(*appsv1.Deployment)
		if !ok || !controller(deployment.Name) {
			continue
		}
		settings, err := SettingsOf(deployment)
		if err != nil {
			return fmt.Errorf("reading settings of Deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
		}
		d.Settings, d.SettingsFrom = settings, deployment.Namespace+"/"+deployment.Name
		return nil
	}
	return nil
}

func controller(name string) bool {
	return strings.Contains(name, "karpenter") || strings.Contains(name, "karp-agent")
}

// SettingsOf reads the settings from the environment and arguments of a controller's Deployment, that of karp or of Karpenter.
func SettingsOf(d *appsv1.Deployment) (cluster.Settings, error) {
	env := map[string]string{}
	var args []string
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				env[e.Name] = e.Value
			}
		}
		args = append(args, c.Args...)
	}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	c, err := config.Parse(args, lookup)
	if err != nil {
		// Settings that the agent requires may come from elsewhere; those that matter here have defaults.
		if c, err = lenient(lookup); err != nil {
			return cluster.Settings{}, err
		}
	}
	return c.Settings(false), nil
}

// lenient parses the environment alone, with stand-ins for what is required.
func lenient(lookup func(string) (string, bool)) (config.Config, error) {
	return config.Parse([]string{}, func(k string) (string, bool) {
		if v, ok := lookup(k); ok {
			return v, true
		}
		switch k {
		case "CLUSTER_NAME":
			return "unknown", true
		case "SYSTEM_NAMESPACE":
			return "kube-system", true
		}
		return "", false
	})
}

// regionOf takes the region from the nodes or the zones of the classes.
func regionOf(o *kube.Objects) string {
	for _, n := range o.Nodes {
		if r := n.Labels[corev1.LabelTopologyRegion]; r != "" {
			return r
		}
	}
	for _, c := range o.Classes {
		for _, s := range c.Status.Subnets {
			if len(s.Zone) > 1 {
				return s.Zone[:len(s.Zone)-1]
			}
		}
	}
	return "us-east-1"
}

// Catalog is what a class can launch; it makes a Directory the catalogues of a kube.State.
func (d *Directory) Catalog(_ context.Context, class *awsv1.EC2NodeClass) (*catalog.Catalog, error) {
	if d.Catalogue == nil {
		return d.embedded(class)
	}
	var zones []string
	for _, s := range class.Status.Subnets {
		zones = append(zones, s.Zone)
	}
	types, err := d.Catalogue.InstanceTypes(zones, d.Offerings)
	if err != nil {
		return nil, err
	}
	return catalog.New(types), nil
}

var _ kube.Catalogs = (*Directory)(nil)

// embedded derives the types of the region from the facts in the program, with the offerings file on top.
func (d *Directory) embedded(class *awsv1.EC2NodeClass) (*catalog.Catalog, error) {
	neutral := cloud.TypesOf(class)
	overhead := float64(d.Settings.VMMemoryOverhead) / 1e6
	types, err := ec2types.Offline(d.data, ec2types.Settings{Region: d.region, MemoryOverhead: overhead}, &neutral)
	if err != nil {
		return nil, err
	}
	of := d.Offerings.ByType()
	for i := range types {
		items := of(types[i].Name)
		for j := range types[i].Offerings {
			items.Apply(types[i].Name, &types[i].Offerings[j])
		}
	}
	return catalog.New(types), nil
}

// Snapshot is the cluster at an instant. If nobody said which offerings are closed, recent events do.
func (d *Directory) Snapshot(ctx context.Context, at time.Time) *cluster.Snapshot {
	if d.Offerings.Kind == "" {
		d.Offerings = record.Closed(events(d.Objects), d.Objects.NodeClaims, at)
	}
	return d.Objects.Snapshot(ctx, at, d.Settings, d)
}

// Facts are the records in the directory.
func (d *Directory) Facts() explain.Facts { return FactsOf(d.Objects) }

// FactsOf are the records among objects, wherever they were read from.
func FactsOf(o *kube.Objects) explain.Facts {
	return record.Facts(record.Objects{Events: events(o), Pods: o.Pods, Claims: o.NodeClaims, Classes: o.Classes, Pools: o.NodePools})
}

func events(o *kube.Objects) []*corev1.Event {
	var out []*corev1.Event
	for _, x := range o.Others {
		if e, ok := x.(*corev1.Event); ok {
			out = append(out, e)
		}
	}
	return out
}

// FromObjects treats objects read from a live cluster like a directory without catalogue: sizes and prices come from the facts embedded in the
// program, availability from offerings.
func FromObjects(objects *kube.Objects, offerings listing.Offerings) (*Directory, error) {
	d := &Directory{Objects: objects, Offerings: offerings}
	if err := d.readSettings(); err != nil {
		return nil, err
	}
	data, err := ec2data.Load()
	if err != nil {
		return nil, err
	}
	d.data, d.region = data, regionOf(objects)
	return d, nil
}
