package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// This file adds what the scenarios of the disruption specification speak of (its section 32):
//
//	n1: f.x {2,1}/spot/z2@Q; drifted 1h; pods notdisrupt true     a node of pool P, or Q, with pods of 2 and 1 vCPU (1 GiB a vCPU)
//	U r: 2                                                         an unmanaged node with room for 2 vCPU
//	pool P: after 1m; never; policy Balanced; budget 10%; budget 0 reasons Empty,Drifted at 0 9 * * mon-fri for 8h
//	pdb b: sel app=web; allowed 0; never; unready; ns other; broken
//	at 19s:                                                        time goes on; the snapshot is of that instant
//	unknown Pod: forbidden
//
// A node says how it stands: drifted AGE, grace D, mark VALUE (annotation do-not-disrupt), nominated D, event AGE (last pod event), init AGE,
// young (not Consolidatable), unready, held ID, reason R, buffered N, old AGE. What follows "pods" is said of all its pods.

// Time is that of the next snapshot.
func (w *World) Time() time.Time { return Epoch().Add(w.clock) }

// shorthand reads a line such as "n1: f.x {2,1}@Q; drifted 1h". It returns false if the line is no such thing.
func (w *World) shorthand(head, rest string) (bool, error) {
	name := strings.TrimSpace(head)
	open, end := strings.Index(rest, "{"), strings.Index(rest, "}")
	if strings.Contains(name, " ") || open < 0 || end < open {
		return false, nil
	}
	kind, list := strings.TrimSpace(rest[:open]), rest[open+1:end]
	tail, attrs, _ := strings.Cut(rest[end+1:], ";")
	node := fmt.Sprintf("node %s: type %s", name, kind)
	pool, zone, ct := "P", "z1", catalog.OnDemand
	tail, at, named := strings.Cut(strings.TrimSpace(tail), "@")
	if named {
		pool = strings.TrimSpace(at)
	}
	for suffix := range strings.SplitSeq(tail, "/") {
		switch suffix = strings.TrimSpace(suffix); {
		case suffix == catalog.Spot, suffix == catalog.Reserved:
			ct = suffix
		case suffix != "":
			zone = suffix
		}
	}
	node += fmt.Sprintf("; pool %s; zone %s; ct %s", pool, zone, ct)
	ofPods := "; owner apps/v1 ReplicaSet"
	for a := range strings.SplitSeq(attrs, ";") {
		if a = strings.TrimSpace(a); strings.HasPrefix(a, "pods ") {
			ofPods += "; " + strings.TrimPrefix(a, "pods ")
		} else if a != "" {
			node += "; " + a
		}
	}
	if err := w.line(node); err != nil {
		return true, err
	}
	for i, size := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		cores, err := strconv.ParseFloat(size, 64)
		if err != nil {
			return true, err
		}
		pod := fmt.Sprintf("bound %s-p%d on %s: cpu %dm; mem %dMi%s", name, i+1, name, int(cores*1000), int(cores*1024), ofPods)
		if err := w.line(pod); err != nil {
			return true, err
		}
	}
	return true, nil
}

// room adds an unmanaged node with so many free cores and twice as many GiB.
func (w *World) room(name, cores string) error {
	return w.line(fmt.Sprintf("node %s: type %s; unmanaged; zone z1; reports cpu %s; reports mem %sGi", name, w.Catalog[len(w.Catalog)-1].Name, cores,
		strconv.Itoa(2*atoi(cores))))
}

// int32Of reads a count of the API's width.
func int32Of(s string) (int32, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// poolDisruption reads an attribute of a pool about disruption; it returns false if there is none of that name.
func poolDisruption(p *cluster.Pool, a attr) (bool, error) {
	d := &p.Disruption
	switch a.name {
	case "after":
		var err error
		d.After, err = time.ParseDuration(a.arg(0))
		return true, err
	case "never":
		d.Never = true
	case "policy":
		d.Policy = a.arg(0)
	case "budget":
		d.Budgets = append(d.Budgets, budgetOf(a.args))
	default:
		return false, nil
	}
	return true, nil
}

func budgetOf(f []string) cluster.Budget {
	b := cluster.Budget{Nodes: f[0]}
	for i := 1; i < len(f); i++ {
		switch f[i] {
		case "reasons":
			b.Reasons = []string{}
			if i+1 < len(f) && f[i+1] != "none" {
				b.Reasons = strings.Split(f[i+1], ",")
			}
			i++
		case "at":
			for i++; i < len(f) && f[i] != "for"; i++ {
				b.Schedule = strings.TrimSpace(b.Schedule + " " + f[i])
			}
			i--
		case "for":
			i++
			b.Duration = f[i]
		}
	}
	return b
}

// disrupt reads an attribute of a node about disruption.
func (s *nodeState) disrupt(w *World, a attr) (bool, error) {
	ago := func() time.Time {
		d, err := time.ParseDuration(a.arg(0))
		if err != nil {
			return time.Time{}
		}
		return w.Time().Add(-d)
	}
	switch a.name {
	case "drifted":
		s.claim.Drifted, s.claim.Drift = true, cluster.Condition{Type: "Drifted", Reason: "NodePoolDrifted", Since: ago()}
	case "grace":
		s.claim.TerminationGracePeriod = a.arg(0)
	case "mark":
		s.node.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": a.arg(0)}
	case "nominated":
		d, err := time.ParseDuration(a.arg(0))
		if err != nil {
			return true, err
		}
		w.nominated[s.node.Name] = w.Time().Add(d)
	case "event":
		s.claim.LastPodEvent = ago()
	case "init":
		s.claim.InitializedAt = ago()
	case "young":
		s.young = true
	case "unready":
		s.unready = true
	case "held":
		s.claim.Command = a.arg(0)
	case "reason":
		s.claim.DisruptionReason = a.arg(0)
	case "buffered":
		w.held[s.node.Name] = atoi(a.arg(0))
	case "old":
		s.claim.Created = ago()
	case "noclaim":
		s.noclaim = true
	case "nonode":
		s.nonode = true
	case "cordoned":
		s.node.Taints = append(s.node.Taints, constraint.Taint{Key: "node.kubernetes.io/unschedulable", Effect: constraint.NoSchedule})
	case "hash":
		s.claim.Annotations = map[string]string{"karpenter.sh/nodepool-hash": a.arg(0), "karpenter.sh/nodepool-hash-version": a.arg(1)}
	default:
		return false, nil
	}
	return true, nil
}

// stand finishes a node that the disruption attributes describe.
func (s *nodeState) stand() {
	s.claim.Consolidatable = s.state == "init" && !s.young
	if s.claim.InitializedAt.IsZero() && s.claim.Initialized {
		s.claim.InitializedAt = Epoch().Add(-24 * time.Hour)
	}
	if s.unready {
		s.node.Ready = false
	}
}

// podDisruption reads an attribute of a pod about disruption.
func podDisruption(p *cluster.Pod, a attr) (bool, error) {
	switch a.name {
	case "cost":
		// As at the edge, what is no number counts for nothing.
		p.DeletionCost, _ = strconv.ParseFloat(a.arg(0), 64)
	case "notready":
		p.Unready = true
	case "ready":
		p.Ready = true
	default:
		return false, nil
	}
	return true, nil
}

func (w *World) pdb(name string, attrs []attr) error {
	p := &cluster.PDB{Namespace: "default", Name: name, Allowed: 0}
	for _, a := range attrs {
		switch a.name {
		case "sel":
			p.Selector = &cluster.Selector{MatchLabels: map[string]string{}}
			pair(p.Selector.MatchLabels, a.arg(0))
		case "all":
			p.Selector = &cluster.Selector{}
		case "allowed":
			p.Allowed = int32(atoi(a.arg(0)))
		case "never":
			p.Never = true
		case "unready":
			p.FreesUnready = true
		case "ns":
			p.Namespace = a.arg(0)
		case "broken":
			p.Selector, p.Problem = &cluster.Selector{}, "operator is invalid"
		default:
			return fmt.Errorf("attribute %q does not exist", a.name)
		}
	}
	w.Builder.SetPDB(p)
	return nil
}

// F is the fixture of the disruption specification: one vCPU with 2 GiB at 0.0625 an hour, a quarter of that on spot, in five sizes and three zones.
func F() []catalog.InstanceType {
	var out []catalog.InstanceType
	for i, size := range []string{"s", "m", "l", "x", "2x"} {
		out = append(out, fType("f."+size, 1<<i, float64(int(1)<<i)*0.0625, float64(int(1)<<i)*0.015625))
	}
	return out
}

// S is the other fixture: twenty types of two vCPU, of which the ith costs i/32 an hour, i/128 on spot.
func S() []catalog.InstanceType {
	var out []catalog.InstanceType
	for i := 1; i <= 20; i++ {
		out = append(out, fType(fmt.Sprintf("s%02d", i), 2, float64(i)/32, float64(i)/128))
	}
	return out
}

func fType(name string, cores int, od, spot float64) catalog.InstanceType {
	s := typeSpec{name: name, arch: "amd64", gen: "1", od: od, spot: spot, zones: []string{"z1", "z2", "z3"},
		extra: units.List{units.CPU: int64(cores) * 1000, units.Memory: int64(cores) << 31, units.Pods: 110}}
	return s.build()
}
