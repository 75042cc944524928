package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of CapacityBuffer.
const Group = "autoscaling.x-k8s.io"

// CapacityBufferKind is the kind name.
const CapacityBufferKind = "CapacityBuffer"

// GroupVersion is autoscaling.x-k8s.io/v1beta1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: "v1beta1"}
}

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	b := runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
		s.AddKnownTypes(GroupVersion(), &CapacityBuffer{}, &CapacityBufferList{})
		metav1.AddToGroupVersion(s, GroupVersion())
		return nil
	})
	return b.AddToScheme(s)
}
