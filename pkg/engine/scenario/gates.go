package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/buffer"
	"github.com/karp-sh/karp/pkg/engine/overlay"
	"github.com/karp-sh/karp/pkg/engine/spread"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// This file adds what is behind gates and settings:
//
//	overlay o: weight 5; req type In t.small; price 0.03; adjust -20%; capacity acme.com/fuse 1
//	buffer b x3: cpu 1
//	default zone 1 [sa] [min 3]
//	service s: sel app=web
//	controller rs: kind ReplicaSet; sel app=web; expr app In web
//
// Defaults, services and controllers come before the pods they are about; a pod names its controller by "controlled rs".

// controller is the owner of pods.
type controller struct {
	kind     string
	selector cluster.Selector
}

// tuned is a pool with the types its class offers.
type tuned struct {
	pool  *cluster.Pool
	types []catalog.InstanceType
}

func (w *World) overlay(name string, attrs []attr) error {
	o := overlay.Overlay{Name: name, Generation: 1}
	for _, a := range attrs {
		var err error
		switch a.name {
		case "weight":
			o.Weight, err = int32Of(a.arg(0))
		case "req":
			o.Requirements = append(o.Requirements, expr(a.args))
		case "price":
			o.Price, err = overlay.Fixed(a.arg(0))
		case "adjust":
			o.Price, err = overlay.Adjusted(a.arg(0))
		case "capacity":
			if o.Capacity == nil {
				o.Capacity = units.List{}
			}
			o.Capacity[resource(a.arg(0))], err = amount(resource(a.arg(0)), a.arg(1))
		case "invalid":
			o.Invalid = "spec is refused"
		default:
			err = fmt.Errorf("attribute %q does not exist", a.name)
		}
		if err != nil {
			return err
		}
	}
	w.overlays = append(w.overlays, o)
	return nil
}

// Overlays evaluates the overlays on all pools whose types are known.
func (w *World) Overlays() overlay.Evaluation {
	var pools []overlay.Pool
	for _, name := range slices.Sorted(maps.Keys(w.tuned)) {
		if t := w.tuned[name]; t.types != nil {
			pools = append(pools, overlay.Pool{Name: name, Labels: t.pool.Labels, Types: t.types})
		}
	}
	return overlay.Evaluate(w.overlays, pools)
}

// tune gives all pools their catalogues as overlays correct them.
func (w *World) tune() {
	if len(w.overlays) == 0 || !w.settings.NodeOverlay {
		return
	}
	e := w.Overlays()
	for _, name := range slices.Sorted(maps.Keys(w.tuned)) {
		t := w.tuned[name]
		if t.types == nil {
			continue
		}
		if types, changed := e.Apply(overlay.Pool{Name: name, Labels: t.pool.Labels, Types: t.types}); changed {
			p := *t.pool
			p.Catalog = catalog.New(types)
			w.Builder.SetPool(&p)
		}
	}
}

// buffer adds the virtual pods of a buffer, in place of those it had.
func (w *World) buffer(name string, words []string, attrs []attr) error {
	n, err := int32(1), error(nil)
	if len(words) > 0 && words[0][0] == 'x' {
		n, err = int32Of(words[0][1:])
	}
	if err != nil {
		return err
	}
	s, p, err := shape(attrs)
	if err != nil {
		return err
	}
	for i := range w.buffers[name] {
		w.Builder.DeletePod("uid-" + name + "-" + strconv.Itoa(i+1))
	}
	w.buffers[name] = int(n)
	b := buffer.Buffer{Namespace: s.Namespace, Name: name, UID: "uid-" + name, Created: Epoch(), Shape: cluster.NewShape(s), Labels: p.Labels, Replicas: n}
	for _, pod := range b.Pods() {
		w.Builder.SetPod(pod)
	}
	return nil
}

// Hold keeps on their nodes the virtual pods that a plan has put there, as the agent does after each pass.
func (w *World) Hold(s *cluster.Snapshot, p plan.Plan) { w.Builder.SetBuffered(buffer.Held(s, &p)) }

func (w *World) service(attrs []attr) error {
	selector := map[string]string{}
	for _, a := range attrs {
		switch a.name {
		case "sel":
			pair(selector, a.arg(0))
		case "null":
			selector = nil
		default:
			return fmt.Errorf("attribute %q does not exist", a.name)
		}
	}
	w.services = append(w.services, selector)
	return nil
}

func (w *World) controller(name string, attrs []attr) error {
	c := controller{selector: cluster.Selector{MatchLabels: map[string]string{}}}
	for _, a := range attrs {
		switch a.name {
		case "kind":
			c.kind = a.arg(0)
		case "sel":
			pair(c.selector.MatchLabels, a.arg(0))
		case "expr":
			c.selector.Exprs = append(c.selector.Exprs, constraint.Expr{Key: a.arg(0), Operator: constraint.Operator(a.arg(1)), Values: a.args[2:]})
		default:
			return fmt.Errorf("attribute %q does not exist", a.name)
		}
	}
	w.controllers[name] = c
	return nil
}

// defaultSpread reads "default KEY SKEW [sa] [min N]".
func (w *World) defaultSpread(words []string) error {
	var s cluster.Shape
	if err := spreadOf(&s, &cluster.Pod{}, words); err != nil {
		return err
	}
	s.Spread[0].Selector = nil
	w.settings.DefaultSpread = append(w.settings.DefaultSpread, s.Spread[0])
	w.Builder.SetSettings(w.settings)
	return nil
}

// defaulted is a pod's shape with the default constraints that apply to it.
func (w *World) defaulted(s *cluster.Shape, p *cluster.Pod) *cluster.Shape {
	var o spread.Owner
	if c, ok := w.controllers[p.Owner.Name]; ok {
		o = spread.Owner{Kind: c.kind, Selector: &c.selector}
	}
	return spread.Shape(s, w.settings.DefaultSpread, spread.Selector(p.Labels, w.services, o))
}

// pair reads "key=value" into a map.
func pair(into map[string]string, s string) {
	for i := range len(s) {
		if s[i] == '=' {
			into[s[:i]] = s[i+1:]
			return
		}
	}
}

// buffers writes what a plan says about buffers, and where their room is kept.
func (r *renderer) buffers(s *cluster.Snapshot, p plan.Plan) {
	sizes := map[string]int32{}
	for _, key := range buffer.Virtual(s) {
		sizes[key]++
	}
	outcomes := buffer.Outcomes(s, &p)
	for _, key := range slices.Sorted(maps.Keys(sizes)) {
		if c, ok := buffer.Judge(true, sizes[key], outcomes[key]); ok {
			r.linef("buffer %s: %v %s, %s", key, c.OK, c.Reason, c.Message)
		}
	}
	held := buffer.Held(s, &p)
	for _, name := range slices.Sorted(maps.Keys(held)) {
		r.linef("%s holds %d", name, held[name])
	}
}
