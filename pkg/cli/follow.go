package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/reason"
)

// How often the cluster is looked at again: a whole look lists several kinds, the wait asks for the pods alone.
const (
	watchInterval = 3 * time.Second
	waitInterval  = time.Second
)

// followable refuses to follow what does not change.
func (a *pendingArgs) followable() error {
	follows := a.watch || a.watchOnly || a.wait
	switch {
	case follows && (a.o.snapshot != "" || a.file != ""):
		return usageError("--watch and --wait need a cluster and pods that exist, not files")
	case a.wait && (a.watch || a.watchOnly):
		return usageError("give --watch or --wait, not both")
	case follows && a.o.at != "" && !a.wait:
		return usageError("--watch follows the present; --at does not go with it")
	}
	return nil
}

// follow prints the answer again whenever it changes, until the context ends: in place on a terminal, one report after the other elsewhere.
func (a *pendingArgs) follow(ctx context.Context, last *found) error {
	out, ok := a.o.Streams.Out.(*os.File)
	tty := ok && isatty.IsTerminal(out.Fd()) && !a.o.structured()
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		a.o.now = time.Now().UTC()
		next, err := a.once(ctx)
		if err != nil {
			return err
		}
		if next.key == last.key {
			continue
		}
		last = next
		if tty {
			if _, err := fmt.Fprint(out, "\x1b[H\x1b[2J"); err != nil {
				return err
			}
		}
		if err := next.print(); err != nil {
			return err
		}
	}
}

// await blocks until every pod in question has a node or is gone.
func (a *pendingArgs) await(ctx context.Context, f *found) error {
	c, err := a.o.client()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	waiting := f.waiting
	for {
		waiting = stillWaiting(limited, c, waiting)
		if len(waiting) == 0 {
			return nil
		}
		select {
		case <-limited.Done():
			if err := ctx.Err(); err != nil {
				return err
			}
			return &exitError{code: ExitTimeout, err: fmt.Errorf("timed out after %s: %s without a node, %s among them", a.timeout, plural(len(waiting), "pod"), waiting[0])}
		case <-tick.C:
		}
	}
}

// stillWaiting leaves out pods that have a node or are gone. One that could not be read stays.
func stillWaiting(ctx context.Context, c client.Client, pods []reason.Object) []reason.Object {
	var out []reason.Object
	for _, p := range pods {
		pod := &corev1.Pod{}
		err := c.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, pod)
		if err != nil && !apierrors.IsNotFound(err) || err == nil && pod.Spec.NodeName == "" {
			out = append(out, p)
		}
	}
	return out
}
