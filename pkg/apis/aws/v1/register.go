package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of EC2NodeClass.
const Group = "karpenter.k8s.aws"

// EC2NodeClassKind is the kind name.
const EC2NodeClassKind = "EC2NodeClass"

// GroupVersion is karpenter.k8s.aws/v1.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: "v1"} }

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	b := runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
		s.AddKnownTypes(GroupVersion(), &EC2NodeClass{}, &EC2NodeClassList{})
		metav1.AddToGroupVersion(s, GroupVersion())
		return nil
	})
	return b.AddToScheme(s)
}
