// Package v1alpha1 holds the kind NodeOverlay of karpenter.sh/v1alpha1, which corrects what the scheduler believes about
// instance types (gate NodeOverlay).
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1alpha1
