package aws

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/units"
)

// payloadVersion is that of the form below. A process refuses forms it does not know: sending something else under the same token is an error.
const payloadVersion = 1

// payload is the frozen launch: from it alone the CreateFleet call is built, always the same, and the result is read. The form is short,
// because it is recorded in an annotation of the claim.
type payload struct {
	Version     int               `json:"v"`
	Tenancy     string            `json:"tenancy"`
	Prioritized bool              `json:"prioritized,omitempty"`
	Context     string            `json:"context,omitempty"`
	Partition   string            `json:"partition,omitempty"`
	Pool        string            `json:"pool,omitempty"`
	ClassName   string            `json:"class"`
	Tags        map[string]string `json:"tags"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Subnets     []payloadSubnet   `json:"subnets"`
	Templates   []payloadTemplate `json:"templates"`
	// Images is the set of images of the class, by which the memory of live nodes was recorded.
	Images string `json:"images"`
	// Class is what the capacity of the instance is derived from.
	Class ec2types.Class `json:"shape"`
}

type payloadSubnet struct {
	ID     string `json:"id"`
	Zone   string `json:"z"`
	ZoneID string `json:"i,omitempty"`
}

type payloadTemplate struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	EFAs  int    `json:"efas,omitempty"`
	// Booking is the capacity reservation of a reserved launch.
	Booking booking       `json:"booking,omitzero"`
	Types   []payloadType `json:"types"`
}

// payloadType is a type with the subnets it may use, as indices, and the price in each; one price counts for all.
type payloadType struct {
	Name    string        `json:"n"`
	Subnets []int         `json:"s"`
	Prices  []units.Money `json:"p"`
}

func (t *payloadType) price(i int) units.Money {
	if len(t.Prices) == 1 {
		return t.Prices[0]
	}
	return t.Prices[i]
}

// price of a type in a zone when the request was made, 0 if the request does not hold it.
func (p *payload) price(typ, zone string) units.Money {
	for i := range p.Templates {
		for j := range p.Templates[i].Types {
			t := &p.Templates[i].Types[j]
			if t.Name != typ {
				continue
			}
			for k, subnet := range t.Subnets {
				if p.Subnets[subnet].Zone == zone {
					return t.price(k)
				}
			}
		}
	}
	return 0
}

// freeze makes the request of a payload.
func freeze(p *payload, capacityType string, id cloud.Identity) (*cloud.Request, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("recording the launch: %w", err)
	}
	sum := sha256.Sum256(text)
	return &cloud.Request{
		Token: id.Token(), LaunchID: id.LaunchID(), CapacityType: capacityType, Payload: text, Digest: hex.EncodeToString(sum[:16]),
	}, nil
}

// thaw reads the payload of a request.
func thaw(r *cloud.Request) (*payload, error) {
	var p payload
	if err := json.Unmarshal(r.Payload, &p); err != nil {
		return nil, fmt.Errorf("reading the recorded launch %s: %w", r.LaunchID, err)
	}
	if p.Version != payloadVersion {
		return nil, fmt.Errorf("reading the recorded launch %s: its form is version %d, this program knows %d", r.LaunchID, p.Version, payloadVersion)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("reading the recorded launch %s: %w", r.LaunchID, err)
	}
	return &p, nil
}

// check refuses a record that holds no launch: people can edit annotations.
func (p *payload) check() error {
	if len(p.Templates) == 0 {
		return errors.New("it names no launch template")
	}
	for _, t := range p.Templates {
		for _, typ := range t.Types {
			if len(typ.Prices) != 1 && len(typ.Prices) != len(typ.Subnets) {
				return fmt.Errorf("%s has %d subnets and %d prices", typ.Name, len(typ.Subnets), len(typ.Prices))
			}
			for _, i := range typ.Subnets {
				if i < 0 || i >= len(p.Subnets) {
					return fmt.Errorf("%s has subnet %d of %d", typ.Name, i, len(p.Subnets))
				}
			}
		}
	}
	return nil
}

// fleet builds the call.
func (p *payload) fleet(r *cloud.Request) *ec2.CreateFleetInput {
	in := &ec2.CreateFleetInput{
		ClientToken: &r.Token, Type: et.FleetTypeInstant,
		TargetCapacitySpecification: &et.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: new(int32(1)), DefaultTargetCapacityType: p.booking().target(r.CapacityType),
		},
		TagSpecifications: tagSpecs(p.allTags(r), et.ResourceTypeInstance, et.ResourceTypeVolume, et.ResourceTypeFleet),
	}
	if p.Context != "" {
		in.Context = &p.Context
	}
	for i := range p.Templates {
		in.LaunchTemplateConfigs = append(in.LaunchTemplateConfigs, p.config(&p.Templates[i]))
	}
	p.setOptions(in, r.CapacityType)
	return in
}

// booking is that of the first template; those of one launch are of one kind.
func (p *payload) booking() booking {
	if len(p.Templates) == 0 {
		return booking{}
	}
	return p.Templates[0].Booking
}

// setOptions sets how the fleet chooses, by the kind of capacity. A capacity block leaves no choice.
func (p *payload) setOptions(in *ec2.CreateFleetInput, capacityType string) {
	switch in.TargetCapacitySpecification.DefaultTargetCapacityType {
	case et.DefaultTargetCapacityTypeReservedCapacity:
		in.ReservedCapacityOptions = &et.ReservedCapacityOptionsRequest{
			ReservationTypes: []et.FleetReservationType{et.FleetReservationTypeInterruptibleCapacityReservation},
		}
		return
	case et.DefaultTargetCapacityTypeCapacityBlock:
		return
	default: // spot and on-demand, below
	}
	if capacityType == catalog.Spot {
		in.SpotOptions = &et.SpotOptionsRequest{AllocationStrategy: et.SpotAllocationStrategyPriceCapacityOptimized}
		if p.Prioritized {
			in.SpotOptions.AllocationStrategy = et.SpotAllocationStrategyCapacityOptimizedPrioritized
		}
		return
	}
	in.OnDemandOptions = &et.OnDemandOptionsRequest{AllocationStrategy: et.FleetOnDemandAllocationStrategyLowestPrice}
	if p.Prioritized {
		in.OnDemandOptions.AllocationStrategy = et.FleetOnDemandAllocationStrategyPrioritized
	}
}

func (p *payload) config(t *payloadTemplate) et.FleetLaunchTemplateConfigRequest {
	out := et.FleetLaunchTemplateConfigRequest{
		LaunchTemplateSpecification: &et.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &t.Name, Version: new("$Latest")},
	}
	for i := range t.Types {
		for k, s := range t.Types[i].Subnets {
			out.Overrides = append(out.Overrides, et.FleetLaunchTemplateOverridesRequest{
				InstanceType: et.InstanceType(t.Types[i].Name), SubnetId: new(p.Subnets[s].ID), ImageId: &t.Image,
				AvailabilityZone: new(p.Subnets[s].Zone), Priority: new(t.Types[i].price(k).Dollars()),
			})
		}
	}
	return out
}

// allTags are the launch tags and those that tie the instance to its claim.
func (p *payload) allTags(r *cloud.Request) map[string]string {
	tags := map[string]string{}
	maps.Copy(tags, p.Tags)
	tags[awsv1.TagLaunchID], tags[awsv1.TagLaunchToken] = r.LaunchID, r.Token
	return tags
}

func (p *payload) templateNames() []string {
	var out []string
	for _, t := range p.Templates {
		out = append(out, t.Name)
	}
	return out
}

// typeNames lists the types of the request, ascending.
func (p *payload) typeNames() []string {
	var out []string
	for _, t := range p.Templates {
		for _, typ := range t.Types {
			out = append(out, typ.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// has reports whether the request names the type and the zone.
func (p *payload) has(typ, zone string) bool {
	_, known := slices.BinarySearch(p.typeNames(), typ)
	return known && slices.ContainsFunc(p.Subnets, func(s payloadSubnet) bool { return s.Zone == zone })
}

// template is the one by which the type was launched into the zone; only reserved launches have several for one type.
func (p *payload) template(typ, zone string) *payloadTemplate {
	for i := range p.Templates {
		for _, t := range p.Templates[i].Types {
			if t.Name == typ && slices.ContainsFunc(t.Subnets, func(s int) bool { return p.Subnets[s].Zone == zone }) {
				return &p.Templates[i]
			}
		}
	}
	return nil
}

// templateKey tells launch templates apart: one for each image, number of EFAs, number of pods and reservation.
type templateKey struct {
	image   string
	efas    int
	pods    int64
	booking booking
}

func (k templateKey) compare(o templateKey) int {
	return cmp.Or(cmp.Compare(k.image, o.image), cmp.Compare(k.efas, o.efas), cmp.Compare(k.pods, o.pods), cmp.Compare(k.booking.ID, o.booking.ID))
}
