package kube

import corev1 "k8s.io/api/core/v1"

// NominatedByKarp reports whether the pod's nomination is ours, and not one that the scheduler made for preemption.
func NominatedByKarp(pod *corev1.Pod) bool { return nominatedByKarp(pod) }
