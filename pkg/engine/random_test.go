package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/check"
	"github.com/karp-sh/karp/pkg/engine/scenario"
)

// drawWorld writes a random cluster in the scenario language, one line an element.
func drawWorld(t *rapid.T) []string {
	maybe := func(name string, options ...string) string {
		if rapid.IntRange(0, 3).Draw(t, name+"?") > 0 {
			return ""
		}
		return "; " + rapid.SampledFrom(options).Draw(t, name)
	}
	var lines []string
	dra := rapid.IntRange(0, 3).Draw(t, "devices") == 0
	if dra {
		lines = append(lines, "setting dra:", "class gpu: driver=gpu.example.com", "type d1.large: cpu 8; mem 32Gi; pods 40; price 1 0.4; fam d; devices 1 model=A",
			"type d4.large: cpu 8; mem 32Gi; pods 40; price 3 1.2; fam d; devices 2 model=A; devices 2 model=B")
	}
	reserved := !dra && rapid.IntRange(0, 3).Draw(t, "reserved") == 0
	for i := range rapid.IntRange(1, 3).Draw(t, "pools") {
		if reserved {
			lines = append(lines, "catalog "+rapid.SampledFrom([]string{"CAT", "RES", "RES"}).Draw(t, "catalog"))
			lines = append(lines, fmt.Sprintf("offer t.medium: ct reserved; count %d", rapid.IntRange(0, 3).Draw(t, "units")))
		}
		lines = append(lines, fmt.Sprintf("pool np-%d: weight %d", i, rapid.IntRange(0, 2).Draw(t, "weight"))+
			maybe("pool req", "req fam In t", "req zone In z-a z-b", "req ct In on-demand", "req arch In amd64", "req cpuL Lte 8", "req type In t.small t.medium t.large min 2")+
			maybe("pool req 2", "req fam NotIn g", "req team In x y", "req team Exists")+
			maybe("pool taint", "taint d=x:NoSchedule", "taint d=x:PreferNoSchedule", "startup s=y:NoSchedule")+
			maybe("pool limit", "limit cpu 8", "limit cpu 24", "limit nodes 2", "limit mem 32Gi"))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "nodes") {
		lines = append(lines, fmt.Sprintf("node n%d: type %s; zone %s; pool np-0", i, rapid.SampledFrom([]string{"t.small", "t.medium", "t.large", "g.large"}).Draw(t, "type"), rapid.SampledFrom([]string{"z-a", "z-b"}).Draw(t, "zone"))+
			maybe("node state", "uninit", "unreg", "unmanaged", "marked", "full")+maybe("node taint", "taint d=x:NoSchedule", "taint d=x:PreferNoSchedule"))
		lines = append(lines, fmt.Sprintf("bound b%d on n%d: app %s; cpu 500m", i, i, rapid.SampledFrom([]string{"web", "db"}).Draw(t, "bound app"))+
			maybe("bound tie", "anti host app=web", "anti zone app=db", "owner apps/v1 ReplicaSet"))
	}
	if rapid.Bool().Draw(t, "daemon") {
		lines = append(lines, "daemon ds: cpu 200m"+maybe("daemon", "req arch In amd64", "req gpuC Exists", "tol *", "port 80/TCP"))
	}
	if dra {
		lines = append(lines, drawClaims(t)...)
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "groups") {
		app := rapid.SampledFrom([]string{"web", "db", "api"}).Draw(t, "app")
		lines = append(lines, fmt.Sprintf("pod g%d x%d: app %s; cpu %s; mem %s", i, rapid.IntRange(1, 12).Draw(t, "count"), app,
			rapid.SampledFrom([]string{"100m", "900m", "1", "1500m", "3", "7", "20"}).Draw(t, "cpu"), rapid.SampledFrom([]string{"128Mi", "1Gi", "5Gi"}).Draw(t, "mem"))+
			maybe("sel", "sel zone=z-a", "sel arch=arm64", "sel team=x", "sel ct=reserved", "req fam In t", "req zone In z-a z-c", "req fam In zz | zone In z-b", "req team NotIn x", "sel ct=spot")+
			maybe("pref", "pref 5 zone In z-b", "pref 1 fam In zz", "paff 1 zone app=db", "panti 3 host app="+app)+
			maybe("tie", "anti host app="+app, "anti host app=db", "aff host app="+app, "aff zone app=db", "anti zone app="+app, "aff zone app="+app)+
			maybe("spread", "tsc zone 1", "tsc zone 2", "tsc host 2", "tsc zone 1 sa", "tsc ct 1", "tsc zone 1; tsc host 1", "tsc zone 1 min 3", "tsc arch 1")+
			drawDevices(t, i, dra)+
			maybe("tol", "tol d Exists", "tol *")+maybe("port", "port 80/TCP")+maybe("gpu", "gpu 1"))
	}
	return lines
}

// drawClaims writes devices of nodes and of zones, and claims: c0-1 to c5-12 for pods of their own, s0 and s1 that pods share.
func drawClaims(t *rapid.T) []string {
	lines := []string{"slice s0: node n0; owner n0; devices 2 model=A", "slice s1: node n1; owner n1; devices 1 model=B"}
	if rapid.Bool().Draw(t, "devices of a zone") {
		lines = append(lines, "slice net: at zone In "+rapid.SampledFrom([]string{"z-a", "z-b", "z-a z-b"}).Draw(t, "zone of devices")+"; devices 2 model=B")
	}
	if rapid.Bool().Draw(t, "used") {
		lines = append(lines, "claim used: request r 1; allocated gpu-0 pool s0; at host In n0; reserved "+rapid.SampledFrom([]string{"b0", "x"}).Draw(t, "used by"))
	}
	request := func(name string) string {
		return "request r " + rapid.SampledFrom([]string{"1", "1", "2", "1 model=B", "1 model=A", "all", "or x 2 model=B or y 1", "3; match model"}).Draw(t, "request of "+name)
	}
	for i := range 6 {
		lines = append(lines, fmt.Sprintf("claim c%d x12: %s", i, request(fmt.Sprint("c", i))))
	}
	return append(lines, "claim s0: "+request("s0"), "claim s1: "+request("s1"))
}

func drawDevices(t *rapid.T, group int, dra bool) string {
	if !dra {
		return ""
	}
	return rapid.SampledFrom([]string{"", "", fmt.Sprintf("; device r c%d-*", group), fmt.Sprintf("; device r c%d-*; device q s0", group), "; device r s0", "; device r s1", "; device r -"}).Draw(t, "claims")
}

// Whatever the cluster, a plan keeps the invariants and holds when nothing has changed; and it does not depend on the order in which objects became known.
func TestRandomClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := drawWorld(t)
		text := strings.Join(lines, "\n")
		w := scenario.New()
		if err := w.Apply(text); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		s := w.Snapshot()
		policy := engine.Policy{Fallback: rapid.Bool().Draw(t, "fallback")}
		p := engine.Decide(s, policy)
		if problems := check.Plan(s, p); len(problems) > 0 {
			t.Fatalf("%s\n\ncluster:\n%s\n\nplan:\n%s", strings.Join(problems, "\n"), text, scenario.Render(s, p, scenario.Show{Price: true}))
		}
		if _, dropped := engine.Recheck(s, p); len(dropped) > 0 {
			t.Fatalf("nothing has changed, yet %+v\n\ncluster:\n%s\n\nplan:\n%s", dropped, text, scenario.Render(s, p, scenario.Show{}))
		}
		again := engine.Decide(shuffled(w, rapid.Uint64().Draw(t, "seed")).Builder.Snapshot(scenario.Epoch()), policy)
		if diff := cmp.Diff(p, again); diff != "" {
			t.Fatalf("another order gives another plan (-first +second):\n%s\n\ncluster:\n%s", diff, text)
		}
	})
}

// shuffled is a world with the same objects, put in in another order.
func shuffled(w *scenario.World, seed uint64) *scenario.World {
	s := w.Snapshot()
	out := scenario.New()
	var puts []func()
	for _, x := range s.Pods {
		puts = append(puts, func() { out.Builder.SetPod(x) })
	}
	for _, x := range s.Nodes {
		puts = append(puts, func() { out.Builder.SetNode(x) })
	}
	for _, x := range s.Claims {
		puts = append(puts, func() { out.Builder.SetClaim(x) })
	}
	for _, x := range s.Pools {
		puts = append(puts, func() { out.Builder.SetPool(x) })
	}
	for _, x := range s.DaemonSets {
		puts = append(puts, func() { out.Builder.SetDaemonSet(x) })
	}
	for _, x := range s.Devices.Claims {
		puts = append(puts, func() { out.Builder.SetDeviceClaim(x) })
	}
	for _, x := range s.Devices.Slices {
		puts = append(puts, func() { out.Builder.SetDeviceSlice(x) })
	}
	for _, x := range s.Devices.Classes {
		puts = append(puts, func() { out.Builder.SetDeviceClass(x) })
	}
	puts = append(puts, func() { out.Builder.SetDeviceSelectors(s.Devices.Selectors) }, func() { out.Builder.SetSettings(s.Settings) })
	r := rand.New(rand.NewPCG(seed, 1))
	r.Shuffle(len(puts), func(i, j int) { puts[i], puts[j] = puts[j], puts[i] })
	for _, put := range puts {
		put()
	}
	return out
}
