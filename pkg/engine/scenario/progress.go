package scenario

import (
	"fmt"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/plan"
)

// Launch brings the claims of a plan up on their cheapest offering, registered but not initialized. With bind their pods and those placed
// on existing nodes run and the nodes are initialized: the specification's settle.
func (w *World) Launch(s *cluster.Snapshot, p plan.Plan, bind bool) error {
	pods := map[string]*cluster.Pod{}
	for _, pod := range s.Pods {
		pods[pod.UID] = pod
	}
	run := func(uid, node string) {
		q := *pods[uid]
		q.Node, q.Scheduled, q.Phase = node, "", "Running"
		w.Builder.SetPod(&q)
	}
	for _, c := range p.Claims {
		w.serial++
		name := fmt.Sprintf("%s-%d", c.Pool, w.serial)
		attrs := []attr{{"type", []string{c.CheapestType}}, {"zone", []string{c.CheapestZone}}, {"ct", []string{c.CheapestBuyAs}}, {"pool", []string{c.Pool}}}
		for k, v := range c.Labels {
			attrs = append(attrs, attr{"label", []string{k + "=" + v}})
		}
		if !bind {
			attrs = append(attrs, attr{"uninit", nil}, attr{"taint", []string{"node.kubernetes.io/not-ready:" + string(constraint.NoSchedule)}})
		}
		if err := w.node(name, attrs); err != nil {
			return err
		}
		for _, uid := range c.Pods {
			if bind {
				run(uid, name)
			}
		}
	}
	for _, x := range p.Placements {
		if bind {
			run(x.Pod, x.Node)
		}
	}
	return nil
}
