// Package v1alpha1 holds the kind DecisionRecord of karp.sh/v1alpha1: why a node came, went or failed to come, kept
// longer than an event. Nothing depends on it, and everything works without its CRD.
//
// +kubebuilder:object:generate=true
// +groupName=karp.sh
package v1alpha1
