package kube

import (
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// podTable is the pods by UID. Those that were added at once are put into the map when somebody asks for one.
type podTable struct {
	added []*corev1.Pod
	byUID map[string]*corev1.Pod
}

// add takes a pod while all are read; a later one of the same UID replaces it.
func (t *podTable) add(pod *corev1.Pod) { t.added = append(t.added, pod) }

func (t *podTable) index() map[string]*corev1.Pod {
	if t.byUID == nil {
		t.byUID = make(map[string]*corev1.Pod, len(t.added))
	}
	for _, pod := range t.added {
		t.byUID[string(pod.UID)] = pod
	}
	t.added = nil
	return t.byUID
}

func (t *podTable) get(uid string) *corev1.Pod { return t.index()[uid] }
func (t *podTable) set(pod *corev1.Pod)        { t.index()[string(pod.UID)] = pod }
func (t *podTable) delete(uid string)          { delete(t.index(), uid) }

func (t *podTable) all() iter.Seq[*corev1.Pod] { return maps.Values(t.index()) }
