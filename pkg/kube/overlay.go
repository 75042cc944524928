package kube

import (
	"context"
	"maps"
	"slices"
	"sync"

	karpv1alpha1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1alpha1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/overlay"
	"github.com/karp-sh/karp/pkg/units"
)

// notEvaluated is why a pool has no catalogue while its overlays are not known (scheduling rules 23).
const notEvaluated = "node overlays are not evaluated for this pool yet"

// NewOverlay converts a NodeOverlay. What the schema lets through and the rules forbid makes it invalid.
func NewOverlay(o *karpv1alpha1.NodeOverlay) overlay.Overlay {
	out := overlay.Overlay{Name: o.Name, Generation: o.Generation, Capacity: Resources(o.Spec.Capacity)}
	if o.Spec.Weight != nil {
		out.Weight = *o.Spec.Weight
	}
	for _, r := range o.Spec.Requirements {
		out.Requirements = append(out.Requirements, constraint.Expr{Key: r.Key, Operator: constraint.Operator(r.Operator), Values: r.Values})
	}
	err := o.RuntimeValidate()
	switch {
	case err != nil:
	case o.Spec.Price != nil:
		out.Price, err = overlay.Fixed(*o.Spec.Price)
	case o.Spec.PriceAdjustment != nil:
		out.Price, err = overlay.Adjusted(*o.Spec.PriceAdjustment)
	}
	if err != nil {
		out.Invalid = err.Error()
	}
	return out
}

// SetNodeOverlay takes a NodeOverlay. Its status does not matter here.
func (s *State) SetNodeOverlay(o *karpv1alpha1.NodeOverlay) {
	if old, ok := s.overlays[o.Name]; ok && old.UID == o.UID && old.Generation == o.Generation && o.Generation != 0 {
		return
	}
	s.overlays[o.Name] = o
	s.overlayVersion++
}

// DeleteNodeOverlay takes a NodeOverlay away.
func (s *State) DeleteNodeOverlay(name string) {
	delete(s.overlays, name)
	s.overlayVersion++
}

// overlayInputs is what an evaluation depends on, beside the catalogues.
type overlayInputs struct {
	version  int
	overlays []*karpv1alpha1.NodeOverlay
	pools    map[string]*cluster.Pool
	// problem is why the overlays are not known; then no pool is evaluated.
	problem string
}

// overlayInputs returns nil while the gate is off.
func (s *State) overlayInputs() *overlayInputs {
	if !s.settings.NodeOverlay {
		return nil
	}
	in := &overlayInputs{version: s.overlayVersion, pools: maps.Clone(s.pools)}
	if s.still {
		// Read once: what could not be read then is not there. A watch that fails for a while leaves what it had shown.
		in.problem = s.volumes.unreadable[NodeOverlayKind]
	}
	for _, name := range slices.Sorted(maps.Keys(s.overlays)) {
		in.overlays = append(in.overlays, s.overlays[name])
	}
	return in
}

// overlaid is the outcome of an evaluation: the overlays' verdicts and, for each pool whose types are known, the corrected catalogue.
type overlaid struct {
	evaluation overlay.Evaluation
	pools      map[string]overlaidPool
	problem    string
}

type overlaidPool struct {
	pool          *cluster.Pool
	base, catalog *catalog.Catalog
}

// overlayer keeps the last evaluation, so that consecutive snapshots share their catalogues. It is safe for concurrent use.
type overlayer struct {
	mu      sync.Mutex
	version int
	last    *overlaid
}

// evaluate evaluates the overlays on all pools at once. A pool whose types are unknown is left out and does not hold up the others.
func (x *overlayer) evaluate(in *overlayInputs, priced map[string]pricing) *overlaid {
	if in == nil {
		return nil
	}
	if in.problem != "" {
		return &overlaid{problem: in.problem}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	pools := map[string]overlaidPool{}
	for name, p := range in.pools {
		if c := priced[p.NodeClass.Name].catalog; c != nil {
			pools[name] = overlaidPool{pool: p, base: c, catalog: c}
		}
	}
	if x.last != nil && x.version == in.version && maps.EqualFunc(x.last.pools, pools, overlaidPool.same) {
		return x.last
	}
	x.version, x.last = in.version, correct(in.overlays, pools)
	return x.last
}

func (p overlaidPool) same(o overlaidPool) bool {
	return p.base == o.base && maps.Equal(p.pool.Labels, o.pool.Labels)
}

// values is the pool for the rules.
func (p overlaidPool) values() overlay.Pool {
	return overlay.Pool{Name: p.pool.Name, Labels: p.pool.Labels, Types: p.base.Types()}
}

func correct(objects []*karpv1alpha1.NodeOverlay, pools map[string]overlaidPool) *overlaid {
	overlays := make([]overlay.Overlay, len(objects))
	for i, o := range objects {
		overlays[i] = NewOverlay(o)
	}
	names := slices.Sorted(maps.Keys(pools))
	values := make([]overlay.Pool, len(names))
	for i, name := range names {
		values[i] = pools[name].values()
	}
	out := &overlaid{evaluation: overlay.Evaluate(overlays, values), pools: pools}
	for _, name := range names {
		p := pools[name]
		if types, changed := out.evaluation.Apply(p.values()); changed {
			p.catalog = catalog.New(types)
			pools[name] = p
		}
	}
	return out
}

// of returns what a pool can launch, in place of what its class can.
func (o *overlaid) of(pool string, base pricing) pricing {
	if o == nil || base.catalog == nil {
		return base
	}
	p, ok := o.pools[pool]
	if !ok {
		base.catalog, base.problem = nil, notEvaluated
		if o.problem != "" {
			base.problem += ": " + o.problem
		}
		return base
	}
	base.catalog = p.catalog
	return base
}

// Overlays returns the verdicts on all NodeOverlays as of now. Complete is false while the types of some pool are not known, so that the verdicts may
// change. The error wraps ErrNotSynced until the feed is synced.
func (f *Feed) Overlays(ctx context.Context) (verdicts []overlay.Verdict, complete bool, err error) {
	_, now, err := f.price(ctx)
	if err != nil || now == nil {
		return nil, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	complete = true
	for name := range f.state.pools {
		_, ok := now.pools[name]
		complete = complete && ok
	}
	return now.evaluation.Verdicts, complete, nil
}

// lastEvaluation returns the last evaluation, nil before the first.
func (f *Feed) lastEvaluation() *overlaid {
	x := &f.state.overlayer
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last
}

// Overlay corrects instance types as the overlays of a pool say, which is what launches of its claims go by. A pool that is gone gets them as they
// are. The error wraps ErrNotSynced until the feed is synced.
func (f *Feed) Overlay(ctx context.Context, pool string, types []catalog.InstanceType) ([]catalog.InstanceType, error) {
	_, now, err := f.price(ctx)
	if err != nil || now == nil {
		return types, err
	}
	p, ok := now.pools[pool]
	if !ok {
		return types, nil
	}
	out, _ := now.evaluation.Apply(overlay.Pool{Name: pool, Labels: p.pool.Labels, Types: types})
	return out, nil
}

// OverlayCapacity is what overlays add to the capacity of a pool's nodes of an instance type, by resource name; nil if nothing.
func (f *Feed) OverlayCapacity(pool, instanceType string) units.List {
	last := f.lastEvaluation()
	if last == nil {
		return nil
	}
	find := func(c *catalog.Catalog) *catalog.InstanceType {
		list := c.Types()
		i := slices.IndexFunc(list, func(t catalog.InstanceType) bool { return t.Name == instanceType })
		if i < 0 {
			return nil
		}
		return &list[i]
	}
	p, ok := last.pools[pool]
	if !ok {
		return nil
	}
	t, base := find(p.catalog), find(p.base)
	if t == nil || base == nil || !t.CapacityOverlay {
		return nil
	}
	out := units.List{}
	for name, n := range t.Capacity {
		if have, ok := base.Capacity[name]; !ok || have != n {
			out[name] = n
		}
	}
	return out
}
