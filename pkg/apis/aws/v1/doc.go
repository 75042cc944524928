// Package v1 holds the kind EC2NodeClass of karpenter.k8s.aws/v1, the AWS side of a node.
//
// The CRD in manifests/crds is generated from the markers beside the fields, and nothing edits the result. Some rules keep
// a known oddity on purpose, because objects that exist must stay valid; their comments say so.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
package v1
