package simaws

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// NodeOf is the Node an instance would register, and its devices.
func NodeOf(s *Server, i *cloud.Instance, now time.Time) (*corev1.Node, corev1.ResourceList, error) {
	m, err := s.machine(i)
	if err != nil {
		return nil, nil, err
	}
	return m.node(s.opts.NodeAnnotations, now), m.devices(), nil
}
