package plans_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func conflict(err error) bool { return apierrors.IsConflict(err) }

func (g *stage) pods() []corev1.Pod {
	g.t.Helper()
	list, err := g.client.CoreV1().Pods("default").List(g.t.Context(), metav1.ListOptions{})
	if err != nil {
		g.t.Fatal(err)
	}
	return list.Items
}

// poll calls done every half second until it returns "".
func (g *stage) poll(ctx context.Context, what string, done func() string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		last := done()
		if last == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			g.t.Fatalf("waiting for %s: %s", what, last)
		}
	}
}

func (g *stage) await(what string, missing func([]corev1.Pod) string) {
	g.t.Helper()
	g.poll(g.t.Context(), what, func() string { return missing(g.pods()) })
}

// awaitNodes waits until every node takes pods.
func (g *stage) awaitNodes() {
	g.t.Helper()
	g.poll(g.t.Context(), "nodes to be ready", func() string {
		list, err := g.client.CoreV1().Nodes().List(g.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, n := range list.Items {
			if len(n.Spec.Taints) > 0 {
				return fmt.Sprintf("%s has taints %v", n.Name, n.Spec.Taints)
			}
		}
		return ""
	})
}

// settle waits until every pod is bound, or until nothing has been bound for a while, and returns how many are not.
func (g *stage) settle() int {
	g.t.Helper()
	g.awaitNodes()
	pending, since := -1, time.Now()
	g.poll(g.t.Context(), "the scheduler to come to rest", func() string {
		n := 0
		for _, pod := range g.pods() {
			if pod.Spec.NodeName == "" {
				n++
			}
		}
		if n != pending {
			pending, since = n, time.Now()
		}
		if n == 0 || time.Since(since) > settled {
			return ""
		}
		return fmt.Sprintf("%d pods are pending", n)
	})
	return pending
}

// clear empties the cluster for the next workload.
func (g *stage) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	now := int64(0)
	_ = g.client.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	_ = g.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	g.poll(ctx, "the cluster to be empty", func() string {
		pods, err := g.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Sprintf("pods are left (%v)", err)
		}
		nodes, err := g.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil || len(nodes.Items) > 0 {
			return fmt.Sprintf("nodes are left (%v)", err)
		}
		return ""
	})
}
