package pack

import (
	"cmp"
	"encoding/binary"
	"maps"
	"strconv"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// maxTypes is how many instance types a claim lists at most (rules 12.5).
const maxTypes = 600

// Annotations of claims.
const (
	hashAnnotation        = "karpenter.sh/nodepool-hash"
	hashVersionAnnotation = "karpenter.sh/nodepool-hash-version"
	priceAnnotation       = "karpenter.sh/price-overlay-applied"
	capacityAnnotation    = "karpenter.sh/capacity-overlay-applied"
	relaxedAnnotation     = "karpenter.sh/nodeclaim-min-values-relaxed"
)

// listing is what claims of one template with equal requirements and offerings have in common.
type listing struct {
	reqs          []constraint.Expr
	labels        map[string]string
	types         []string
	capacityTypes []string
	overhead      units.List
	price         units.Money
	cheapest      [3]string // type, zone, capacity type
	funnel        reason.Funnel
	// short tells that truncation broke minValues, relaxed that it lowered them (rules 12.5).
	short, relaxed bool
	// priced and sized tell that a NodeOverlay has changed the price or capacity of a listed type.
	priced, sized bool
}

// emit turns the planned claims into those of the plan (rules 25). A claim that truncation leaves with too few values is dropped and its pods
// are left over.
func (s *state) emit(p *plan.Plan) {
	pods := make([][]string, len(s.claims))
	for _, x := range s.places {
		if x.claim != nil {
			for _, pod := range x.group.Pods[x.from:x.to] {
				pods[x.claim.id] = append(pods[x.claim.id], pod.UID)
			}
		}
	}
	listings := map[string]*listing{}
	for _, c := range s.claims {
		if c.gone || len(pods[c.id]) == 0 {
			continue
		}
		key := listingKey(c)
		l := listings[key]
		if l == nil {
			l = s.list(c)
			listings[key] = l
		}
		if l.short {
			for _, uid := range pods[c.id] {
				p.Verdicts = append(p.Verdicts, plan.Verdict{Pod: uid, Layer: reason.InstanceType, Code: reason.MinValuesUnsatisfied})
			}
			continue
		}
		p.Claims = append(p.Claims, s.claimOf(c, l, pods[c.id]))
	}
}

func listingKey(c *claim) string {
	b := make([]byte, 0, 2048)
	b = append(strconv.AppendInt(b, int64(c.tmpl.Index), 10), '|')
	b = append(append(b, c.reqs.String()...), '|')
	for r := range c.reqs.All() {
		b = strconv.AppendInt(b, int64(r.MinValues), 10)
	}
	for _, w := range c.offers.Words() {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return string(b)
}

func (s *state) claimOf(c *claim, l *listing, pods []string) plan.Claim {
	pool := c.tmpl.Pool
	annotations := maps.Clone(pool.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[hashAnnotation], annotations[hashVersionAnnotation] = pool.Hash, pool.HashVersion
	annotations[relaxedAnnotation] = strconv.FormatBool(c.relaxed || l.relaxed)
	if l.priced {
		annotations[priceAnnotation] = "true"
	}
	if l.sized {
		annotations[capacityAnnotation] = "true"
	}
	if d := c.drivers(); d != "" {
		annotations[driversAnnotation] = d
	}
	return plan.Claim{
		Pool: pool.Name, PoolUID: pool.UID, PoolGeneration: pool.Generation, NodeClass: pool.NodeClass,
		Labels: l.labels, Annotations: annotations, Requirements: l.reqs, Taints: pool.Taints, StartupTaints: pool.StartupTaints,
		Requests: s.Axis.List(c.used).Add(l.overhead), Types: l.types, CapacityTypes: l.capacityTypes,
		ExpireAfter: pool.ExpireAfter, TerminationGracePeriod: cmp.Or(pool.TerminationGracePeriod, s.Snapshot.Settings.DefaultGrace), Pods: pods,
		Price: l.price, CheapestType: l.cheapest[0], CheapestZone: l.cheapest[1], CheapestBuyAs: l.cheapest[2], Funnel: l.funnel,
	}
}

func (s *state) list(c *claim) *listing {
	cat := c.tmpl.Catalog
	offers, types := truncate(cat, c.offers)
	l := &listing{types: types}
	reqs := c.reqs.Without(simulated)
	if len(types) < cat.CountTypes(c.offers) {
		short := c.tmpl.Shortfall(c.reqs, offers)
		l.short, l.relaxed = len(short) > 0 && !s.Snapshot.Settings.BestEffortMinValues, len(short) > 0
		reqs = lowered(reqs, short)
	}
	l.capacityTypes = cat.Values(constraint.CapacityTypeKey, offers)
	reqs = withValues(reqs, constraint.InstanceTypeKey, types)
	reqs = withValues(reqs, constraint.CapacityTypeKey, l.capacityTypes)
	reqs = s.pinned(c, reqs, offers)
	l.reqs, l.labels = reqs.Exprs(), labelsOf(c.tmpl, reqs)
	l.overhead = c.tmpl.LeastOverhead(offers)
	if i, ok := cat.Cheapest(offers); ok {
		typ, o := cat.Offer(i)
		l.price, l.cheapest = o.Price, [3]string{cat.Types()[typ].Name, o.Zone, o.CapacityType}
	}
	for typ := range cat.ByPrice(offers) {
		l.priced = l.priced || cat.Types()[typ].PriceOverlay
		l.sized = l.sized || cat.Types()[typ].CapacityOverlay
	}
	l.funnel = s.claimFunnel(c)
	return l
}

// lowered asks for no more values than there are.
func lowered(reqs constraint.Requirements, short []fit.Shortage) constraint.Requirements {
	for _, x := range short {
		r, _ := reqs.Get(x.Key)
		r.MinValues = x.Have
		reqs = reqs.Replace(r)
	}
	return reqs
}

// simulated reports whether a key exists only while planning.
func simulated(key string) bool {
	return key == constraint.HostnameKey || key == constraint.RegisteredKey || key == constraint.InitializedKey
}

// withValues pins a key to values, keeping how many of them are wanted.
func withValues(rs constraint.Requirements, key string, values []string) constraint.Requirements {
	if len(values) == 0 {
		return rs
	}
	old, _ := rs.Get(key)
	r := constraint.NewIn(key, values...)
	r.MinValues = old.MinValues
	return rs.Replace(r)
}

// truncate keeps the cheapest types, in order of price.
func truncate(cat *catalog.Catalog, offers *catalog.Set) (*catalog.Set, []string) {
	count := cat.CountTypes(offers)
	names := make([]string, 0, min(count, maxTypes))
	keep := make(map[int]bool, min(count, maxTypes))
	for typ := range cat.ByPrice(offers) {
		if len(names) == maxTypes {
			break
		}
		names = append(names, cat.Types()[typ].Name)
		keep[typ] = true
	}
	if count <= maxTypes {
		return offers, names
	}
	out := offers.Clone()
	for i, ok := offers.NextSet(0); ok; i, ok = offers.NextSet(i + 1) {
		if typ, _ := cat.Offer(int(i)); !keep[typ] {
			out.Clear(i)
		}
	}
	return out, names
}

// labelsOf returns the template's labels and one concrete label for each custom key (rules 25.2).
func labelsOf(t *fit.Template, reqs constraint.Requirements) map[string]string {
	out := maps.Clone(t.Labels)
	for r := range reqs.All() {
		if constraint.WellKnown(r.Key) || out[r.Key] != "" {
			continue
		}
		if v, ok := r.Sample(); ok {
			out[r.Key] = v
		}
	}
	return out
}

// claimFunnel tells how the claim's types were narrowed down: by the pool, by its pods, by availability, by size.
func (s *state) claimFunnel(c *claim) reason.Funnel {
	cat := c.tmpl.Catalog
	matching := cat.Narrow(c.tmpl.Matching, c.reqs, nil)
	f := reason.Funnel{cat.Count(cat.All(), "", ""), cat.Count(c.tmpl.Matching, reason.LabelConflict, constraint.NodePoolKey),
		cat.Count(matching, reason.LabelConflict, "")}
	matching.InPlaceIntersection(c.tmpl.Offers)
	f = append(f, cat.Count(matching, reason.OfferingUnavailable, ""))
	return append(f, cat.Count(c.offers, reason.TooBig, ""))
}
