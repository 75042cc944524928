package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// noPods tells a workload without pending pods from one that does not exist.
func (a *pendingArgs) noPods(ctx context.Context, s *observed, kind, name string) error {
	ns, where := a.o.namespace(), ""
	if ns != "" && !a.all {
		where = fmt.Sprintf(" in namespace %q", ns)
	}
	names := workloads(ctx, s, kind, func(namespace string) bool { return ns == "" || a.all || namespace == ns })
	if slices.Contains(names, name) {
		return fmt.Errorf("%s %q has no pending pods%s", kind, name, where)
	}
	return fmt.Errorf("%s %q not found%s%s", kind, name, where, suggest(name, names))
}

// workloads are the names of all workloads of a kind, as far as they can be read: the objects themselves, and the owners of pods.
func workloads(ctx context.Context, s *observed, kind string, in func(namespace string) bool) []string {
	var out []string
	for _, p := range s.snapshot.Pods {
		if !in(p.Namespace) {
			continue
		}
		switch {
		case p.Owner.Kind == kind:
			out = append(out, p.Owner.Name)
		case p.Owner.Kind == "ReplicaSet" && kind == "Deployment":
			if i := strings.LastIndex(p.Owner.Name, "-"); i > 0 {
				out = append(out, p.Owner.Name[:i])
			}
		}
	}
	for _, d := range s.dir.Objects.DaemonSets {
		if kind == "DaemonSet" && in(d.Namespace) {
			out = append(out, d.Name)
		}
	}
	for _, x := range s.dir.Objects.Others {
		if x.GetObjectKind().GroupVersionKind().Kind == kind && in(x.GetNamespace()) {
			out = append(out, x.GetName())
		}
	}
	if s.reader != nil {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(workloadKind(kind))
		// Without the right to list them, those that have pods are known.
		if err := s.reader.List(ctx, list); err == nil {
			for i := range list.Items {
				if in(list.Items[i].Namespace) {
					out = append(out, list.Items[i].Name)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// workloadKind is the kind of the list of workloads of a kind.
func workloadKind(kind string) schema.GroupVersionKind {
	if kind == "Job" {
		return batchv1.SchemeGroupVersion.WithKind("JobList")
	}
	return appsv1.SchemeGroupVersion.WithKind(kind + "List")
}
