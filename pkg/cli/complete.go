package cli

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/kube/offline"
	"github.com/karp-sh/karp/pkg/status"
	"github.com/karp-sh/karp/pkg/view"
)

// describeCompletion says how the shells learn of the plugin, called by its own name and through kubectl.
func describeCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Short = "Print the completion script for bash, zsh, fish or powershell"
		c.Example = `  # kubectl-karp in this shell (bash)
  source <(kubectl karp completion bash)

  # kubectl karp: kubectl runs the program kubectl_complete-karp, if there is one in PATH
  printf '#!/bin/sh\nexec kubectl-karp __complete "$@"\n' > ~/.local/bin/kubectl_complete-karp && chmod +x ~/.local/bin/kubectl_complete-karp`
		c.Long = `Completion offers useful names only: pods that wait for a node to why-pending, static pools to scale, codes to help.

kubectl completes its plugins itself once its own completion is loaded (kubectl completion --help): it asks the program kubectl_complete-karp in
PATH, which has to run "kubectl-karp __complete" with the same arguments.`
	}
}

// completeFlags offers the values of flags that have few.
func (o *options) completeFlags(root *cobra.Command) {
	for flag, values := range map[string][]string{
		"output": {"wide", "json", "yaml", "name", "jsonpath=", "go-template=", "custom-columns="},
		"color":  {"auto", "always", "never"},
		"theme":  append([]string{"auto"}, view.ThemeNames()...),
		"agent":  {string(status.Auto), string(status.Proxy), string(status.PortForward), string(status.None)},
	} {
		// It fails only for flags that do not exist or have a function, which a test of the help pages would show.
		_ = root.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// completePendingPods offers the pods that wait for a node.
func (o *options) completePendingPods(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	pods, err := o.podsNow(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, p := range pods {
		if p.Spec.NodeName == "" && p.Status.Phase == corev1.PodPending {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// podsNow are the pods of the namespace.
func (o *options) podsNow(ctx context.Context) ([]*corev1.Pod, error) {
	ns := o.namespace()
	if o.snapshot != "" {
		dir, err := offline.Read(o.snapshot)
		if err != nil {
			return nil, err
		}
		return slices.DeleteFunc(dir.Objects.Pods, func(p *corev1.Pod) bool { return ns != "" && p.Namespace != ns }), nil
	}
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	list := &corev1.PodList{}
	if err := c.List(ctx, list, inNamespace(ns)...); err != nil {
		return nil, err
	}
	var out []*corev1.Pod
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// completeStaticPools offers the pools that can be scaled.
func (o *options) completeStaticPools(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return o.completePools(cmd, args, func(p *karpv1.NodePool) string {
		if p.Spec.Replicas == nil {
			return ""
		}
		return p.Name + "\t" + strconv.FormatInt(*p.Spec.Replicas, 10) + " replicas"
	})
}

// completePools offers what describe makes of the pools, leaving out those it is silent about.
func (o *options) completePools(cmd *cobra.Command, args []string, describe func(*karpv1.NodePool) string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := o.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	pools := &karpv1.NodePoolList{}
	if err := c.List(cmd.Context(), pools); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for i := range pools.Items {
		names = append(names, nonEmpty(describe(&pools.Items[i]))...)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
