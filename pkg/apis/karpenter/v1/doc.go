// Package v1 holds the kinds NodePool and NodeClaim of karpenter.sh/v1.
//
// The CRDs in manifests/crds are generated from the markers beside the fields, and nothing edits the result:
// what the API server enforces is written here. Rules that need more than a schema are in validate.go; they run in
// the agent and end in a status condition. Zero values are what the API server stores for an absent field, except
// where a field's comment names a default: defaulting happens in the API server only.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1
