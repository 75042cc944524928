package cluster

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// Digest is a 128-bit content hash. Digests of the parts of a set are added up, so that the whole does not depend on their order and one
// part can be exchanged. It guards against mistakes, not against forgery.
type Digest struct{ a, b uint64 }

// String returns the digest in hexadecimal.
func (d Digest) String() string {
	var buf [16]byte
	binary.BigEndian.PutUint64(buf[:8], d.a)
	binary.BigEndian.PutUint64(buf[8:], d.b)
	return hex.EncodeToString(buf[:])
}

func (d Digest) plus(o Digest) Digest  { return Digest{d.a + o.a, d.b + o.b} }
func (d Digest) minus(o Digest) Digest { return Digest{d.a - o.a, d.b - o.b} }

// hasher is FNV-1a over words of eight bytes, in two lanes that start and multiply differently.
type hasher struct{ a, b uint64 }

func newHasher() hasher { return hasher{14695981039346656037, 0x9e3779b97f4a7c15} }

func digestOf(write func(*hasher)) Digest {
	h := newHasher()
	write(&h)
	return h.digest()
}

// digest ends with an avalanche, so that sums of similar digests do not cancel.
func (h *hasher) digest() Digest { return Digest{avalanche(h.a), avalanche(h.b ^ h.a)} }

func avalanche(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func (h *hasher) byte(c byte) {
	h.a = (h.a ^ uint64(c)) * 1099511628211
	h.b = (h.b ^ uint64(c)) * 0x100000001b3d
}

// str writes strings, each with its length.
func (h *hasher) str(ss ...string) {
	for _, s := range ss {
		h.word(uint64(len(s)) | 0xff<<56)
		for ; len(s) >= 8; s = s[8:] {
			h.word(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56)
		}
		tail := uint64(0)
		for i := range len(s) {
			tail = tail<<8 | uint64(s[i])
		}
		h.word(tail)
	}
}

func (h *hasher) word(w uint64) {
	h.a = (h.a ^ w) * 1099511628211
	h.b = (h.b ^ w) * 0x100000001b3d
	h.a ^= h.a >> 29
	h.b ^= h.b >> 31
}

func (h *hasher) int(ns ...int64) {
	for _, n := range ns {
		h.word(uint64(n))
	}
}

func (h *hasher) bool(bs ...bool) {
	for _, b := range bs {
		if b {
			h.byte(1)
		} else {
			h.byte(2)
		}
	}
}

func (h *hasher) time(t time.Time) {
	if t.IsZero() {
		h.int(0)
		return
	}
	h.int(t.Unix(), int64(t.Nanosecond()))
}

func (h *hasher) labels(m map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		h.str(k, m[k])
	}
	h.byte(0xfe)
}

func (h *hasher) list(l units.List) {
	for _, k := range l.Names() {
		h.str(k)
		h.int(l[k])
	}
	h.byte(0xfe)
}

func (h *hasher) taints(ts []constraint.Taint) {
	for _, t := range ts {
		h.str(t.Key, t.Value, string(t.Effect))
	}
	h.byte(0xfe)
}

func (h *hasher) exprs(es []constraint.Expr) {
	for _, e := range es {
		h.str(e.Key, string(e.Operator))
		h.str(e.Values...)
		h.int(int64(e.MinValues), int64(len(e.Values)))
	}
	h.byte(0xfe)
}

func (h *hasher) condition(c Condition) { h.str(c.Type, c.Reason, c.Message); h.time(c.Since) }

// hashLabels does not depend on the map's order: it adds up the hashes of the pairs.
func hashLabels(m map[string]string) uint64 {
	sum := uint64(len(m))
	for k, v := range m {
		h := hasher{14695981039346656037, 0}
		h.str(k, v)
		sum += avalanche(h.a)
	}
	return sum
}

// digestPod does without digestOf, whose hasher is allocated: there are many pods.
func digestPod(p *Pod, l *LabelSet) Digest {
	h := newHasher()
	h.str(p.UID, p.Namespace, p.Name, p.Shape.Key, p.Owner.APIVersion, p.Owner.Kind, p.Owner.UID, p.Node, p.Nominated,
		p.Scheduled, p.Phase, p.DoNotDisrupt, p.EvictionBlocked)
	h.int(int64(l.hash))
	h.time(p.Created)
	h.time(p.Started)
	h.time(p.Deleted)
	h.bool(p.NominatedByKarp, p.Ready, p.Unready)
	h.word(math.Float64bits(p.DeletionCost))
	return h.digest()
}

func digestPool(p *Pool) Digest {
	return digestOf(func(h *hasher) {
		h.str("pool", p.Name, p.UID, p.NodeClass.Group, p.NodeClass.Kind, p.NodeClass.Name, p.ExpireAfter, p.TerminationGracePeriod, p.Hash,
			p.HashVersion, p.CatalogProblem)
		h.int(p.Generation, int64(p.Weight))
		if p.Replicas != nil {
			h.int(*p.Replicas)
		}
		h.bool(p.Ready, p.Deleting, p.Class != nil, p.Limits != nil, p.Catalog != nil)
		if p.Class != nil {
			h.str(p.Class.Name)
			h.str(p.Class.Zones...)
			h.bool(p.Class.Ready, p.Class.Deleting)
		}
		h.condition(p.NotReady)
		h.labels(p.Labels)
		h.labels(p.Annotations)
		h.exprs(p.Requirements)
		h.taints(p.Taints)
		h.taints(p.StartupTaints)
		h.list(p.Limits)
		h.disruption(p.Disruption)
		if p.Catalog != nil {
			h.str(p.Catalog.Digest())
		}
	})
}

func digestNode(n *Node) Digest {
	return digestOf(func(h *hasher) {
		h.str("node", n.Name, n.UID, n.ProviderID)
		h.labels(n.Labels)
		h.labels(n.Annotations)
		h.taints(n.Taints)
		h.list(n.Capacity)
		h.list(n.Allocatable)
		h.list(n.AttachLimits)
		h.time(n.Created)
		h.time(n.Deleted)
		h.bool(n.Ready)
	})
}

func digestClaim(c *Claim) Digest {
	return digestOf(func(h *hasher) {
		h.str("claim", c.Name, c.UID, c.ProviderID, c.NodeName, c.Pool, c.NodeClass.Group, c.NodeClass.Kind, c.NodeClass.Name,
			c.ExpireAfter, c.TerminationGracePeriod)
		h.labels(c.Labels)
		h.labels(c.Annotations)
		h.exprs(c.Requirements)
		h.list(c.Requests)
		h.taints(c.Taints)
		h.taints(c.StartupTaints)
		h.list(c.Capacity)
		h.list(c.Allocatable)
		h.time(c.Created)
		h.time(c.Deleted)
		h.bool(c.Launched, c.Registered, c.Initialized, c.Terminating, c.Marked)
		h.condition(c.LaunchProblem)
		h.time(c.InitializedAt)
		h.time(c.LastPodEvent)
		h.bool(c.Consolidatable, c.Drifted)
		h.condition(c.Drift)
		h.str(c.DisruptionReason, c.Command)
	})
}

func (h *hasher) disruption(d Disruption) {
	h.str(d.Policy)
	h.int(int64(d.After), int64(len(d.Budgets)))
	h.bool(d.Never)
	for _, b := range d.Budgets {
		h.str(b.Nodes, b.Schedule, b.Duration)
		h.bool(b.Reasons == nil)
		h.str(b.Reasons...)
		h.byte(0xfe)
	}
}

func digestPDB(p *PDB) Digest {
	return digestOf(func(h *hasher) {
		h.str("pdb", p.Namespace, p.Name, p.Problem)
		h.int(int64(p.Allowed))
		h.bool(p.Never, p.FreesUnready, p.Selector != nil)
		if p.Selector != nil {
			h.labels(p.Selector.MatchLabels)
			h.exprs(p.Selector.Exprs)
		}
	})
}

func digestDaemonSet(d *DaemonSet) Digest {
	return digestOf(func(h *hasher) {
		s := d.Shape
		if s.Key == "" {
			s = NewShape(*s)
		}
		h.str("daemonset", d.Namespace, d.Name, d.UID, s.Key)
	})
}

func digestSettings(s Settings) Digest {
	return digestOf(func(h *hasher) { h.str("settings", fmt.Sprintf("%+v", s)) })
}
