package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

func TestRegister(t *testing.T) {
	full := func(c *lifecycle.Claim) {
		launched(c)
		c.Labels["a"], c.Annotations["b"], c.Annotations[lifecycle.IntentAnnotation] = "1", "2", "{}"
		c.Taints = []constraint.Taint{{Key: "t", Value: "v", Effect: constraint.NoSchedule}}
		c.StartupTaints = []constraint.Taint{{Key: "s", Effect: constraint.NoExecute}}
	}
	unregistered := []constraint.Taint{{Key: lifecycle.UnregisteredTaint, Effect: constraint.NoExecute}}
	synced := func() lifecycle.NodeChange {
		return lifecycle.NodeChange{
			Finalize: true, Own: true, Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"},
			AddTaints: []constraint.Taint{{Key: "t", Value: "v", Effect: constraint.NoSchedule}, {Key: "s", Effect: constraint.NoExecute}},
		}
	}
	done := func(edit ...func(*lifecycle.Registration)) lifecycle.Registration {
		r := lifecycle.Registration{Condition: lifecycle.Condition{Type: "Registered", Status: "True", Reason: "Registered"}, Node: "n1", Change: synced(), Done: true}
		r.Change.RemoveTaints, r.Change.Labels["karpenter.sh/registered"] = unregistered, "true"
		for _, e := range edit {
			e(&r)
		}
		return r
	}
	for _, test := range []struct {
		name  string
		claim *lifecycle.Claim
		nodes []lifecycle.Node
		hooks []lifecycle.Hook
		want  lifecycle.Registration
	}{{
		"L-037 no node", claim(launched), nil, nil,
		lifecycle.Registration{Condition: lifecycle.Condition{Type: "Registered", Status: "Unknown", Reason: "NodeNotFound", Message: "node not registered with the cluster"}},
	}, {
		"L-038 node joined", claim(full), []lifecycle.Node{node()}, nil, done(),
	}, {
		"L-039 a taint the node has keeps its value", claim(full), []lifecycle.Node{node(func(n *lifecycle.Node) {
			n.Taints = append(n.Taints, constraint.Taint{Key: "t", Value: "w", Effect: constraint.NoSchedule})
		})}, nil, done(func(r *lifecycle.Registration) { r.Change.AddTaints = r.Change.AddTaints[1:] }),
	}, {
		"L-040 taints are not synced", claim(full), []lifecycle.Node{node(func(n *lifecycle.Node) { n.Labels[lifecycle.DoNotSyncTaintsLabel] = "true" })}, nil,
		done(func(r *lifecycle.Registration) { r.Change.AddTaints = nil }),
	}, {
		"L-041 taints are synced", claim(full), []lifecycle.Node{node(func(n *lifecycle.Node) { n.Labels[lifecycle.DoNotSyncTaintsLabel] = "false" })}, nil, done(),
	}, {
		"L-042 the node has its owner", claim(full), []lifecycle.Node{node(func(n *lifecycle.Node) { n.Owners = []string{"uid-nc"} })}, nil,
		done(func(r *lifecycle.Registration) { r.Change.Own = false }),
	}, {
		"L-043 no unregistered taint", claim(full), []lifecycle.Node{node(func(n *lifecycle.Node) { n.Taints = nil })}, nil,
		done(func(r *lifecycle.Registration) { r.TaintMissing, r.Change.RemoveTaints = true, nil }),
	}, {
		"L-044 registered before", claim(full), []lifecycle.Node{node(func(n *lifecycle.Node) {
			n.Taints, n.Labels[lifecycle.RegisteredLabel] = nil, "true"
		})}, nil, done(func(r *lifecycle.Registration) {
			r.Change.RemoveTaints = nil
			delete(r.Change.Labels, lifecycle.RegisteredLabel)
		}),
	}, {
		"L-045 two nodes", claim(full), []lifecycle.Node{node(), node()}, nil,
		lifecycle.Registration{Condition: lifecycle.Condition{Type: "Registered", Status: "False", Reason: "MultipleNodesFound", Message: "more than one node has provider ID fake:///z1/i-1"}},
	}, {
		"L-046 an empty provider ID matches nothing", claim(), []lifecycle.Node{node(func(n *lifecycle.Node) { n.ProviderID = "" })}, nil,
		lifecycle.Registration{Condition: lifecycle.Condition{Type: "Registered", Status: "Unknown", Reason: "NodeNotFound", Message: "node not registered with the cluster"}},
	}, {
		"L-049 a hook is pending", claim(full), []lifecycle.Node{node()}, []lifecycle.Hook{{Name: "A", Done: true}, {Name: "B", After: 10 * time.Second}},
		lifecycle.Registration{
			Condition: lifecycle.Condition{Type: "Registered", Status: "Unknown", Reason: "RegistrationHookPending", Message: "B"},
			Node:      "n1", Change: synced(), After: 10 * time.Second,
		},
	}, {
		"L-050 all pending hooks are named", claim(full), []lifecycle.Node{node()}, []lifecycle.Hook{{Name: "A"}, {Name: "B"}},
		lifecycle.Registration{
			Condition: lifecycle.Condition{Type: "Registered", Status: "Unknown", Reason: "RegistrationHookPending", Message: "A, B"},
			Node:      "n1", Change: synced(),
		},
	}} {
		t.Run(test.name, func(t *testing.T) {
			got := lifecycle.Register(test.claim, test.nodes, test.hooks)
			if d := cmp.Diff(test.want, got, ignoreSince); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestInitialize(t *testing.T) {
	clean := func(n *lifecycle.Node) { n.Taints = nil }
	taint := func(key, value string, effect constraint.Effect) func(*lifecycle.Node) {
		return func(n *lifecycle.Node) {
			n.Taints = []constraint.Taint{{Key: key, Value: value, Effect: effect}}
		}
	}
	startup := func(c *lifecycle.Claim) {
		c.StartupTaints = []constraint.Taint{{Key: "s", Effect: constraint.NoExecute}}
	}
	gpu := func(c *lifecycle.Claim) { c.Requests = map[string]int64{"nvidia.com/gpu": 1, "cpu": 1, "zero": 0} }
	drivers := func(c *lifecycle.Claim) { c.Annotations[lifecycle.DRADriversAnnotation] = " drv.x, ," }
	old := []lifecycle.Slice{{Driver: "drv.x", Pool: "p", Generation: 1, Count: 2}, {Driver: "drv.x", Pool: "p", Generation: 1, Count: 2}}
	new1 := append(old[:2:2], lifecycle.Slice{Driver: "drv.x", Pool: "p", Generation: 2, Count: 2})
	new2 := append(new1[:3:3], lifecycle.Slice{Driver: "drv.x", Pool: "p", Generation: 2, Count: 2})
	off := lifecycle.Devices{Ignored: true}
	for _, test := range []struct {
		name    string
		claim   *lifecycle.Claim
		nodes   []lifecycle.Node
		devices lifecycle.Devices
		want    string
	}{
		{"L-058 all fine", claim(registered), []lifecycle.Node{node(clean)}, off, "True/Initialized"},
		{"L-059 not ready", claim(registered), []lifecycle.Node{node(clean, func(n *lifecycle.Node) { n.Ready = "False" })}, off, "Unknown/NodeNotReady"},
		{"L-060 ready unknown", claim(registered), []lifecycle.Node{node(clean, func(n *lifecycle.Node) { n.Ready = "Unknown" })}, off, "Unknown/NodeNotReady"},
		{"L-061 startup taint", claim(registered, startup), []lifecycle.Node{node(taint("s", "", constraint.NoExecute))}, off, "Unknown/StartupTaintsExist"},
		{"L-062 effect differs", claim(registered, startup), []lifecycle.Node{node(taint("s", "", constraint.NoSchedule))}, off, "True/Initialized"},
		{"L-063 not-ready taint", claim(registered), []lifecycle.Node{node(taint("node.kubernetes.io/not-ready", "", constraint.NoSchedule))}, off, "Unknown/KnownEphemeralTaintsExist"},
		{"L-064 uninitialized taint", claim(registered), []lifecycle.Node{node(taint("node.cloudprovider.kubernetes.io/uninitialized", "true", constraint.NoSchedule))}, off, "Unknown/KnownEphemeralTaintsExist"},
		{"L-065 readiness taint", claim(registered), []lifecycle.Node{node(taint("readiness.k8s.io/foo", "", constraint.NoSchedule))}, off, "Unknown/KnownEphemeralTaintsExist"},
		{"L-066 user taint", claim(registered), []lifecycle.Node{node(taint("team", "", constraint.NoSchedule))}, off, "True/Initialized"},
		{"L-067 resource missing", claim(registered, gpu), []lifecycle.Node{node(clean)}, off, "Unknown/ResourceNotRegistered"},
		{"L-068 resource there", claim(registered, gpu), []lifecycle.Node{node(clean, func(n *lifecycle.Node) { n.Allocatable["nvidia.com/gpu"] = 1 })}, off, "True/Initialized"},
		{"L-069 only what was requested counts", claim(registered, func(c *lifecycle.Claim) { c.Capacity = map[string]int64{"gpu": 1} }), []lifecycle.Node{node(clean)}, off, "True/Initialized"},
		{"L-070 order of checks", claim(registered, startup, gpu), []lifecycle.Node{node(taint("s", "", constraint.NoExecute))}, off, "Unknown/StartupTaintsExist"},
		{"L-071 no node", claim(registered), nil, off, "Unknown/NodeNotFound"},
		{"L-072 not registered", claim(launched), []lifecycle.Node{node(clean)}, off, "/"},
		{"L-074 no slices", claim(registered, drivers), []lifecycle.Node{node(clean)}, lifecycle.Devices{}, "Unknown/DRADriverPoolsNotPublished"},
		{"L-075 incomplete generation", claim(registered, drivers), []lifecycle.Node{node(clean)}, lifecycle.Devices{Slices: new1}, "Unknown/DRADriverPoolsNotPublished"},
		{"L-075 complete generation", claim(registered, drivers), []lifecycle.Node{node(clean)}, lifecycle.Devices{Slices: new2}, "True/Initialized"},
		{"L-076 devices are ignored", claim(registered, drivers), []lifecycle.Node{node(clean)}, off, "True/Initialized"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := lifecycle.Initialize(test.claim, test.nodes, test.devices)
			if text := string(got.Condition.Status) + "/" + got.Condition.Reason; text != test.want {
				t.Errorf("got %s (%s), want %s", text, got.Condition.Message, test.want)
			}
			if got.Done != (got.Condition.Status == lifecycle.True) {
				t.Errorf("done %v with condition %+v", got.Done, got.Condition)
			}
		})
	}
}

func TestLive(t *testing.T) {
	multiple := func(c *lifecycle.Claim) {
		launched(c)
		c.Conditions["Registered"] = lifecycle.Condition{Type: "Registered", Status: "False", Reason: "MultipleNodesFound", Since: at(10 * time.Minute)}
	}
	for _, test := range []struct {
		name   string
		claim  *lifecycle.Claim
		now    time.Duration
		delete string
		cause  string
		after  time.Duration
	}{
		{"L-078 launch still in time", claim(), 4*time.Minute + 59*time.Second, "", "", time.Second},
		{"L-079 launch timed out", claim(func(c *lifecycle.Claim) { c.Conditions = conditions("Launched=Unknown/AMINotFound") }), 5 * time.Minute, "launch_timeout", "AMINotFound", 0},
		{"L-080 registration still in time", claim(launched), 14*time.Minute + 59*time.Second, "", "", time.Second},
		{"L-081 registration timed out", claim(launched), 15 * time.Minute, "registration_timeout", "RegistrationFailed", 0},
		{"L-083 restarted by MultipleNodesFound", claim(multiple), 20 * time.Minute, "", "", 5 * time.Minute},
		{"L-083 timed out", claim(multiple), 25 * time.Minute, "registration_timeout", "RegistrationFailed", 0},
		{"L-084 registered", claim(registered), 2 * time.Hour, "", "", 0},
		{"L-079 both limits passed, one report [LX2]", claim(), time.Hour, "launch_timeout", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := lifecycle.Live(test.claim, at(test.now))
			if got.Delete != test.delete || got.Cause.Reason != test.cause || got.After != test.after {
				t.Errorf("got %+v, want delete %q because %q, after %v", got, test.delete, test.cause, test.after)
			}
		})
	}
}

func TestExpire(t *testing.T) {
	hour := func(c *lifecycle.Claim) { d := time.Hour; c.ExpireAfter = &d }
	for _, test := range []struct {
		name    string
		claim   *lifecycle.Claim
		now     time.Duration
		expired bool
		after   time.Duration
	}{
		{"L-109 before", claim(hour), 59 * time.Minute, false, time.Minute},
		{"L-109 at", claim(hour), time.Hour, true, 0},
		{"L-110 never", claim(), 87600 * time.Hour, false, 0},
		{"L-111 deleting", claim(hour, deleting), 2 * time.Hour, false, 0},
		{"L-112 not registered", claim(hour, launched), time.Hour, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			expired, after := lifecycle.Expire(test.claim, at(test.now))
			if expired != test.expired || after != test.after {
				t.Errorf("got %v, %v; want %v, %v", expired, after, test.expired, test.after)
			}
		})
	}
}
