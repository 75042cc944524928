package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of NodePool and NodeClaim.
const Group = "karpenter.sh"

// Kind names, as they appear in owner references and events.
const (
	NodePoolKind  = "NodePool"
	NodeClaimKind = "NodeClaim"
)

// GroupVersion is karpenter.sh/v1.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: "v1"} }

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	b := runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
		s.AddKnownTypes(GroupVersion(), &NodePool{}, &NodePoolList{}, &NodeClaim{}, &NodeClaimList{})
		metav1.AddToGroupVersion(s, GroupVersion())
		return nil
	})
	return b.AddToScheme(s)
}
