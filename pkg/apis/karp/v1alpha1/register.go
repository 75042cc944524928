package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of DecisionRecord.
const Group = "karp.sh"

// DecisionRecordKind is the kind name.
const DecisionRecordKind = "DecisionRecord"

// GroupVersion is karp.sh/v1alpha1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: "v1alpha1"}
}

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	b := runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
		s.AddKnownTypes(GroupVersion(), &DecisionRecord{}, &DecisionRecordList{})
		metav1.AddToGroupVersion(s, GroupVersion())
		return nil
	})
	return b.AddToScheme(s)
}
