package agent

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/karp-sh/karp/pkg/lifecycle"
)

// devices is what drivers have published for a node, for claims that wait for drivers (lifecycle rules 9).
func (s *shared) devices(ctx context.Context, c *lifecycle.Claim, nodes []lifecycle.Node) (lifecycle.Devices, error) {
	if s.cfg.IgnoreDRARequests || c.Annotations[lifecycle.DRADriversAnnotation] == "" || len(nodes) != 1 {
		return lifecycle.Devices{Ignored: s.cfg.IgnoreDRARequests}, nil
	}
	var list resourcev1.ResourceSliceList
	if err := s.client.List(ctx, &list); err != nil {
		return lifecycle.Devices{}, fmt.Errorf("listing resource slices: %w", err)
	}
	var out lifecycle.Devices
	for i := range list.Items {
		if slice := &list.Items[i]; nodeOfSlice(slice) == nodes[0].Name {
			out.Slices = append(out.Slices, lifecycle.Slice{
				Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Generation: slice.Spec.Pool.Generation, Count: slice.Spec.Pool.ResourceSliceCount,
			})
		}
	}
	return out, nil
}

// nodeOfSlice is the node that the slice is about: the one it names, else the one that owns it.
func nodeOfSlice(s *resourcev1.ResourceSlice) string {
	if s.Spec.NodeName != nil {
		return *s.Spec.NodeName
	}
	for _, o := range s.OwnerReferences {
		if o.Kind == "Node" {
			return o.Name
		}
	}
	return ""
}

// claimsOfSlice wakes the claims of the node that a slice is about.
func (s *shared) claimsOfSlice(ctx context.Context, o client.Object) []reconcile.Request {
	name := nodeOfSlice(o.(*resourcev1.ResourceSlice))
	if name == "" {
		return nil
	}
	return s.claimsOnNode(ctx, name)
}
