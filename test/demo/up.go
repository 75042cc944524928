package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/kube"
)

// say prints one line of the story.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// up runs the whole demo.
func up(ctx context.Context) error {
	began := time.Now()
	say("karp demo: a real control plane, a simulated AWS, and an agent that gives pending pods nodes.\n")
	say("Starting etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kwok and simaws ...")
	s, err := startSandbox(ctx)
	if err != nil {
		return err
	}
	say("  ready after %s (Kubernetes %s in %s)", since(began), s.KubeVersion, s.Dir)
	cfg, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = 100, 200
	scheme, err := kube.NewScheme()
	if err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	say("Installing karp: CRDs, roles, the agent as its own service account ...")
	if err := install(ctx, c); err != nil {
		return err
	}
	kubeconfig, err := agentKubeconfig(ctx, cfg)
	if err != nil {
		return err
	}
	pid, err := startAgent(s, kubeconfig)
	if err != nil {
		return err
	}
	say("Applying one EC2NodeClass and two NodePools, then the workloads ...")
	if err := play(ctx, cfg, c, pid); err != nil {
		return fmt.Errorf("%w\n  the agent's log is %s; `make demo-down` removes the demo", err, agentLog())
	}
	if err := explainPending(ctx, c, s.Kubeconfig); err != nil {
		return err
	}
	return farewell(s.Kubeconfig, began)
}

// play applies the manifests and follows what happens until everything that should run does.
func play(ctx context.Context, cfg *rest.Config, c client.Client, pid int) error {
	sub, err := fs.Sub(manifests, "manifests")
	if err != nil {
		return err
	}
	objs, err := files(sub)
	if err != nil {
		return err
	}
	w, err := newWatcher(ctx, cfg, c.Scheme())
	if err != nil {
		return err
	}
	defer w.stop()
	for i, u := range objs {
		if u.GetKind() == "Namespace" {
			if err := w.poolsReady(ctx, pid); err != nil {
				return err
			}
			return w.follow(ctx, pid, func() error { return apply(ctx, c, objs[i:]) })
		}
		if err := apply(ctx, c, objs[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// explainPending asks the plugin about the pod that cannot run.
func explainPending(ctx context.Context, c client.Client, kubeconfig string) error {
	program, err := bin("kubectl-karp")
	if err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace("demo"), client.MatchingLabels{"demo": "impossible"}); err != nil {
		return err
	}
	if len(pods.Items) != 1 {
		return fmt.Errorf("want one pod that cannot run, found %d", len(pods.Items))
	}
	pod := pods.Items[0].Name
	say("\nOne pod stays pending. Why?\n")
	say("$ kubectl karp why-pending %s -n demo\n", pod)
	cmd := exec.CommandContext(ctx, program, "why-pending", pod, "-n", "demo")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("asking why the pod is pending: %w", err)
	}
	return nil
}

func farewell(kubeconfig string, began time.Time) error {
	dir, err := filepath.Abs("bin")
	if err != nil {
		return err
	}
	say("\nThe demo took %s. Play on:\n", since(began))
	say("  export KUBECONFIG=%s", kubeconfig)
	say("  export PATH=%s:$PATH", dir)
	for _, line := range []string{
		"kubectl get nodepools,nodeclaims,nodes",
		"kubectl karp why-pending -A",
		"kubectl -n demo scale deploy/worker --replicas 40",
		"kubectl karp simulate -f test/demo/manifests/30-workloads.yaml",
	} {
		say("  %s", line)
	}
	say("\n  tail -f %s\n  make demo-down", agentLog())
	return nil
}

func since(t time.Time) string {
	return strings.TrimSuffix(time.Since(t).Round(100*time.Millisecond).String(), "00ms")
}
