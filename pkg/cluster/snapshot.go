package cluster

import (
	"cmp"
	"slices"
	"time"
)

// Snapshot is the state of the cluster at one instant. It is made by a Builder and immutable: everything reachable from it is shared with
// the builder and with other snapshots.
type Snapshot struct {
	At         time.Time
	Pools      []*Pool      // by name
	Nodes      []*Node      // by name
	Claims     []*Claim     // by name
	Pods       []*Pod       // by UID
	DaemonSets []*DaemonSet // by namespace and name
	PDBs       []*PDB       // by namespace and name
	// Namespaces maps a namespace to its labels.
	Namespaces map[string]map[string]string
	Unknown    []Unknown
	Settings   Settings
	Devices    Devices

	targets []*Target
	unbound []*Group
	digest  Digest
}

// Targets returns the merged view of nodes and claims (scheduling rules 3.1), by name. It contains those that are leaving.
func (s *Snapshot) Targets() []*Target { return s.targets }

// Leaving returns a snapshot in which the targets of these names are leaving as if they were marked, which is what a simulation starts from.
// Everything else is shared; the digest is that of the original.
func (s *Snapshot) Leaving(names map[string]bool) *Snapshot {
	out := *s
	out.targets = slices.Clone(s.targets)
	for i, t := range out.targets {
		if names[t.Name] && !t.Leaving {
			gone := *t
			gone.Leaving = true
			out.targets[i] = &gone
		}
	}
	return &out
}

// Rearrangement is a change of what runs where, as commands will make it.
type Rearrangement struct {
	// Gone are names of targets that go with all that is on them.
	Gone map[string]bool
	// Arriving are pods, by name of the target they come to.
	Arriving map[string][]*Group
	// Coming are targets that will be there.
	Coming []*Target
}

// Rearrange returns the snapshot as it will be once pods and nodes have moved. Only its targets differ: pods keep naming the nodes they are on now.
// Everything else is shared; the digest is that of the original.
func (s *Snapshot) Rearrange(r Rearrangement) *Snapshot {
	out := *s
	out.targets = make([]*Target, 0, len(s.targets)+len(r.Coming))
	for _, t := range s.targets {
		if r.Gone[t.Name] {
			continue
		}
		if groups := r.Arriving[t.Name]; len(groups) > 0 {
			fuller := *t
			fuller.Residents = slices.Concat(t.Residents, groups)
			fuller.Used = t.Used.Clone()
			for _, g := range groups {
				for k, v := range g.Shape.Requests {
					fuller.Used[k] += v * int64(len(g.Pods))
				}
			}
			t = &fuller
		}
		out.targets = append(out.targets, t)
	}
	out.targets = append(out.targets, r.Coming...)
	slices.SortStableFunc(out.targets, func(a, b *Target) int { return cmp.Compare(a.Name, b.Name) })
	return &out
}

// Unbound returns the pods without a node, in groups of equal shape and labels. The order of the groups is stable for equal content.
func (s *Snapshot) Unbound() []*Group { return s.unbound }

// Digest identifies the content of the snapshot: equal content gives an equal digest, in every process and whatever order it was put
// in; At does not count.
func (s *Snapshot) Digest() Digest { return s.digest }

// Pool returns the pool of that name, or nil.
func (s *Snapshot) Pool(name string) *Pool {
	for _, p := range s.Pools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Group is a number of pods that differ in nothing that scheduling looks at.
type Group struct {
	Shape  *Shape
	Labels *LabelSet
	// Pods by creation time, then UID.
	Pods []*Pod
}

// LabelSet is a set of pod labels shared by the pods that carry it.
type LabelSet struct {
	// Labels must not be changed.
	Labels map[string]string
	hash   uint64
}
