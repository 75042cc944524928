package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
	"github.com/karp-sh/karp/pkg/units"
)

// gauges are the loops metrics.node and metrics.nodepool: they show what nodes and pools amount to (lifecycle rules 26.1, 26.2).
type gauges struct {
	*shared
	// unpriced are claims counted as without price.
	unpriced map[types.UID]bool
}

const (
	nodeGaugeInterval = 5 * time.Second
	poolGaugeInterval = 10 * time.Second
)

// amounts is one kind of amount of a node, by resource.
type amounts struct {
	table *telemetry.Table
	of    units.List
}

// Nodes shows the nodes of the cluster.
func (l *gauges) Nodes(ctx context.Context) error {
	var nodes corev1.NodeList
	var pods corev1.PodList
	var claims karpv1.NodeClaimList
	if err := l.client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	if err := l.client.List(ctx, &pods); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	if err := l.client.List(ctx, &claims); err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	managed := map[string]bool{}
	for _, c := range managedClaims(claims.Items) {
		managed[c.Status.ProviderID] = true
	}
	use := usageOf(pods.Items)
	s, now := &l.metrics.State, l.clock.Now()
	series := map[*telemetry.Table][]func(add func(float64, ...string)){}
	requested, allocatable := units.List{}, units.List{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		labels := nodeLabels(n, n.Spec.ProviderID != "" && managed[n.Spec.ProviderID])
		all, u := kube.Resources(n.Status.Allocatable), use[n.Name]
		allocatable, requested = allocatable.Add(all), requested.Add(u.requests).Add(u.daemonRequests)
		for _, a := range []amounts{
			{s.Allocatable, all}, {s.PodRequests, u.requests}, {s.PodLimits, u.limits}, {s.DaemonRequests, u.daemonRequests},
			{s.DaemonLimits, u.daemonLimits}, {s.Overhead, kube.Resources(n.Status.Capacity).Sub(all)},
		} {
			series[a.table] = append(series[a.table], func(add func(float64, ...string)) {
				for name, value := range a.of {
					add(gaugeValue(name, value), append(labels[:len(labels):len(labels)], name)...)
				}
			})
		}
		series[s.Lifetime] = append(series[s.Lifetime], func(add func(float64, ...string)) {
			add(now.Sub(n.CreationTimestamp.Time).Seconds(), labels...)
		})
	}
	for _, t := range []*telemetry.Table{s.Allocatable, s.PodRequests, s.PodLimits, s.DaemonRequests, s.DaemonLimits, s.Overhead, s.Lifetime} {
		t.Replace(func(add func(float64, ...string)) {
			for _, fill := range series[t] {
				fill(add)
			}
		})
	}
	s.Utilization.Replace(func(add func(float64, ...string)) {
		for name, of := range allocatable {
			if of > 0 {
				add(100*float64(requested[name])/float64(of), name)
			}
		}
	})
	l.metrics.StateNodes.Set(float64(len(nodes.Items)))
	return nil
}

// nodeUse is what the pods of a node ask for.
type nodeUse struct{ requests, limits, daemonRequests, daemonLimits units.List }

func usageOf(pods []corev1.Pod) map[string]nodeUse {
	out := map[string]nodeUse{}
	for i := range pods {
		p := &pods[i]
		view := podOf(p, nil)
		if p.Spec.NodeName == "" || view.Terminal {
			continue
		}
		u := out[p.Spec.NodeName]
		requests, limits := kube.Requests(p), podLimits(p)
		if view.Daemon {
			u.daemonRequests, u.daemonLimits = u.daemonRequests.Add(requests), u.daemonLimits.Add(limits)
		} else {
			u.requests, u.limits = u.requests.Add(requests), u.limits.Add(limits)
		}
		out[p.Spec.NodeName] = u
	}
	return out
}

// podLimits sums the limits of a pod's containers.
func podLimits(p *corev1.Pod) units.List {
	out := units.List{}
	for i := range p.Spec.Containers {
		out = out.Add(kube.Resources(p.Spec.Containers[i].Resources.Limits))
	}
	return out
}

// gaugeValue is an amount in the unit of metrics: cores of CPU, all else as it is.
func gaugeValue(name string, amount int64) float64 {
	const milli = 1000
	if name == units.CPU {
		return float64(amount) / milli
	}
	return float64(amount)
}

// nodeLabels are the values of telemetry.NodeLabels for a node: the last element of a well-known label, with "_" for "-".
func nodeLabels(n *corev1.Node, managed bool) []string {
	short := map[string]string{}
	for key, value := range n.Labels {
		if constraint.WellKnown(key) || key == lifecycle.PoolLabel {
			short[strings.ReplaceAll(key[strings.LastIndexByte(key, '/')+1:], "-", "_")] = value
		}
	}
	short["node_name"], short["phase"], short["managed"] = n.Name, string(n.Status.Phase), strconv.FormatBool(managed)
	names := telemetry.NodeLabels()
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = short[name]
	}
	return out
}

// Pools shows limits, use and price of pools.
func (l *gauges) Pools(ctx context.Context) error {
	var pools karpv1.NodePoolList
	var claims karpv1.NodeClaimList
	if err := l.client.List(ctx, &pools); err != nil {
		return fmt.Errorf("listing pools: %w", err)
	}
	if err := l.client.List(ctx, &claims); err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	cost := l.cost(managedClaims(claims.Items))
	s := &l.metrics.State
	s.PoolLimit.Replace(func(add func(float64, ...string)) {
		for i := range pools.Items {
			for name, v := range kube.Resources(pools.Items[i].Spec.Limits) {
				add(gaugeValue(name, v), name, pools.Items[i].Name)
			}
		}
	})
	s.PoolUsage.Replace(func(add func(float64, ...string)) {
		for i := range pools.Items {
			for name, v := range kube.Resources(pools.Items[i].Status.Resources) {
				add(gaugeValue(name, v), name, pools.Items[i].Name)
			}
		}
	})
	s.PoolCost.Replace(func(add func(float64, ...string)) {
		for i := range pools.Items {
			add(cost[pools.Items[i].Name], pools.Items[i].Name)
		}
	})
	return nil
}

// cost sums, by pool, the prices at which claims were launched.
func (l *gauges) cost(list []karpv1.NodeClaim) map[string]float64 {
	out, unpriced := map[string]float64{}, map[types.UID]bool{}
	for i := range list {
		c := &list[i]
		if c.Status.ProviderID == "" || poolLabel(c) == "" {
			continue
		}
		price, ok := launchPrice(c)
		if !ok {
			unpriced[c.UID] = true
			if !l.unpriced[c.UID] {
				l.metrics.State.PoolCostErrors.WithLabelValues(poolLabel(c)).Inc()
			}
			continue
		}
		out[poolLabel(c)] += price
	}
	l.unpriced = unpriced
	return out
}

// launchPrice is the price per hour that the claim's launch has recorded.
func launchPrice(c *karpv1.NodeClaim) (dollars float64, ok bool) {
	var story struct {
		Price *struct {
			Amount string `json:"amount"`
		} `json:"price"`
	}
	if json.Unmarshal([]byte(c.Annotations[karpv1.LaunchAnnotation]), &story) != nil || story.Price == nil {
		return 0, false
	}
	dollars, err := strconv.ParseFloat(story.Price.Amount, 64)
	return dollars, err == nil
}

// gaugeSingletons are the loops of gauges. None runs without observability.
func gaugeSingletons(s *shared, pods *podMetrics) []Singleton {
	if s.cfg.DisableClusterStateObservability {
		return nil
	}
	l := &gauges{shared: s}
	every := func(d time.Duration, run func(context.Context) error) func(context.Context) (time.Duration, error) {
		return func(ctx context.Context) (time.Duration, error) { return d, run(ctx) }
	}
	return []Singleton{
		{Name: "metrics.node", Step: every(nodeGaugeInterval, l.Nodes)}, {Name: "metrics.nodepool", Step: every(poolGaugeInterval, l.Pools)},
		{Name: "metrics.pod", Step: every(podGaugeInterval, pods.Show)},
	}
}
