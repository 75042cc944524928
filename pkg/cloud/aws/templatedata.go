package aws

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
)

// nodeSpec is everything that a launch template depends on.
type nodeSpec struct {
	class                 *awsv1.EC2NodeClass
	image                 string
	capacityType, tenancy string
	pods                  int64
	// efas are the EFA interfaces to attach; 0 for a plain interface.
	efas int
	// pool and labels are the claim's.
	pool            string
	labels          map[string]string
	taints, startup []corev1.Taint
	enclave         bool
	booking         booking
	partition       string
}

// templateInput builds the launch template; its name is a hash of its content.
func (p *Provider) templateInput(ctx context.Context, n nodeSpec) (*ec2.CreateLaunchTemplateInput, error) {
	data, err := p.templateData(ctx, n)
	if err != nil {
		return nil, err
	}
	tags := p.launchTags(n.class, n.pool)
	in := &ec2.CreateLaunchTemplateInput{LaunchTemplateData: data, TagSpecifications: tagSpecs(tags, et.ResourceTypeLaunchTemplate)}
	text, err := json.Marshal(in) //nolint:gosec // only hashed, and without a token
	if err != nil {
		return nil, fmt.Errorf("naming the launch template: %w", err)
	}
	sum := sha256.Sum256(text)
	in.LaunchTemplateName = new("karpenter.k8s.aws/" + strconv.FormatUint(binary.BigEndian.Uint64(sum[:8]), 10))
	return in, nil
}

func (p *Provider) templateData(ctx context.Context, n nodeSpec) (*et.RequestLaunchTemplateData, error) {
	text, err := p.boot(ctx, n)
	if err != nil {
		return nil, err
	}
	tags := p.launchTags(n.class, n.pool)
	resources := []et.ResourceType{et.ResourceTypeNetworkInterface}
	if n.capacityType == catalog.Spot {
		resources = append(resources, et.ResourceTypeSpotInstancesRequest)
	}
	data := &et.RequestLaunchTemplateData{
		ImageId:             &n.image,
		UserData:            &text,
		BlockDeviceMappings: deviceMappings(n.class),
		IamInstanceProfile:  &et.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &n.class.Status.InstanceProfile},
		Monitoring:          &et.LaunchTemplatesMonitoringRequest{Enabled: new(val(n.class.Spec.DetailedMonitoring))},
		MetadataOptions:     p.metadataOptions(n.class.Spec.MetadataOptions),
		NetworkInterfaces:   p.interfaces(n),
		Placement:           p.placementRequest(n),
		EnclaveOptions:      &et.LaunchTemplateEnclaveOptionsRequest{Enabled: &n.enclave},
		TagSpecifications:   templateTagSpecs(tags, resources...),

		CapacityReservationSpecification: p.reservationRequest(n.booking),
		InstanceMarketOptions:            marketRequest(n.booking),
	}
	if c := n.class.Spec.CPUOptions; c != nil && c.NestedVirtualization != nil {
		data.CpuOptions = &et.LaunchTemplateCpuOptionsRequest{NestedVirtualization: et.NestedVirtualizationSpecification(*c.NestedVirtualization)}
	}
	return data, nil
}

// boot renders the user data of the node.
func (p *Provider) boot(ctx context.Context, n nodeSpec) (string, error) {
	spec := &n.class.Spec
	endpoint, ca := p.cluster.address()
	in := bootInput{
		family: cloud.Family(spec), clusterName: p.opts.ClusterName, endpoint: endpoint, ca: ca,
		maxPods: n.pods, kubelet: spec.Kubelet, user: val(spec.UserData),
		raid0:  spec.InstanceStorePolicy != nil && *spec.InstanceStorePolicy == awsv1.InstanceStoreRAID0,
		taints: bootTaints(n.taints, n.startup),
	}
	in.labels = bootLabels(n.labels, n.capacityType, in.family)
	if spec.Kubelet != nil && len(spec.Kubelet.ClusterDNS) > 0 {
		in.dns = spec.Kubelet.ClusterDNS
	} else if p.opts.ClusterDNS != "" {
		in.dns = []string{p.opts.ClusterDNS}
	}
	if spec.Kubelet != nil && spec.Kubelet.MaxPods != nil {
		in.maxPods = int64(*spec.Kubelet.MaxPods)
	}
	if in.family == ec2types.AL2023 {
		cidr, err := p.cluster.serviceCIDR(ctx)
		if err != nil {
			return "", &cloud.ClassNotReady{Detail: err.Error()}
		}
		in.cidr = cidr
	}
	in.bindDirs = in.raid0 && in.family == ec2types.Bottlerocket && !bindsByDefault(n.class)
	out, err := userData(in)
	if err != nil {
		return "", err
	}
	if len(out.unknown) > 0 {
		p.log.InfoContext(ctx, "user data has settings that Bottlerocket is not known to have; they are passed on", "nodeClass", n.class.Name, "keys", out.unknown)
	}
	size := len(out.text)
	p.opts.Observer.UserData(n.class.Name, size)
	if size >= maxUserData*9/10 {
		p.log.WarnContext(ctx, "user data is close to the limit of EC2", "nodeClass", n.class.Name, "bytes", size, "limit", maxUserData)
	}
	return out.encoded(), nil
}

// deviceMappings are those of the class, else the family's.
func deviceMappings(class *awsv1.EC2NodeClass) []et.LaunchTemplateBlockDeviceMappingRequest {
	var out []et.LaunchTemplateBlockDeviceMappingRequest
	if len(class.Spec.BlockDeviceMappings) == 0 {
		for _, d := range cloud.Family(&class.Spec).DefaultDevices() {
			out = append(out, et.LaunchTemplateBlockDeviceMappingRequest{DeviceName: new(d.Name), Ebs: &et.LaunchTemplateEbsBlockDeviceRequest{
				Encrypted: new(true), VolumeType: et.VolumeTypeGp3, VolumeSize: new(gibibytes(d.Bytes)),
			}})
		}
		return out
	}
	for _, m := range class.Spec.BlockDeviceMappings {
		out = append(out, et.LaunchTemplateBlockDeviceMappingRequest{DeviceName: m.DeviceName, Ebs: ebs(m.EBS)})
	}
	return out
}

func gibibytes(bytes int64) int32 { return int32((bytes + 1<<30 - 1) >> 30) }

func ebs(d *awsv1.BlockDevice) *et.LaunchTemplateEbsBlockDeviceRequest {
	if d == nil {
		return nil
	}
	out := &et.LaunchTemplateEbsBlockDeviceRequest{
		DeleteOnTermination: d.DeleteOnTermination, Encrypted: d.Encrypted, KmsKeyId: d.KMSKeyID, SnapshotId: d.SnapshotID,
		VolumeInitializationRate: d.VolumeInitializationRate, VolumeType: et.VolumeType(val(d.VolumeType)),
	}
	if v := val(d.IOPS); v != 0 {
		out.Iops = new(int32(v))
	}
	if v := val(d.Throughput); v != 0 {
		out.Throughput = new(int32(v))
	}
	if d.VolumeSize != nil {
		if bytes, err := ec2types.ParseBytes(string(*d.VolumeSize)); err == nil {
			out.VolumeSize = new(gibibytes(bytes))
		}
	}
	return out
}

// metadataOptions are those of the class with the defaults of the schema. Regions of the isolated partitions do not know the IPv6 option.
func (p *Provider) metadataOptions(m *awsv1.MetadataOptions) *et.LaunchTemplateInstanceMetadataOptionsRequest {
	if m == nil {
		m = &awsv1.MetadataOptions{}
	}
	out := &et.LaunchTemplateInstanceMetadataOptionsRequest{
		HttpEndpoint:            et.LaunchTemplateInstanceMetadataEndpointState(cmp.Or(val(m.HTTPEndpoint), "enabled")),
		HttpProtocolIpv6:        et.LaunchTemplateInstanceMetadataProtocolIpv6(cmp.Or(val(m.HTTPProtocolIPv6), "disabled")),
		HttpPutResponseHopLimit: new(int32(cmp.Or(val(m.HTTPPutResponseHopLimit), 1))),
		HttpTokens:              et.LaunchTemplateHttpTokensState(cmp.Or(val(m.HTTPTokens), "required")),
		InstanceMetadataTags:    et.LaunchTemplateInstanceMetadataTagsStateDisabled,
	}
	isolated := []string{"us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"}
	if slices.Contains(isolated, p.region) {
		out.HttpProtocolIpv6 = ""
	}
	return out
}

// interfaces are those of the class; else the EFAs that the claim asked for; else one.
func (p *Provider) interfaces(n nodeSpec) []et.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	var out []et.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest
	add := func(card, device int32, kind string) {
		i := et.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{DeviceIndex: &device, Groups: groupIDs(n.class)}
		if kind != "" {
			i.NetworkCardIndex, i.InterfaceType = &card, &kind
		}
		if kind != string(awsv1.InterfaceTypeEFAOnly) {
			p.addressing(&i, &n.class.Spec)
		}
		out = append(out, i)
	}
	switch {
	case len(n.class.Spec.NetworkInterfaces) > 0:
		for _, nic := range n.class.Spec.NetworkInterfaces {
			add(nic.NetworkCardIndex, nic.DeviceIndex, string(nic.InterfaceType))
		}
	case n.efas > 0:
		for card := range int32(n.efas) {
			add(card, min(card, 1), "efa")
		}
	default:
		add(0, 0, "")
	}
	return out
}

func groupIDs(class *awsv1.EC2NodeClass) []string {
	var out []string
	for _, g := range class.Status.SecurityGroups {
		out = append(out, g.ID)
	}
	return out
}

// addressing sets what every interface with an address has.
func (p *Provider) addressing(i *et.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest, spec *awsv1.EC2NodeClassSpec) {
	i.AssociatePublicIpAddress = spec.AssociatePublicIPAddress
	if p.cluster.ipv6() {
		i.Ipv6PrefixCount, i.PrimaryIpv6, i.Ipv6AddressCount = spec.IPPrefixCount, new(true), new(int32(1))
	} else {
		i.Ipv4PrefixCount = spec.IPPrefixCount
	}
	if c := spec.ConnectionTracking; c != nil {
		i.ConnectionTrackingSpecification = &et.ConnectionTrackingSpecificationRequest{
			TcpEstablishedTimeout: c.TCPEstablishedTimeout, UdpStreamTimeout: c.UDPStreamTimeout, UdpTimeout: c.UDPTimeout,
		}
	}
}

func (p *Provider) placementRequest(n nodeSpec) *et.LaunchTemplatePlacementRequest {
	out := &et.LaunchTemplatePlacementRequest{Tenancy: et.Tenancy(n.tenancy)}
	if g := p.placement.known(n.class.Spec.PlacementGroupSelector); g != nil {
		out.GroupId = &g.ID
	}
	if number, err := strconv.ParseInt(n.partition, 10, 32); err == nil {
		out.PartitionNumber = new(int32(number))
	}
	return out
}

// launchTags are the tags of everything that a launch creates: the user's, overlaid by the fixed ones.
func (p *Provider) launchTags(class *awsv1.EC2NodeClass, pool string) map[string]string {
	tags := maps.Clone(class.Spec.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[awsv1.TagClusterPrefix+p.opts.ClusterName] = "owned"
	tags[awsv1.TagNodePool] = pool
	tags[awsv1.TagClusterName] = p.opts.ClusterName
	tags[awsv1.TagEC2NodeClass] = class.Name
	return tags
}

func tagList(tags map[string]string) []et.Tag {
	var out []et.Tag
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, et.Tag{Key: new(k), Value: new(tags[k])})
	}
	return out
}

func tagSpecs(tags map[string]string, resources ...et.ResourceType) []et.TagSpecification {
	var out []et.TagSpecification
	for _, r := range resources {
		out = append(out, et.TagSpecification{ResourceType: r, Tags: tagList(tags)})
	}
	return out
}

func templateTagSpecs(tags map[string]string, resources ...et.ResourceType) []et.LaunchTemplateTagSpecificationRequest {
	var out []et.LaunchTemplateTagSpecificationRequest
	for _, r := range resources {
		out = append(out, et.LaunchTemplateTagSpecificationRequest{ResourceType: r, Tags: tagList(tags)})
	}
	return out
}
