package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// shape reads the attributes of a pod: what makes its shape, and the rest.
func shape(attrs []attr) (cluster.Shape, cluster.Pod, error) {
	s := cluster.Shape{Namespace: "default", NodeSelector: map[string]string{},
		Requests: units.List{units.CPU: 100, units.Memory: 128 << 20, units.Pods: 1}}
	p := cluster.Pod{Scheduled: "Unschedulable", Labels: map[string]string{}}
	for _, a := range attrs {
		if a.name == "app" {
			p.Labels["app"] = a.arg(0)
		}
	}
	for _, a := range attrs {
		ok, err := shapeAttr(&s, &p, a)
		if err == nil && !ok {
			ok, err = podAttr(&s, &p, a)
		}
		if err == nil && !ok {
			err = fmt.Errorf("attribute %q does not exist", a.name)
		}
		if err != nil {
			return s, p, err
		}
	}
	return s, p, nil
}

func shapeAttr(s *cluster.Shape, p *cluster.Pod, a attr) (bool, error) {
	switch a.name {
	case "sel":
		k, v, _ := strings.Cut(a.arg(0), "=")
		s.NodeSelector[Key(k)] = v
	case "req":
		for _, t := range terms(a.args) {
			s.Required = append(s.Required, cluster.NodeTerm{Exprs: t})
		}
	case "fields":
		s.Required = append(s.Required, cluster.NodeTerm{MatchFields: true})
	case "pref":
		w, err := int32Of(a.arg(0))
		if err != nil {
			return true, err
		}
		s.Preferred = append(s.Preferred, cluster.PreferredTerm{Weight: w, Exprs: terms(a.args[1:])[0]})
	case "tol":
		s.Tolerations = append(s.Tolerations, toleration(a.args))
	case "aff", "anti", "paff", "panti":
		return true, podAffinity(s, a)
	case "tsc":
		return true, spreadOf(s, p, a.args)
	case "port":
		port, proto, _ := strings.Cut(a.arg(0), "/")
		n, err := int32Of(port)
		s.HostPorts = append(s.HostPorts, cluster.HostPort{IP: a.arg(1), Protocol: proto, Port: n})
		return true, err
	case "vol": // vol NAME [driver D] [problem P] [req ... | ...]
		return true, volume(s, a.args)
	case "device":
		podDevice(s, p, a)
	case "scheduler":
		s.SchedulerName = a.arg(0)
	case "priority":
		var err error
		s.Priority, err = int32Of(a.arg(0))
		return true, err
	default:
		if !strings.Contains(a.name, "/") && resource(a.name) == a.name && a.name != units.CPU && !strings.HasPrefix(a.name, "hugepages-") {
			return false, nil
		}
		n, err := amount(resource(a.name), a.arg(0))
		s.Requests[resource(a.name)] = n
		return true, err
	}
	return true, nil
}

func podAttr(s *cluster.Shape, p *cluster.Pod, a attr) (bool, error) {
	switch a.name {
	case "app":
	case "lbl":
		k, v, _ := strings.Cut(a.arg(0), "=")
		p.Labels[k] = v
	case "ns":
		s.Namespace = a.arg(0)
	case "uid":
		p.UID = a.arg(0)
	case "created":
		n, err := strconv.Atoi(a.arg(0))
		p.Created = Epoch().Add(time.Duration(n) * time.Second)
		return true, err
	case "owner":
		p.Owner = cluster.Owner{APIVersion: a.arg(0), Kind: a.arg(1), Name: "owner"}
	case "controlled":
		p.Owner = cluster.Owner{Name: a.arg(0)}
	case "reason":
		p.Scheduled = a.arg(0)
	case "node":
		p.Node = a.arg(0)
	case "nominated":
		p.Nominated, p.NominatedByKarp = a.arg(0), a.arg(1) == "karp"
	case "phase":
		p.Phase = a.arg(0)
	case "deleted":
		p.Deleted = Epoch()
	case "notdisrupt":
		p.DoNotDisrupt = a.arg(0)
	case "started":
		d, err := time.ParseDuration(a.arg(0))
		p.Started = Epoch().Add(-d)
		return true, err
	case "pdb":
		p.EvictionBlocked = a.arg(0)
	default:
		return podDisruption(p, a)
	}
	return true, nil
}

// toleration reads "key=value[:Effect]", "key Op value [Effect]" or "* [Effect]".
func toleration(f []string) constraint.Toleration {
	switch {
	case f[0] == "*":
		t := constraint.Toleration{Operator: "Exists"}
		if len(f) > 1 {
			t.Effect = constraint.Effect(f[1])
		}
		return t
	case len(f) > 1 && f[1] == "Exists":
		return constraint.Toleration{Key: f[0], Operator: "Exists"}
	case len(f) > 2:
		t := constraint.Toleration{Key: f[0], Operator: f[1], Value: f[2]}
		if len(f) > 3 {
			t.Effect = constraint.Effect(f[3])
		}
		return t
	}
	x := taint(f[0])
	return constraint.Toleration{Key: x.Key, Operator: "Equal", Value: x.Value, Effect: x.Effect}
}

// podAffinity reads "aff KEY label=value [ns NAME] [nssel label=value] [nssel *]", with a weight before the key for paff and panti.
func podAffinity(s *cluster.Shape, a attr) error {
	args, weight := a.args, 0
	if strings.HasPrefix(a.name, "p") {
		w, err := strconv.Atoi(a.arg(0))
		if err != nil {
			return err
		}
		args, weight = args[1:], w
	}
	k, v, _ := strings.Cut(args[1], "=")
	t := cluster.PodTerm{TopologyKey: Key(args[0]), Selector: &cluster.Selector{MatchLabels: map[string]string{k: v}}}
	for i := 2; i+1 < len(args); i += 2 {
		switch args[i] {
		case "ns":
			t.Namespaces = append(t.Namespaces, args[i+1])
		case "nssel":
			t.NamespaceSelector = &cluster.Selector{}
			if args[i+1] != "*" {
				k, v, _ := strings.Cut(args[i+1], "=")
				t.NamespaceSelector.MatchLabels = map[string]string{k: v}
			}
		case "and":
			k, v, _ := strings.Cut(args[i+1], "=")
			t.Selector.Exprs = append(t.Selector.Exprs, constraint.Expr{Key: k, Operator: constraint.In, Values: []string{v}})
		}
	}
	switch a.name {
	case "aff":
		s.PodAffinity.Required = append(s.PodAffinity.Required, t)
	case "anti":
		s.AntiAffinity.Required = append(s.AntiAffinity.Required, t)
	case "paff":
		s.PodAffinity.Preferred = append(s.PodAffinity.Preferred, cluster.WeightedPodTerm{Weight: int32(weight), Term: t})
	case "panti":
		s.AntiAffinity.Preferred = append(s.AntiAffinity.Preferred, cluster.WeightedPodTerm{Weight: int32(weight), Term: t})
	}
	return nil
}

// spreadOf reads "tsc KEY SKEW [sa] [min N] [sel label=value] [all] [null] [keys k] [honor-taints] [ignore-affinity]".
func spreadOf(s *cluster.Shape, p *cluster.Pod, f []string) error {
	n, err := int32Of(f[1])
	if err != nil {
		return err
	}
	c := cluster.Spread{Key: Key(f[0]), MaxSkew: n, Hard: true, HonorAffinity: true,
		Selector: &cluster.Selector{MatchLabels: map[string]string{"app": p.Labels["app"]}}}
	for i := 2; i < len(f); i++ {
		switch f[i] {
		case "sa":
			c.Hard = false
		case "min":
			i++
			m, err := int32Of(f[i])
			if err != nil {
				return err
			}
			c.MinDomain = m
		case "sel":
			i++
			k, v, _ := strings.Cut(f[i], "=")
			c.Selector = &cluster.Selector{MatchLabels: map[string]string{k: v}}
		case "all":
			c.Selector = &cluster.Selector{}
		case "null":
			c.Selector = nil
		case "keys":
			i++
			c.MatchLabelKeys = append(c.MatchLabelKeys, f[i])
		case "honor-taints":
			c.HonorTaints = true
		case "ignore-affinity":
			c.HonorAffinity = false
		default:
			return fmt.Errorf("spread option %q does not exist", f[i])
		}
	}
	s.Spread = append(s.Spread, c)
	return nil
}

func volume(s *cluster.Shape, f []string) error {
	v := cluster.Volume{Claim: f[0], ID: "default/" + f[0]}
	for i := 1; i < len(f); i++ {
		switch f[i] {
		case "driver":
			i++
			v.Driver = f[i]
		case "problem":
			i++
			v.Problem = f[i]
		case "req":
			if i+1 == len(f) { // one that asks nothing
				v.Alternatives = [][]constraint.Expr{nil}
				break
			}
			v.Alternatives, i = terms(f[i+1:]), len(f)
		default:
			return fmt.Errorf("volume option %q does not exist", f[i])
		}
	}
	s.Volumes = append(s.Volumes, v)
	return nil
}
