// Package v1beta1 holds the kind CapacityBuffer of autoscaling.x-k8s.io/v1beta1, spare room kept for pods to come.
//
// The kind belongs to the Kubernetes autoscaling project. A cluster may have its own copy of the CRD, so nothing here may
// rely on more than the fields.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.x-k8s.io
package v1beta1
