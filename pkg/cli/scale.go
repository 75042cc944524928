package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/view"
)

// scaleArgs is the command line of scale nodepool.
type scaleArgs struct {
	o               *options
	name            string
	replicas        int64
	current         int64
	resourceVersion string
	dryRun          string
	wait            bool
	timeout         time.Duration
	yes             bool
}

func newScale(o *options) *cobra.Command {
	root := &cobra.Command{
		Use:     "scale",
		Short:   "Resize a static NodePool safely",
		Example: scaleExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(newScaleNodePool(o, "nodepool NAME --replicas N", []string{"nodepools", "np"}))
	return root
}

// newScaleStatic is the alias that stands on the first level.
func newScaleStatic(o *options) *cobra.Command {
	return newScaleNodePool(o, "scale-static NAME --replicas N", nil)
}

const scaleExample = `  # Three nodes, after a look at what leaves
  kubectl karp scale nodepool ingress --replicas 3

  # Only if it has five now, and wait until three are ready
  kubectl karp scale nodepool ingress --current-replicas 5 --replicas 3 --wait`

func newScaleNodePool(o *options, use string, aliases []string) *cobra.Command {
	a := &scaleArgs{o: o}
	cmd := &cobra.Command{
		Use:     use,
		Aliases: aliases,
		Short:   "Resize a static NodePool safely: says what comes or leaves, refuses what would not work",
		Example: scaleExample,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.name = strings.TrimPrefix(strings.TrimPrefix(args[0], "nodepools/"), "nodepool/")
			return a.run(cmd.Context())
		},
		ValidArgsFunction: o.completeStaticPools,
	}
	f := cmd.Flags()
	f.Int64Var(&a.replicas, "replicas", -1, "number of nodes wanted (required)")
	f.Int64Var(&a.current, "current-replicas", -1, "refuse unless the pool has this number of replicas now")
	f.StringVar(&a.resourceVersion, "resource-version", "", "refuse unless the pool has this resource version")
	f.StringVar(&a.dryRun, "dry-run", "none", "none, client (only show) or server (let the API server check)")
	f.Lookup("dry-run").NoOptDefVal = "client"
	f.BoolVar(&a.wait, "wait", false, "wait until the number of ready nodes is reached")
	f.DurationVar(&a.timeout, "timeout", 15*time.Minute, "how long to wait")
	f.BoolVarP(&a.yes, "yes", "y", false, "do not ask when pods have to move")
	return cmd
}

func (a *scaleArgs) validate() error {
	switch {
	case a.replicas < 0:
		return usageError("--replicas is required and must not be negative")
	case a.dryRun != "none" && a.dryRun != "client" && a.dryRun != "server":
		return usageError("--dry-run must be none, client or server, not %q", a.dryRun)
	case a.o.snapshot != "":
		return usageError("scale writes to a cluster and cannot run on --snapshot")
	}
	return nil
}

func (a *scaleArgs) run(ctx context.Context) error {
	if err := a.validate(); err != nil {
		return err
	}
	c, err := a.o.client()
	if err != nil {
		return err
	}
	state, err := readPool(ctx, c, a.name)
	if err != nil {
		return err
	}
	off, unknown := a.o.staticCapacityOff(ctx, c)
	state.gateOff = off
	if unknown != "" {
		state.settings = unknown
		state.partial = append(state.partial, "controller settings: "+unknown)
	}
	r := planScale(state, a, a.o.now)
	if len(r.Refusals) > 0 {
		if a.o.structured() {
			if err := a.o.emit(view.Doc{}, r, "nodepool.karpenter.sh/"+a.name); err != nil {
				return err
			}
		}
		return errors.New(r.Refusals[0].Code + ": " + r.Refusals[0].Message)
	}
	if a.o.output != "name" {
		if err := a.o.emit(r.doc(), r); err != nil {
			return err
		}
	}
	if a.dryRun == "client" || r.From == r.To {
		return a.finish(ctx, c, r)
	}
	if err := a.confirm(r); err != nil {
		return err
	}
	if err := a.write(ctx, c, state.pool); err != nil {
		return err
	}
	return a.finish(ctx, c, r)
}

// confirm asks only when pods move, and only on a terminal; elsewhere --yes is required.
func (a *scaleArgs) confirm(r scaleReport) error {
	if a.yes || r.podsMoving() == 0 || a.dryRun == "server" {
		return nil
	}
	in, ok := a.o.Streams.In.(*os.File)
	if !ok || !isatty.IsTerminal(in.Fd()) {
		return fmt.Errorf("%s would move; pass --yes to go on without a question", plural(r.podsMoving(), "pod"))
	}
	if _, err := fmt.Fprintf(a.o.Streams.ErrOut, "Scale NodePool %s to %d? [y/N] ", a.name, a.replicas); err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if s := strings.ToLower(strings.TrimSpace(answer)); s != "y" && s != "yes" {
		return errors.New("not scaled")
	}
	return nil
}

// write uses the scale subresource only, with the resource version that was looked at.
func (a *scaleArgs) write(ctx context.Context, c client.Client, pool *karpv1.NodePool) error {
	version := pool.ResourceVersion
	if a.resourceVersion != "" {
		version = a.resourceVersion
	}
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: pool.Name, ResourceVersion: version},
		Spec:       autoscalingv1.ScaleSpec{Replicas: int32(a.replicas)},
	}
	opts := []client.SubResourceUpdateOption{client.WithSubResourceBody(scale)}
	if a.dryRun == "server" {
		opts = append(opts, client.DryRunAll)
	}
	err := c.SubResource("scale").Update(ctx, pool, opts...)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("NodePool %s changed meanwhile: nothing was written; run the command again", a.name)
	}
	if err != nil {
		return fmt.Errorf("scaling NodePool %s: %w", a.name, err)
	}
	return nil
}

// finish prints what kubectl scale prints, and waits if asked to.
func (a *scaleArgs) finish(ctx context.Context, c client.Client, r scaleReport) error {
	suffix := map[string]string{"client": " (dry run)", "server": " (server dry run)"}[a.dryRun]
	var err error
	switch {
	case a.o.output == "name":
		_, err = fmt.Fprintf(a.o.Streams.Out, "nodepool.karpenter.sh/%s\n", a.name)
	case !a.o.structured() && r.From == r.To:
		_, err = fmt.Fprintf(a.o.Streams.Out, "nodepool.karpenter.sh/%s unchanged%s\n", a.name, suffix)
	case !a.o.structured():
		_, err = fmt.Fprintf(a.o.Streams.Out, "nodepool.karpenter.sh/%s scaled%s\n", a.name, suffix)
	}
	if err != nil || !a.wait || a.dryRun != "none" {
		return err
	}
	return a.await(ctx, c)
}

// await polls the pool's nodes until exactly the wanted number is ready.
func (a *scaleArgs) await(ctx context.Context, c client.Client) error {
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	seen := "nothing could be read"
	for {
		claims, err := poolClaims(limited, c, a.name)
		switch {
		case err == nil:
			ready, late := readiness(claims)
			if int64(ready) == a.replicas && len(claims) == ready {
				return nil
			}
			seen = fmt.Sprintf("%d of %d nodes are ready", ready, a.replicas)
			if late != "" {
				seen += fmt.Sprintf("; NodeClaim %s is not (kubectl describe nodeclaim %s)", late, late)
			}
		case limited.Err() == nil:
			seen = clause(err)
		}
		select {
		case <-limited.Done():
			if err := ctx.Err(); err != nil {
				return err
			}
			return &exitError{code: ExitTimeout, err: fmt.Errorf("timed out after %s: %s", a.timeout, seen)}
		case <-tick.C:
		}
	}
}

// readiness counts the claims that are ready and to stay, and names one that is not.
func readiness(claims []karpv1.NodeClaim) (ready int, late string) {
	for i := range claims {
		if claimReady(&claims[i]) && claims[i].DeletionTimestamp.IsZero() {
			ready++
		} else {
			late = claims[i].Name
		}
	}
	return ready, late
}
