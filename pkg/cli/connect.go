package cli

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

type (
	condition      = metav1.Condition
	ownerReference = metav1.OwnerReference
)

// rest returns the connection of the kubectl flags, with limits for a tool that lists a few kinds at once.
func (o *options) rest() (*rest.Config, error) {
	cfg, err := o.kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to ask: %w\n  fix: set --kubeconfig or --context, or answer from files with --snapshot DIR", err)
	}
	cfg.QPS, cfg.Burst = 50, 100
	cfg.UserAgent = "kubectl-karp/" + o.Version
	return cfg, nil
}

// client returns a typed client for Kubernetes' and karp's kinds.
func (o *options) client() (client.Client, error) {
	cfg, err := o.rest()
	if err != nil {
		return nil, err
	}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, karpv1.AddToScheme, awsv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return c, nil
}

// staticCapacityOff reports whether the controller that runs has the feature gate StaticCapacity off: karp has it on by default, Karpenter off. The
// agent itself knows best, then its Deployment. Unknown says why neither could be asked; then the gate is taken for on.
func (o *options) staticCapacityOff(ctx context.Context, c client.Client) (off bool, unknown string) {
	cfg, err := o.rest()
	if err != nil {
		return false, err.Error()
	}
	if link, _ := o.reachAgent(ctx, cfg); link != nil {
		defer link.close()
		return !link.info.FeatureGates["StaticCapacity"], ""
	}
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, client.InNamespace(o.agentNamespace)); err != nil {
		return false, clause(err)
	}
	for _, d := range list.Items {
		for _, container := range d.Spec.Template.Spec.Containers {
			if off, known := gateOff(d.Name, container); known {
				return off, ""
			}
		}
	}
	return false, "no controller in namespace " + o.agentNamespace
}

// gateOff reads the gate from a controller's container; known is false for other programs.
func gateOff(deployment string, c corev1.Container) (off, known bool) {
	karp := strings.Contains(deployment, "karp-agent")
	if !karp && !strings.Contains(deployment, "karpenter") {
		return false, false
	}
	gates := ""
	for _, e := range c.Env {
		if e.Name == "FEATURE_GATES" {
			gates = e.Value
		}
	}
	for _, arg := range c.Args {
		if v, ok := strings.CutPrefix(arg, "--feature-gates="); ok {
			gates = v
		}
	}
	for _, gate := range strings.Split(gates, ",") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(gate), "StaticCapacity="); ok {
			return v == "false", true
		}
	}
	return !karp, true
}

// inNamespace restricts a list, or does not.
func inNamespace(ns string) []client.ListOption {
	if ns == "" {
		return nil
	}
	return []client.ListOption{client.InNamespace(ns)}
}

// podUID stands in for the UID of a pod that does not exist.
func podUID(p *corev1.Pod) types.UID { return types.UID(p.Namespace + "." + p.Name) }
