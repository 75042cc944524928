package check_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/check"
	"github.com/karp-sh/karp/pkg/engine/scenario"
	"github.com/karp-sh/karp/pkg/plan"
)

// broken is a cluster whose plan is right, and a way to break that plan.
type broken struct {
	name  string
	world string
	spoil func(*plan.Plan)
	// also is put into the cluster before checking: the plan was right without it.
	also string
	// want is part of a sentence that the checker must say.
	want string
}

const three = "pool np:\npod a x3: cpu 1; app a"

func cases() []broken {
	return slices.Concat(accounting(), capacity(), selection(), neighbours(), choices(), reserved(), gpus())
}

// gpus: no device is given away twice, and none that does not match.
func gpus() []broken {
	const dra = "setting dra:\ncatalog DRA:\npool np: req type In d1.large\n"
	const own = dra + "claim c x2: request r 1\npod a x2: device r c-*"
	const node = dra + "node n: type d2.large\nslice s: node n; owner n; devices 2 model=A\nclaim c x2: request r 1\npod a x2: device r c-*"
	return []broken{
		{"two claims for one device of a type", own, func(p *plan.Plan) { merge(p) }, "", "the devices of d1.large do not suffice"},
		{"a type without devices", dra + "claim c: request r 1 model=A\npod a: device r c", func(p *plan.Plan) { p.Claims[0].Types = []string{"d4.xlarge"} }, "", "devices of d4.xlarge do not suffice"},
		{"a device of a node in use", node, func(*plan.Plan) {}, "claim used: request r 1; allocated gpu-0 pool s; at host In n; reserved x", "n: its devices do not suffice"},
		{"a claim that is gone", own, func(*plan.Plan) {}, "delete c-1:", "placed without its claim default/c-1"},
	}
}

// accounting: every pod is somewhere, once, and exists.
func accounting() []broken {
	const twoNodes = "pool np:\nnode n: type t.medium; zone z-a; pool np\npod a x2: cpu 1; app a"
	return []broken{
		{"pod twice on a claim", three, func(p *plan.Plan) { p.Claims[0].Pods = append(p.Claims[0].Pods, p.Claims[0].Pods[0]) }, "", "is on claim 0 and on claim 0"},
		{"pod on a claim and on a node", twoNodes, func(p *plan.Plan) {
			p.Claims = append(p.Claims, plan.Claim{Pool: "np", Pods: []string{p.Placements[0].Pod}})
		}, "", "is on claim 0 and on n"},
		{"pod placed and refused", three, func(p *plan.Plan) { p.Verdicts = append(p.Verdicts, plan.Verdict{Pod: p.Claims[0].Pods[0]}) }, "", "and judged"},
		{"pod missing", three, func(p *plan.Plan) { p.Claims[0].Pods = p.Claims[0].Pods[1:] }, "", "is forgotten"},
		{"pod on a node missing", twoNodes, func(p *plan.Plan) { p.Placements = p.Placements[1:] }, "", "is forgotten"},
		{"pod that is not pending, missing is fine; unknown is not", three, func(p *plan.Plan) { p.Claims[0].Pods[0] = "ghost" }, "", "ghost does not exist"},
		{"claim without pods", three, func(p *plan.Plan) { p.Claims = append(p.Claims, plan.Claim{Pool: "np"}) }, "", "is empty"},
		{"placement on a node that is not there", twoNodes, func(p *plan.Plan) { p.Placements[0].Node = "other" }, "", "which does not exist"},
		{"placement of a pod that is not there", twoNodes, func(p *plan.Plan) { p.Placements[0].Pod = "ghost" }, "", "ghost does not exist"},
		{"refused although a pool could", three, func(p *plan.Plan) {
			p.Verdicts, p.Claims = append(p.Verdicts, plan.Verdict{Pod: p.Claims[0].Pods[0], Code: "Resources"}), nil
		}, "", "is refused"},
		{"pool that does not exist", three, func(p *plan.Plan) { p.Claims[0].Pool = "other" }, "", "cannot have claims"},
		{"claim of a pool of another generation", three, func(p *plan.Plan) { p.Claims[0].PoolGeneration += 3 }, "", "generation are not those of pool"},
	}
}

// capacity: nothing is overloaded, limits hold, prices are right.
func capacity() []broken {
	const full = "pool np: req type In t.small\npod a x6: cpu 900m; app a"
	return []broken{
		{"claim overloaded", full, func(p *plan.Plan) { merge(p) }, "", "does not hold its pods"},
		{"more than the pods a type takes", "pool np: req type In t.small\npod a x12: cpu 10m; mem 1Mi; app a", func(p *plan.Plan) { merge(p) }, "", "does not hold its pods"},
		{"daemon has no room", "pool np: req type In t.small\npod a: cpu 1500m", nop, "daemon d: cpu 800m", "does not hold its pods"},
		{"node overloaded", "pool np:\nnode n: type t.small; zone z-a; pool np\npod a x2: cpu 1500m; app a", func(p *plan.Plan) { allOn(p, "n") }, "", "n: overloaded"},
		{"node without room for its daemon", "pool np:\nnode n: type t.small; zone z-a; pool np\npod a: cpu 1500m", nop, "daemon d: cpu 800m", "n: overloaded"},
		{"more volumes than attach", "pool np:\nnode n: type t.large; zone z-a; pool np; attach 1\npod a: vol x driver ebs.csi.aws.com\npod b: vol y driver ebs.csi.aws.com", func(p *plan.Plan) { allOn(p, "n") }, "", "2 volumes of ebs.csi.aws.com"},
		{"limit exceeded", "pool np: limit cpu 4; req type In t.medium\npod a x2: cpu 2500m", func(p *plan.Plan) {
			p.Claims = append(p.Claims, p.Claims[0])
			p.Claims[1].Pods = []string{p.Verdicts[0].Pod}
			p.Verdicts = nil
		}, "", "limit 4000"},
		{"limit on nodes exceeded", "pool np: limit nodes 1; req type In t.small\npod a x2: cpu 1500m", func(p *plan.Plan) {
			p.Claims = append(p.Claims, p.Claims[0])
			p.Claims[1].Pods = []string{p.Verdicts[0].Pod}
			p.Verdicts = nil
		}, "", "of nodes, limit 1"},
		{"limit below the largest type of the list", "pool np: limit cpu 4\npod a: cpu 1", func(p *plan.Plan) { p.Claims[0].Types = append(p.Claims[0].Types, "t.large") }, "", "limit 4000"},
		{"price too low", three, func(p *plan.Plan) { p.Claims[0].Price /= 2 }, "", "price is"},
		{"price too high", three, func(p *plan.Plan) { p.Claims[0].Price *= 2 }, "", "price is"},
		{"price of another zone", "pool np:\npod a: sel zone=z-a", func(p *plan.Plan) { p.Claims[0].CheapestZone = "z-x" }, "", "no offering of"},
		{"price of another way to buy", three, func(p *plan.Plan) { p.Claims[0].CheapestBuyAs = "on-demand" }, "", "no offering of"},
		{"cheapest type wrong", three, func(p *plan.Plan) { p.Claims[0].CheapestType = "t.xlarge" }, "", "cheapest type is"},
		{"types not by price", three, func(p *plan.Plan) { slices.Reverse(p.Claims[0].Types) }, "", "not in order of price"},
		{"requests too small", three, func(p *plan.Plan) { p.Claims[0].Requests["cpu"] = 1 }, "", "do not cover"},
	}
}

// selection: labels, taints, the list of types.
func selection() []broken {
	const zonal, tainted = "pool np:\npod a: sel zone=z-a", "pool np: taint d=x:NoSchedule\npod a: tol d Exists"
	const zonalNode = "pool np:\nnode n: type t.medium; zone z-a; pool np\npod a: req zone In z-a z-b; app a"
	return []broken{
		{"zone wrong", zonal, func(p *plan.Plan) { require(p, "zone", "z-b") }, "", "does not hold its pods"},
		{"zone left open", zonal, func(p *plan.Plan) { require(p, "zone", "z-a", "z-b") }, "", "does not hold its pods"},
		{"zone requirement gone", zonal, func(p *plan.Plan) { require(p, "zone") }, "", "does not hold its pods"},
		{"volume in another zone", "pool np:\npod a: vol x req zone In z-a", func(p *plan.Plan) { require(p, "zone", "z-c") }, "", "does not hold its pods"},
		{"capacity type wrong", "pool np:\npod a: sel ct=on-demand", func(p *plan.Plan) { require(p, "ct", "spot") }, "", "does not hold its pods"},
		{"label that nobody sets", "pool np:\npod a: cpu 1", nop, "pod a: cpu 1; sel team=x", "does not hold its pods"},
		{"node of another zone", zonalNode, nop, "pod a: req zone In z-c; app a", "does not match labels or taints"},
		{"taint of the pool", tainted, nop, "pod a: cpu 1", "does not tolerate"},
		{"taint forgotten on the claim", tainted, func(p *plan.Plan) { p.Claims[0].Taints = nil }, "", "taints are not those"},
		{"taint of the node", "pool np:\nnode n: type t.medium; zone z-a; pool np; taint d=x:NoSchedule\npod a: tol d Exists", nop, "pod a: cpu 1", "does not match labels or taints"},
		{"node that leaves", "pool np:\nnode n: type t.medium; zone z-a; pool np\npod a: cpu 1", nop, "node n: type t.medium; zone z-a; pool np; marked", "node that is leaving"},
		{"no types", three, func(p *plan.Plan) { p.Claims[0].Types = nil }, "", "lists 0 types"},
		{"too many types", three, func(p *plan.Plan) {
			for len(p.Claims[0].Types) <= 600 {
				p.Claims[0].Types = append(p.Claims[0].Types, p.Claims[0].Types[len(p.Claims[0].Types)-1])
			}
		}, "", "lists 601 types"},
		{"a type twice", three, func(p *plan.Plan) {
			p.Claims[0].Types = append(p.Claims[0].Types, p.Claims[0].Types[len(p.Claims[0].Types)-1])
		}, "", "lists a type twice"},
		{"a type that does not exist", three, func(p *plan.Plan) { p.Claims[0].Types = append(p.Claims[0].Types, "t.nano") }, "", "unknown type t.nano"},
		{"a type that is too small", three, func(p *plan.Plan) { p.Claims[0].Types = append([]string{"t.small"}, p.Claims[0].Types...) }, "", "type t.small does not hold"},
		{"a type the pool excludes", "pool np: req fam In t\npod a: cpu 1", func(p *plan.Plan) { p.Claims[0].Types = append(p.Claims[0].Types, "g.xlarge") }, "", "type g.xlarge does not hold"},
		{"a type without the device", "pool np:\npod a: gpu 1", func(p *plan.Plan) { p.Claims[0].Types = append(p.Claims[0].Types, "t.xlarge") }, "", "type t.xlarge does not hold"},
		{"minValues of the pool missed", "pool np: req type In t.small t.medium t.large min 3\npod a: cpu 1", func(p *plan.Plan) { p.Claims[0].Types = p.Claims[0].Types[:2] }, "", "minValues is 3"},
		{"minValues of the claim missed", "setting best-effort:\npool np: req type In t.small t.medium min 2\npod a: cpu 1", func(p *plan.Plan) { p.Claims[0].Types = p.Claims[0].Types[:1] }, "", "minValues is 2"},
	}
}

// neighbours: ports, affinity, anti-affinity, spread.
func neighbours() []broken {
	const apart = "pool np:\npod a x2: app a; anti host app=a"
	const zones = "pool np:\npod a x3: app a; tsc zone 1"
	const zonesApart = "pool np:\npod a: app a; anti zone app=a; sel zone=z-a\npod b: app a; anti zone app=a; sel zone=z-b"
	const node = "pool np:\nnode n: type t.large; zone z-a; pool np\n"
	return []broken{
		{"port twice on a claim", "pool np:\npod a x2: port 80/TCP; app a", func(p *plan.Plan) { merge(p) }, "", "host port 80/TCP is taken twice"},
		{"port of a bound pod", node + "bound b on n: port 80/TCP\npod a: port 80/TCP", func(p *plan.Plan) { allOn(p, "n") }, "", "host port 80/TCP is taken twice"},
		{"port of a daemon", "pool np:\npod a: port 80/TCP", nop, "daemon d: cpu 1m; port 80/TCP", "does not hold its pods"},
		{"apart by host", apart, func(p *plan.Plan) { merge(p) }, "", "must be apart from"},
		{"apart by zone", zonesApart, func(p *plan.Plan) { require(p, "zone", "z-a") }, "", "must be apart from"},
		{"apart by zone, open", zonesApart, func(p *plan.Plan) { require(p, "zone") }, "", "must be apart from"},
		{"apart from a bound pod", node + "bound b on n: app b\npod a: app a; anti host app=b", func(p *plan.Plan) { allOn(p, "n") }, "", "must be apart from"},
		{"a bound pod wants to be apart", node + "bound b on n: app b; anti host app=a\npod a: app a", func(p *plan.Plan) { allOn(p, "n") }, "", "must be apart from"},
		{"together by host", "pool np:\npod b: app b; cpu 1\npod a: app a; aff host app=b", func(p *plan.Plan) { split(p) }, "", "has no pod it wants to be with"},
		{"together with nobody", "pool np:\npod b: app b; sel zone=z-a\npod a: app a; aff zone app=b", nop, "pod b: app x; sel zone=z-a", "has no pod it wants to be with"},
		{"spread in one zone", zones, func(p *plan.Plan) { require(p, "zone", "z-a") }, "", "breaks its spread"},
		{"spread in no certain zone", zones, func(p *plan.Plan) { require(p, "zone") }, "", "its domain is open"},
		{"spread over hosts", "pool np:\npod a x4: app a; tsc host 2", func(p *plan.Plan) { merge(p) }, "", "breaks its spread"},
		{"spread with pods that run", node + "bound b x2 on n: app a\npod a x2: app a; tsc zone 1", func(p *plan.Plan) { allOn(p, "n") }, "", "breaks its spread"},
	}
}

// choices: the right pool, existing nodes first, preferences.
func choices() []broken {
	return []broken{
		{"heavier pool passed over", three, nop, "pool heavy: weight 10", "pool heavy comes before np"},
		{"existing node passed over", three, nop, "node n: type t.large; zone z-a; pool np", "would fit on n"},
		{"preference ignored on a claim", "pool np:\npod a: pref 5 zone In z-b", func(p *plan.Plan) { require(p, "zone", "z-a") }, "", "is not where it prefers"},
		{"preference left open", "pool np:\npod a: pref 5 zone In z-b; pref 1 zone In z-a", func(p *plan.Plan) { require(p, "zone", "z-a", "z-b") }, "", "is not where it prefers"},
		{"preference ignored on a node", "pool np:\nnode n: type t.medium; zone z-a; pool np\npod a: cpu 1", nop, "pod a: cpu 1; pref 5 zone In z-b", "is not where it prefers"},
		{"soft taint accepted without need", "pool np: weight 1; taint d=x:PreferNoSchedule\npod a: cpu 1", nop, "pool other:", "had better not"},
		{"soft taint of a node accepted without need", "pool np:\nnode n: type t.medium; zone z-a; pool np\npod a: cpu 1", nop, "node n: type t.medium; zone z-a; pool np; taint d=x:PreferNoSchedule", "had better not"},
	}
}

// reserved: claims hold reservations that exist, as often as they do.
func reserved() []broken {
	const twice = "catalog RES\noffer t.small: ct reserved; count 2\npool np: req type In t.small\npod a x2: app a; anti host app=a"
	const once = "catalog RES\npool np: req type In t.small\npod a x2: app a; anti host app=a"
	return []broken{
		{"no reservation named", twice, func(p *plan.Plan) { require(p, "resv") }, "", "with reservations []"},
		{"reserved beside others", twice, func(p *plan.Plan) { p.Claims[0].CapacityTypes = []string{"on-demand", "reserved"} }, "", "may be bought as [on-demand reserved]"},
		{"unit promised twice", twice, nop, "catalog RES\npool np: req type In t.small", "has 1 instances and is promised to 2 claims"},
		{"unit that another claim may take", twice, nop, "node n: unlaunched; type t.small; req resv In cr-s", "has 2 instances and is promised to 3 claims"},
		{"waits without reason", once, nop, "catalog RES\noffer t.small: ct reserved; count 2\npool np: req type In t.small", "waits for a reservation, but none is used up"},
		{"feature switched off", twice, nop, "setting no-reservations:", "may be bought as [reserved]"},
	}
}

func nop(*plan.Plan) {}

// merge puts all pods onto the first claim.
func merge(p *plan.Plan) {
	for _, c := range p.Claims[1:] {
		p.Claims[0].Pods = append(p.Claims[0].Pods, c.Pods...)
		for k, v := range c.Requests {
			p.Claims[0].Requests[k] += v
		}
	}
	p.Claims = p.Claims[:1]
}

// split puts every pod of the first claim onto a claim of its own.
func split(p *plan.Plan) {
	all := p.Claims[0].Pods
	p.Claims[0].Pods = all[:1]
	for _, uid := range all[1:] {
		c := p.Claims[0]
		c.Pods = []string{uid}
		p.Claims = append(p.Claims, c)
	}
}

// allOn puts every pod of the plan onto a node.
func allOn(p *plan.Plan, node string) {
	for _, c := range p.Claims {
		for _, uid := range c.Pods {
			p.Placements = append(p.Placements, plan.Placement{Pod: uid})
		}
	}
	for i := range p.Placements {
		p.Placements[i].Node, p.Placements[i].Claim = node, ""
	}
	p.Claims = nil
}

// require replaces the requirement of all claims on a key, by none if there are no values.
func require(p *plan.Plan, short string, values ...string) {
	key := scenario.Key(short)
	for i := range p.Claims {
		c := &p.Claims[i]
		c.Requirements = slices.DeleteFunc(c.Requirements, func(e constraint.Expr) bool { return e.Key == key })
		if len(values) > 0 {
			c.Requirements = append(c.Requirements, constraint.Expr{Key: key, Operator: constraint.In, Values: values})
		}
	}
}

// Every way to break a plan is found, and found for what it is.
func TestBrokenPlans(t *testing.T) {
	for _, tt := range cases() {
		t.Run(tt.name, func(t *testing.T) {
			w := scenario.New()
			if err := w.Apply(tt.world); err != nil {
				t.Fatal(err)
			}
			s := w.Snapshot()
			p := engine.Decide(s, engine.Policy{})
			if problems := check.Plan(s, p); len(problems) > 0 {
				t.Fatalf("the plan to be broken is not right: %s\n%s\n%s", problems, tt.world, scenario.Render(s, p, scenario.Show{Price: true}))
			}
			bad := clone(t, p)
			tt.spoil(&bad)
			if err := w.Apply(tt.also); err != nil {
				t.Fatal(err)
			}
			problems := check.Plan(w.Snapshot(), bad)
			if !slices.ContainsFunc(problems, func(x string) bool { return strings.Contains(x, tt.want) }) {
				t.Errorf("problems %q, want one that says %q\n%s\n%s", problems, tt.want, tt.world, scenario.Render(w.Snapshot(), bad, scenario.Show{Price: true}))
			}
		})
	}
}

// clone copies a plan with everything it refers to.
func clone(t *testing.T, p plan.Plan) plan.Plan {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var out plan.Plan
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
