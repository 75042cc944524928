package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cloud/aws"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/telemetry"
	"github.com/karp-sh/karp/pkg/units"
)

// Periods of the loops that tell the cloud provider about the cluster, or clean up after it (AWS rules 16).
const (
	profileInterval = 30 * time.Minute
	memoryInterval  = time.Minute
	shiftInterval   = 10 * time.Second
	gaugeInterval   = time.Minute
)

// addCloudLoops adds what keeps provider and cluster informed of each other.
func addCloudLoops(mgr manager.Manager, p *aws.Provider, log *slog.Logger) error {
	gauges := &offeringGauges{client: mgr.GetClient(), types: p.InstanceTypes, reserved: p.Reserved()}
	shifts := &shiftEvents{
		client: mgr.GetClient(), shifted: p.ShiftedZones,
		events: newEvents(mgr.GetEventRecorderFor(eventSource), clock.RealClock{}), //nolint:staticcheck // the events of core/v1 are what the roles allow
	}
	collect := &profileCollector{live: mgr.GetAPIReader(), collect: p.CollectProfiles}
	learn := &memoryLearner{client: mgr.GetClient(), observe: p.ObserveMemory}
	loops := []aws.Refresher{
		{Name: "instance profiles", Every: profileInterval, Refresh: collect.Run, LeaderOnly: true},
		{Name: "memory of nodes", Every: memoryInterval, Refresh: learn.Run},
		{Name: "events of zonal shifts", Every: shiftInterval, Refresh: shifts.Run, LeaderOnly: true},
	}
	if o, ok := p.Observer().(observer); ok {
		gauges.series = o.AWS
		loops = append(loops, aws.Refresher{Name: "gauges of offerings", Every: gaugeInterval, Refresh: gauges.Run, LeaderOnly: true})
	}
	for _, r := range loops {
		if err := mgr.Add(refresher{r, log}); err != nil {
			return err
		}
	}
	return nil
}

// profileCollector deletes instance profiles that nothing refers to (AWS rules 4.4).
type profileCollector struct {
	live    client.Reader
	collect func(ctx context.Context, keep map[string]bool) error
}

// Run collects once. What refers to a profile is read past the cache: one reference that the cache does not show yet would cost a node its
// permissions.
func (l *profileCollector) Run(ctx context.Context) error {
	var classes awsv1.EC2NodeClassList
	if err := l.live.List(ctx, &classes); err != nil {
		return fmt.Errorf("listing node classes: %w", err)
	}
	var claims karpv1.NodeClaimList
	if err := l.live.List(ctx, &claims); err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	keep := map[string]bool{}
	for i := range classes.Items {
		keep[classes.Items[i].Status.InstanceProfile] = true
	}
	for i := range claims.Items {
		keep[claims.Items[i].Annotations[awsv1.InstanceProfileAnnotation]] = true
	}
	return l.collect(ctx, keep)
}

// memoryLearner tells the provider how much memory nodes really have (AWS rules 7.5).
type memoryLearner struct {
	client  client.Reader
	observe func(ctx context.Context, class *awsv1.EC2NodeClass, instanceType, image string, bytes int64)
}

// Run looks at every registered node once.
func (l *memoryLearner) Run(ctx context.Context) error {
	var nodes corev1.NodeList
	// Nothing of what is listed is changed: copies of ten thousand nodes a minute would be for nothing.
	if err := l.client.List(ctx, &nodes, client.MatchingLabels{karpv1.RegisteredLabel: "true"}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	var claims karpv1.NodeClaimList
	if err := l.client.List(ctx, &claims); err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	var classes awsv1.EC2NodeClassList
	if err := l.client.List(ctx, &classes); err != nil {
		return fmt.Errorf("listing node classes: %w", err)
	}
	byProvider, byName := map[string]*karpv1.NodeClaim{}, map[string]*awsv1.EC2NodeClass{}
	for i := range claims.Items {
		byProvider[claims.Items[i].Status.ProviderID] = &claims.Items[i]
	}
	for i := range classes.Items {
		byName[classes.Items[i].Name] = &classes.Items[i]
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		c := byProvider[n.Spec.ProviderID]
		if c == nil || n.Spec.ProviderID == "" || !managedRef(c.Spec.NodeClassRef) {
			continue
		}
		if class := byName[c.Spec.NodeClassRef.Name]; class != nil {
			l.observe(ctx, class, n.Labels[corev1.LabelInstanceTypeStable], c.Status.ImageID, n.Status.Capacity.Memory().Value())
		}
	}
	return nil
}

// shiftEvents tells pools when a zonal shift begins or ends in a zone that they use (AWS rules 14).
type shiftEvents struct {
	client  client.Reader
	shifted func() []string
	events  *events
	// told are the zones that the pools know to be shifted.
	told []string
}

// Run publishes what has changed since the last run. A change that could not be told is tried again.
func (l *shiftEvents) Run(ctx context.Context) error {
	now := l.shifted()
	if slices.Equal(now, l.told) {
		return nil
	}
	var pools karpv1.NodePoolList
	if err := l.client.List(ctx, &pools); err != nil {
		return fmt.Errorf("listing pools: %w", err)
	}
	var classes awsv1.EC2NodeClassList
	if err := l.client.List(ctx, &classes); err != nil {
		return fmt.Errorf("listing node classes: %w", err)
	}
	byName := map[string]*awsv1.EC2NodeClass{}
	for i := range classes.Items {
		byName[classes.Items[i].Name] = &classes.Items[i]
	}
	for i := range pools.Items {
		p := &pools.Items[i]
		class := byName[p.Spec.Template.Spec.NodeClassRef.Name]
		if class == nil || !managedRef(p.Spec.Template.Spec.NodeClassRef) {
			continue
		}
		for _, s := range zonesOf(class) {
			was, is := slices.Contains(l.told, s.ZoneID), slices.Contains(now, s.ZoneID)
			if was == is || !admitsZone(p, s) {
				continue
			}
			if is {
				l.events.Warn(p, "ZonalShiftActive", "traffic was shifted away from zone "+s.Zone+": nothing is launched there", s.ZoneID)
			} else {
				l.events.Normal(p, "ZonalShiftCleared", "the zonal shift away from zone "+s.Zone+" has ended", s.ZoneID)
			}
		}
	}
	l.told = now
	return nil
}

// zonesOf returns one subnet of the class in each zone.
func zonesOf(class *awsv1.EC2NodeClass) []awsv1.Subnet {
	var out []awsv1.Subnet
	for _, s := range class.Status.Subnets {
		if !slices.ContainsFunc(out, func(have awsv1.Subnet) bool { return have.ZoneID == s.ZoneID }) {
			out = append(out, s)
		}
	}
	return out
}

// admitsZone reports whether the pool's requirements and labels allow nodes in the zone.
func admitsZone(p *karpv1.NodePool, s awsv1.Subnet) bool {
	var exprs []constraint.Expr
	for _, r := range p.Spec.Template.Spec.Requirements {
		exprs = append(exprs, constraint.Expr{Key: r.Key, Operator: constraint.Operator(r.Operator), Values: r.Values})
	}
	for key, value := range p.Spec.Template.ObjectMeta.Labels {
		exprs = append(exprs, constraint.Expr{Key: key, Operator: constraint.In, Values: []string{value}})
	}
	all := constraint.Parse(exprs)
	for key, value := range map[string]string{corev1.LabelTopologyZone: s.Zone, awsv1.LabelTopologyZoneID: s.ZoneID} {
		if r, ok := all.Get(key); ok && !r.Admits(value) {
			return false
		}
	}
	return true
}

// offeringGauges publish what each pool could buy (AWS rules 15.7).
type offeringGauges struct {
	client   client.Reader
	types    func(context.Context, *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
	series   telemetry.AWS
	reserved bool
	// told are the series that exist.
	told map[offeringSeries]bool
}

// offeringSeries are the labels of a gauge.
type offeringSeries struct{ typ, capacityType, zone string }

// offeringNow is what the gauges of a series say.
type offeringNow struct {
	available bool
	price     units.Money
}

// Run publishes once. A pool whose types cannot be listed does not hold up the others.
func (l *offeringGauges) Run(ctx context.Context) error {
	var pools karpv1.NodePoolList
	if err := l.client.List(ctx, &pools); err != nil {
		return fmt.Errorf("listing pools: %w", err)
	}
	now := map[offeringSeries]offeringNow{}
	asked := map[string]bool{}
	var errs []error
	for i := range pools.Items {
		ref := pools.Items[i].Spec.Template.Spec.NodeClassRef
		if !managedRef(ref) || asked[ref.Name] {
			continue
		}
		asked[ref.Name] = true
		var class awsv1.EC2NodeClass
		if err := l.client.Get(ctx, client.ObjectKey{Name: ref.Name}, &class); err != nil {
			errs = append(errs, client.IgnoreNotFound(err))
			continue
		}
		types, err := l.types(ctx, &class)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l.note(types, now)
	}
	l.publish(now)
	return errors.Join(errs...)
}

// note adds the types of one class. Of several offerings under the same labels one that can be bought is enough, and the cheapest counts.
func (l *offeringGauges) note(types []catalog.InstanceType, now map[offeringSeries]offeringNow) {
	for i := range types {
		t := &types[i]
		l.series.TypeCPU.WithLabelValues(t.Name).Set(float64(t.Capacity[units.CPU]) / 1000)
		l.series.TypeMemory.WithLabelValues(t.Name).Set(float64(t.MemoryRaw))
		for _, o := range t.Offerings {
			none := offeringSeries{t.Name, catalog.Reserved, o.Zone}
			if _, known := now[none]; l.reserved && !known {
				now[none] = offeringNow{}
			}
			key := offeringSeries{t.Name, o.CapacityType, o.Zone}
			have, known := now[key]
			if !known || have.price == 0 || o.Price < have.price {
				have.price = o.Price
			}
			have.available = have.available || o.Available
			now[key] = have
		}
	}
}

func (l *offeringGauges) publish(now map[offeringSeries]offeringNow) {
	for key := range l.told {
		if _, still := now[key]; !still {
			l.series.OfferingAvailable.DeleteLabelValues(key.typ, key.capacityType, key.zone)
			l.series.OfferingPrice.DeleteLabelValues(key.typ, key.capacityType, key.zone)
		}
	}
	l.told = map[offeringSeries]bool{}
	for key, is := range now {
		l.told[key] = true
		available := 0.0
		if is.available {
			available = 1
		}
		l.series.OfferingAvailable.WithLabelValues(key.typ, key.capacityType, key.zone).Set(available)
		l.series.OfferingPrice.WithLabelValues(key.typ, key.capacityType, key.zone).Set(is.price.Dollars())
	}
}
