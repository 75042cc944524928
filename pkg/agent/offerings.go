package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/status"
)

var _ status.OfferingSource = (*report)(nil)

// Offerings are what the classes can buy now, or the class of one NodePool.
func (r *report) Offerings(ctx context.Context, nodePool string) (status.Offerings, error) {
	classes, err := r.classesOf(ctx, nodePool)
	if err != nil {
		return status.Offerings{}, err
	}
	out := status.Offerings{Meta: status.Meta{ObservedAt: r.clock.Now()}, Items: []status.Offering{}}
	for i := range classes {
		all, err := r.cloud.InstanceTypes(ctx, &classes[i])
		if err != nil {
			return status.Offerings{}, fmt.Errorf("reading what EC2NodeClass %s can launch: %w", classes[i].Name, err)
		}
		for j := range all {
			for k := range all[j].Offerings {
				out.Items = append(out.Items, offering(all[j].Name, &all[j].Offerings[k]))
			}
		}
	}
	key := func(a, b status.Offering) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.ReservationID, b.ReservationID))
	}
	// Classes share most of their offerings.
	slices.SortStableFunc(out.Items, key)
	out.Items = slices.CompactFunc(out.Items, func(a, b status.Offering) bool { return key(a, b) == 0 })
	return out, nil
}

// classesOf are all classes, or that of one pool.
func (r *report) classesOf(ctx context.Context, nodePool string) ([]awsv1.EC2NodeClass, error) {
	list := &awsv1.EC2NodeClassList{}
	if err := r.client.List(ctx, list); err != nil || nodePool == "" {
		return list.Items, err
	}
	pool := &karpv1.NodePool{}
	if err := r.client.Get(ctx, types.NamespacedName{Name: nodePool}, pool); err != nil {
		if apierrors.IsNotFound(err) {
			err = fmt.Errorf("NodePool %s: %w", nodePool, status.ErrNotFound)
		}
		return nil, err
	}
	ref := pool.Spec.Template.Spec.NodeClassRef
	return slices.DeleteFunc(list.Items, func(c awsv1.EC2NodeClass) bool { return !managedRef(ref) || c.Name != ref.Name }), nil
}

func offering(name string, o *catalog.Offering) status.Offering {
	out := status.Offering{Type: name, Zone: o.Zone, CapacityType: o.CapacityType, ReservationID: o.ReservationID, ReservationCount: o.ReservationCount, Available: o.Available}
	if !o.PriceUnknown {
		out.Price = o.Price.Decimal()
	}
	if !o.Available {
		out.Reason = o.Unavailable.Reason
		if until := o.Unavailable.Until; !until.IsZero() {
			out.Until = &until
		}
	}
	return out
}
