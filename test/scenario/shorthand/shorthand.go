// Package shorthand turns a few lines about a cluster into the API objects they stand for.
//
// A scenario names pools, nodes and pods; everything a real cluster would also have (node claims, daemon set pods, owners, conditions,
// resolved subnets) is added by the rules beside the types of this package. The objects are the real API types, so that what reads
// them cannot tell a scenario from a cluster. Catalogue and DaemonSets are those of test/scenario/fixture.
package shorthand

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/karp-sh/karp/pkg/catalog/listing"
)

// Clock is the instant of every scenario that does not name one: a Tuesday.
const Clock = "2026-09-08T12:20:00Z"

// Cluster is a scenario as written. Times are RFC 3339 or, on the day of the clock, "15:04:05"; durations count back from the clock.
type Cluster struct {
	At *string `json:"at"`
	// Settings are environment entries of the controller, added to the defaults.
	Settings map[string]string `json:"settings"`
	// Class is merged into the EC2NodeClass std.
	Class json.RawMessage `json:"class"`
	Pools []Pool          `json:"pools"`
	Nodes []Node          `json:"nodes"`
	// Claims are NodeClaims without a Node.
	Claims      []Node      `json:"claims"`
	Pods        []Pod       `json:"pods"`
	PDB         []PDB       `json:"pdb"`
	Events      []Event     `json:"events"`
	CronJob     *CronJob    `json:"cronjob"`
	Unavailable []Offering  `json:"unavailable"`
	Objects     []RawObject `json:"objects"`
}

// RawObject is any further API object, verbatim.
type RawObject = json.RawMessage

// Pool is a NodePool: on-demand, amd64, linux, class std, ready, unless it says otherwise.
type Pool struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	// CT, Zones, Types and Arch are requirements In and replace the default of their key.
	CT    []string `json:"ct"`
	Zones []string `json:"zones"`
	Types []string `json:"types"`
	Arch  []string `json:"arch"`
	// Require holds further requirements, Disruption and Limits go into the spec, all verbatim.
	Require       json.RawMessage   `json:"require"`
	Labels        map[string]string `json:"labels"`
	Taints        json.RawMessage   `json:"taints"`
	StartupTaints json.RawMessage   `json:"startupTaints"`
	ExpireAfter   string            `json:"expireAfter"`
	TGP           string            `json:"tgp"`
	Limits        json.RawMessage   `json:"limits"`
	Weight        *int32            `json:"weight"`
	Replicas      *int64            `json:"replicas"`
	Disruption    json.RawMessage   `json:"disruption"`
	// NotReady makes the conditions NodeClassReady and Ready False.
	NotReady *Condition `json:"notReady"`
	// Patch is merged into the object at the end.
	Patch json.RawMessage `json:"patch"`
}

// Condition of an object.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Since   string `json:"since"`
}

// Node is a Node with its NodeClaim; pool null makes a node that is not ours. A name "n1..n12" makes twelve, in the zones in turn.
type Node struct {
	Name string          `json:"name"`
	Pool *string         `json:"pool"`
	Type string          `json:"type"`
	Zone string          `json:"zone"`
	CT   string          `json:"ct"`
	Free map[string]Text `json:"free"`
	// Created is when the claim was made; Launched, Registered and Initialized when it passed these steps, "never" if it did not.
	Created     string            `json:"created"`
	Launched    string            `json:"launched"`
	Registered  string            `json:"registered"`
	Initialized string            `json:"initialized"`
	Labels      map[string]string `json:"labels"`
	Taints      json.RawMessage   `json:"taints"`
	// Conditions are set on the NodeClaim.
	Conditions []Condition `json:"conditions"`
	ImageID    string      `json:"imageID"`
	// LastPodEvent is when a pod last came or went; Consolidatable false leaves that condition out.
	LastPodEvent   string          `json:"lastPodEvent"`
	Consolidatable *bool           `json:"consolidatable"`
	Patch          json.RawMessage `json:"patch"`
	ClaimPatch     json.RawMessage `json:"claimPatch"`
}

// Pod is a pod: running and ready for 24 hours if on a node, else pending as unschedulable for 10 minutes.
type Pod struct {
	NS     string            `json:"ns"`
	Name   string            `json:"name"`
	On     string            `json:"on"`
	CPU    Text              `json:"cpu"`
	Memory Text              `json:"memory"`
	GPU    int64             `json:"gpu"`
	Labels map[string]string `json:"labels"`
	Select map[string]string `json:"select"`
	// Tolerate, Spread and Anti are tolerations, topology spread constraints and required pod anti-affinity terms; Affinity is the whole
	// affinity.
	Tolerate json.RawMessage   `json:"tolerate"`
	Spread   json.RawMessage   `json:"spread"`
	Anti     json.RawMessage   `json:"anti"`
	Affinity json.RawMessage   `json:"affinity"`
	Annotate map[string]string `json:"annotate"`
	Gates    []string          `json:"gates"`
	PVC      *Volume           `json:"pvc"`
	// Owner is the kind of the owner: Deployment (default), StatefulSet, DaemonSet, Job, None.
	Owner string `json:"owner"`
	// Since is when the pod became pending, Started when it began to run.
	Since   string          `json:"since"`
	Started string          `json:"started"`
	Crash   *Crash          `json:"crash"`
	Patch   json.RawMessage `json:"patch"`
}

// Crash makes the pod's container wait.
type Crash struct {
	Reason   string `json:"reason"`
	Restarts int32  `json:"restarts"`
}

// Volume is a claim bound to a volume in a zone.
type Volume struct {
	Zone string `json:"zone"`
	Name string `json:"name"`
}

// PDB is a PodDisruptionBudget.
type PDB struct {
	NS             string            `json:"ns"`
	Name           string            `json:"name"`
	Selector       map[string]string `json:"selector"`
	MaxUnavailable json.RawMessage   `json:"maxUnavailable"`
	MinAvailable   json.RawMessage   `json:"minAvailable"`
}

// Event is a recorded event. On names the object: "pod NS/NAME", "node NAME" or "nodeclaim NAME".
type Event struct {
	On      string `json:"on"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Type    string `json:"type"`
	At      string `json:"at"`
	Count   int32  `json:"count"`
}

// CronJob is a CronJob with the runs that happened.
type CronJob struct {
	NS       string   `json:"ns"`
	Name     string   `json:"name"`
	Schedule string   `json:"schedule"`
	On       string   `json:"on"`
	Runs     []string `json:"runs"`
	Lasts    string   `json:"lasts"`
}

// Offering is an offering that cannot be bought.
type Offering struct {
	Type   string `json:"type"`
	Zone   string `json:"zone"`
	CT     string `json:"ct"`
	Reason string `json:"reason"`
	Until  string `json:"until"`
}

// Text is a string that may be written as a number.
type Text string

// UnmarshalJSON takes strings and numbers.
func (t *Text) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(t))
	}
	*t = Text(raw)
	return nil
}

// Parse reads a scenario. Unknown keys are errors.
func Parse(text []byte) (*Cluster, error) {
	var any any
	if err := yaml.UnmarshalStrict(text, &any); err != nil {
		return nil, fmt.Errorf("reading the scenario: %w", err)
	}
	plain, err := json.Marshal(unboolean(any))
	if err != nil {
		return nil, fmt.Errorf("reading the scenario: %w", err)
	}
	var c Cluster
	d := json.NewDecoder(bytes.NewReader(plain))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("reading the scenario: %w", err)
	}
	return &c, nil
}

// ParseFile reads a scenario that stands alone or as the input of the first command "cluster" of a scenario file.
func ParseFile(text []byte) (*Cluster, error) {
	_, rest, found := strings.Cut("\n"+string(text), "\ncluster\n")
	if !found {
		return Parse(text)
	}
	input, _, _ := strings.Cut(rest, "\n----")
	return Parse([]byte(input))
}

// unboolean undoes YAML 1.1, to which the key "on" is a boolean.
func unboolean(v any) any {
	switch x := v.(type) {
	case map[string]any:
		if on, ok := x["true"]; ok {
			delete(x, "true")
			x["on"] = on
		}
		for k := range x {
			x[k] = unboolean(x[k])
		}
	case []any:
		for i := range x {
			x[i] = unboolean(x[i])
		}
	}
	return v
}

// Snapshot is a scenario in full.
type Snapshot struct {
	At time.Time
	// Objects in the order they depend on each other; each is a pointer to an API type or a map.
	Objects   []any
	Catalogue *listing.File
	// CatalogueText is the catalogue as it stands in the fixture.
	CatalogueText []byte
	Offerings     listing.Offerings
}

// Expand yields the objects a scenario stands for. The catalogue is the text of a catalogue file.
func (c *Cluster) Expand(catalogue []byte) (*Snapshot, error) {
	text, err := yaml.YAMLToJSON(catalogue)
	if err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	file, err := listing.Decode(text)
	if err != nil {
		return nil, err
	}
	at := Clock
	if c.At != nil {
		at = *c.At
	}
	now, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil, fmt.Errorf("reading the clock: %w", err)
	}
	x := &expander{in: c, now: now, file: file, out: &Snapshot{At: now, Catalogue: file, CatalogueText: catalogue}}
	for _, step := range []func() error{
		x.settings, x.class, x.pools, x.daemonSets, x.namespaces, x.nodes, x.pods, x.budgets, x.cronJob, x.events, x.offerings, x.raw,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return x.out, nil
}

type expander struct {
	in     *Cluster
	now    time.Time
	file   *listing.File
	out    *Snapshot
	byPool map[string]*poolFacts
}

func (x *expander) add(objects ...any) { x.out.Objects = append(x.out.Objects, objects...) }

// uid makes an identifier that is the same in each expansion.
func uid(namespace, name string) string {
	h := fnv.New64a()
	h.Write([]byte(namespace + "/" + name))
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", h.Sum64()>>16)
}

// time reads an instant: RFC 3339, a time of the clock's day, or a duration before the clock. Empty is the default.
func (x *expander) time(text, otherwise string) (time.Time, error) {
	if text == "" {
		text = otherwise
	}
	if d, err := time.ParseDuration(text); err == nil {
		return x.now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			day := x.now.UTC().Truncate(24 * time.Hour)
			return day.Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second), nil
		}
	}
	return time.Time{}, fmt.Errorf("reading time %q: want RFC 3339, a time of day or a duration before the clock", text)
}

// zone completes a zone's letter.
func (x *expander) zone(z string) string {
	if len(z) == 1 {
		return x.file.Region + z
	}
	return z
}

func (x *expander) zones(letters []string) []string {
	out := make([]string, len(letters))
	for i, z := range letters {
		out[i] = x.zone(z)
	}
	return out
}

func (x *expander) offerings() error {
	x.out.Offerings = listing.Offerings{APIVersion: listing.APIVersion, Kind: listing.OfferingKind}
	for _, u := range x.in.Unavailable {
		o := listing.Offering{Type: u.Type, Zone: x.zone(u.Zone), CapacityType: u.CT, Reason: u.Reason}
		if u.Until != "" {
			t, err := x.time(u.Until, "")
			if err != nil {
				return err
			}
			o.Until = t
		}
		x.out.Offerings.Items = append(x.out.Offerings.Items, o)
	}
	return nil
}

func (x *expander) raw() error {
	for _, o := range x.in.Objects {
		var m map[string]any
		if err := json.Unmarshal(o, &m); err != nil {
			return fmt.Errorf("reading objects: %w", err)
		}
		x.add(m)
	}
	return nil
}

// decode reads verbatim parts of a scenario into an API type.
func decode(raw json.RawMessage, into any, what string) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	return nil
}
