package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/reason"
)

// draft is a fix before it was simulated, with what orders it.
type draft struct {
	fix reason.Fix
	// rank of its pool, from nearest; late puts worse ways of the same kind after others; adds tells that it creates an object.
	rank int
	late bool
	adds bool
	// kinds are those of the changes, one by one.
	kinds []reason.Kind
}

// maxDrafts bounds the number of simulations: more fixes than that are never read.
const maxDrafts = 24

// fixes are all smallest sets of all pools as changes, in the order of the nearest-miss rule, as far as the engine confirms them.
func (q *inquiry) fixes(ranked []*rankedPool) []reason.Fix {
	var drafts []draft
	for rank, r := range ranked {
		for _, s := range r.sets {
			drafts = append(drafts, q.drafts(r, s, rank)...)
		}
	}
	slices.SortStableFunc(drafts, compareDrafts)
	var confirmed []draft
	seen := map[string]bool{}
	for i, d := range drafts {
		if seen[identity(d.fix)] || i >= maxDrafts || q.most > 0 && len(confirmed) >= q.most {
			continue
		}
		e, ok := q.lab.try(d.fix.Changes)
		if !ok {
			continue
		}
		seen[identity(d.fix)] = true
		whole := len(d.fix.Changes)
		d, e = q.needed(d, e)
		if len(d.fix.Changes) < whole {
			// What is left may be what another pool needs, whose own sets say so better.
			if seen[identity(d.fix)] || e.Launch != nil && e.Launch.Pool != d.fix.Pool && slices.ContainsFunc(ranked, isPool(e.Launch.Pool)) {
				continue
			}
			seen[identity(d.fix)] = true
		}
		e.Drift = q.lab.drift(d.fix.Changes)
		d.fix.Verified, d.fix.Effect = true, e
		if !q.useless(d.fix) {
			confirmed = append(confirmed, d)
		}
	}
	slices.SortStableFunc(confirmed, compareDrafts)
	out := make([]reason.Fix, 0, len(confirmed))
	for _, d := range confirmed {
		out = append(out, d.fix)
	}
	return append(out, q.untested(ranked)...)
}

func isPool(name string) func(*rankedPool) bool {
	return func(r *rankedPool) bool { return r.c.pool.Name == name }
}

// needed leaves out the changes without which the fix helps as well: a set opens one offering, but part of it may already free the way to a node
// that exists, or to another pool. The costliest changes are left out first.
func (q *inquiry) needed(d draft, e reason.FixEffect) (draft, reason.FixEffect) {
	for i := len(d.fix.Changes) - 1; i >= 0 && len(d.fix.Changes) > 1; i-- {
		rest := slices.Delete(slices.Clone(d.fix.Changes), i, i+1)
		if fewer, ok := q.lab.try(rest); ok {
			e, d.fix.Changes, d.kinds = fewer, rest, slices.Delete(slices.Clone(d.kinds), i, i+1)
			d.fix.Distance.Conditions, d.fix.Distance.Kind = len(rest), slices.Max(d.kinds)
			warn(&d.fix)
		}
	}
	return d, e
}

// useless tells of a new pool where adopting the label would drift nothing.
func (q *inquiry) useless(f reason.Fix) bool {
	return slices.ContainsFunc(f.Changes, func(ch reason.Change) bool {
		return ch.Action == reason.NewPool && undrifted(q.s, ch.Object.Name) == 0
	})
}

func compareDrafts(x, y draft) int {
	late := func(d draft) int {
		if d.late {
			return 1
		}
		return 0
	}
	adds := func(d draft) int {
		if d.adds {
			return 1
		}
		return 0
	}
	return cmp.Or(
		compareDistance(x.fix.Distance, y.fix.Distance), cmp.Compare(late(x), late(y)), cmp.Compare(x.rank, y.rank),
		cmp.Compare(ownerRank(x.fix.Owner), ownerRank(y.fix.Owner)), cmp.Compare(adds(x), adds(y)),
		until(x.fix).Compare(until(y.fix)),
	)
}

func until(f reason.Fix) time.Time {
	for _, ch := range f.Changes {
		if !ch.Until.IsZero() {
			return ch.Until
		}
	}
	return time.Time{}
}

func ownerRank(o reason.FixOwner) int {
	return slices.Index([]reason.FixOwner{
		reason.ByPod, reason.ByPool, reason.ByCluster, reason.ByCloud, reason.ByWait, reason.ByAccept,
	}, o)
}

// drafts spells one set out: for a single condition each way to meet it, for several the best way of each.
func (q *inquiry) drafts(r *rankedPool, s changeSet, rank int) []draft {
	best := s.changes()
	out := []draft{q.draft(r, s, rank, best)}
	if s.distance.Conditions > 1 {
		return q.withLabelAdopted(r, s, rank, out)
	}
	m := s.misses[0]
	for _, alt := range m.more {
		d := q.draft(r, s, rank, []reason.Change{alt})
		d.late = alt.Action == reason.RaiseMaxSkew
		out = append(out, d)
		if alt.Action == reason.AddLabel {
			alt.Action, alt.From = reason.NewPool, newName(q.s, alt.Object.Name, alt.To)
			d = q.draft(r, s, rank, []reason.Change{alt})
			d.adds = true
			out = append(out, d)
		}
	}
	return out
}

// withLabelAdopted adds the variant of a larger set in which the pool adopts the labels that nobody knows.
func (q *inquiry) withLabelAdopted(r *rankedPool, s changeSet, rank int, out []draft) []draft {
	changes := s.changes()
	changed := false
	for i, ch := range changes {
		for _, m := range s.misses {
			if m.change.Action == reason.DropSelector && m.key == ch.Key && len(m.more) > 0 && ch.Action == reason.DropSelector {
				changes[i], changed = m.more[0], true
			}
		}
	}
	if changed {
		out = append(out, q.draft(r, s, rank, changes))
	}
	return out
}

func (q *inquiry) draft(r *rankedPool, s changeSet, rank int, changes []reason.Change) draft {
	d := draft{fix: reason.Fix{Pool: r.c.pool.Name, Distance: s.distance}, rank: rank}
	kinds := s.kinds()
	order := make([]int, len(changes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(kinds[x], kinds[y]) })
	for _, i := range order {
		d.fix.Changes, d.kinds = append(d.fix.Changes, changes[i]), append(d.kinds, kinds[i])
	}
	warn(&d.fix)
	return d
}

// warn names the owner of a fix, the last in order of those of its changes, and what the text must warn of.
func warn(f *reason.Fix) {
	f.Owner, f.LosesGuarantee, f.MayBeInterrupted = "", false, false
	for _, ch := range f.Changes {
		if f.Owner == "" || ownerRank(ch.Owner) > ownerRank(f.Owner) {
			f.Owner = ch.Owner
		}
		switch {
		case ch.Action == reason.ScheduleAnyway, ch.Action == reason.RaiseMaxSkew, ch.Action == reason.LowerMinDomains, ch.Action == reason.DropAffinity,
			ch.Action == reason.SoftenAffinity:
			f.LosesGuarantee = true
		case ch.Action == reason.AddValue && ch.Key == constraint.CapacityTypeKey && ch.To == catalog.Spot,
			ch.Action == reason.DropRequirement && ch.Key == constraint.CapacityTypeKey:
			f.MayBeInterrupted = true
		}
	}
}

// identity makes the same change in two pools one: the pod's always, a pool's if it opens the same key to the same value, waiting once.
func identity(f reason.Fix) string {
	id := ""
	for _, ch := range f.Changes {
		where := ch.Object.Name
		switch ch.Action {
		case reason.AddValue:
			where = ""
		case reason.WaitUntil:
			id += "wait;"
			continue
		default: // the object tells them apart
		}
		if ch.Object.Kind == "Pod" {
			where = ""
		}
		id += fmt.Sprintf("%s/%s/%s/%s/%d/%d;", ch.Action, where, ch.Key, ch.To, ch.Index, ch.Amount)
		if ch.Object.Kind != "Pod" && ch.Action == reason.AddValue {
			id = fmt.Sprintf("%s/%s/%s;", ch.Action, ch.Key, ch.To)
		}
	}
	return id
}

// untested are ways out that lie outside the simulation. They stand last.
func (q *inquiry) untested(ranked []*rankedPool) []reason.Fix {
	near := ranked[0]
	switch near.answer.Code {
	case reason.VolumeZoneConflict:
		if len(near.answer.Volumes) == 0 {
			return nil
		}
		v := near.answer.Volumes[0]
		return []reason.Fix{{Owner: reason.ByPod, Pool: near.answer.Pool, Changes: []reason.Change{{
			Owner: reason.ByPod, Action: reason.MoveData, Object: q.object(), Key: v.Claim, From: v.PV, Others: v.PoolValues,
		}}}}
	case reason.ZoneWithoutSubnet:
		return []reason.Fix{{Owner: reason.ByPool, Pool: near.answer.Pool, Changes: []reason.Change{{
			Owner: reason.ByPool, Action: reason.AddSubnet, Object: reason.Object{Kind: near.c.pool.NodeClass.Kind, Name: near.c.pool.NodeClass.Name},
			Others: q.wantedZones(),
		}}}}
	case reason.NodePoolNotReady:
		// Without a catalogue nobody knows what the pool would launch.
		if len(near.c.cands) == 0 {
			return []reason.Fix{{Owner: reason.ByPool, Pool: near.answer.Pool, Changes: []reason.Change{{
				Owner: reason.ByPool, Action: reason.MakeReady, Object: near.c.object(), From: near.c.pool.NotReady.Reason,
			}}}}
		}
	default: // no such way out
	}
	return nil
}

// wantedZones are the zones that pod or volumes ask for.
func (q *inquiry) wantedZones() []string {
	var out []string
	for _, rs := range slices.Concat(q.terms, q.volumes) {
		if r, ok := rs.Get(constraint.ZoneKey); ok && r.Operator() == constraint.In {
			out = append(out, r.Values()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
