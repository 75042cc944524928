package simaws

import (
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

type describeImagesInput struct {
	dry
	filtering
	paging
	IDs               []string `q:"ImageId"`
	Owners            []string `q:"Owner"`
	IncludeDeprecated bool     `q:"IncludeDeprecated"`
	IncludeDisabled   bool     `q:"IncludeDisabled"`
	ExecutableBy      []string `q:"ExecutableBy,refuse"`
}

type imageXML struct {
	ID           string      `xml:"imageId"`
	Name         string      `xml:"name"`
	Description  string      `xml:"description,omitempty"`
	Location     string      `xml:"imageLocation"`
	State        string      `xml:"imageState"`
	Owner        string      `xml:"imageOwnerId"`
	OwnerAlias   string      `xml:"imageOwnerAlias,omitempty"`
	Public       bool        `xml:"isPublic"`
	Architecture string      `xml:"architecture"`
	Type         string      `xml:"imageType"`
	Platform     string      `xml:"platform,omitempty"`
	Details      string      `xml:"platformDetails"`
	Usage        string      `xml:"usageOperation"`
	Boot         string      `xml:"bootMode,omitempty"`
	IMDS         string      `xml:"imdsSupport,omitempty"`
	Source       string      `xml:"sourceImageId,omitempty"`
	SourceRegion string      `xml:"sourceImageRegion,omitempty"`
	Parameter    string      `xml:"publicSsmParameterName,omitempty"`
	RootType     string      `xml:"rootDeviceType"`
	RootName     string      `xml:"rootDeviceName"`
	Virt         string      `xml:"virtualizationType"`
	Hypervisor   string      `xml:"hypervisor"`
	ENA          bool        `xml:"enaSupport"`
	Created      string      `xml:"creationDate"`
	Deprecated   string      `xml:"deprecationTime,omitempty"`
	Devices      []deviceXML `xml:"blockDeviceMapping>item"`
	Tags         []xmlTag    `xml:"tagSet>item"`
}

type deviceXML struct {
	Name string `xml:"deviceName"`
	EBS  struct {
		Snapshot   string `xml:"snapshotId"`
		Size       int64  `xml:"volumeSize"`
		Type       string `xml:"volumeType"`
		IOPS       int    `xml:"iops"`
		Throughput int    `xml:"throughput"`
		Delete     bool   `xml:"deleteOnTermination"`
		Encrypted  bool   `xml:"encrypted"`
	} `xml:"ebs"`
}

func (s *ec2Service) describeImages(_ *call, in *describeImagesInput) (any, *cloud.Error) {
	if err := notPagedByID(in.paging, in.IDs, "imageIds"); err != nil {
		return nil, err
	}
	all, err := s.cloud.Images(cloud.ImageQuery{
		IDs: given(in.IDs), Owners: given(in.Owners), Filters: in.filters(), IncludeDeprecated: in.IncludeDeprecated,
	})
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{1, 1000, 1000, false}, func(i cloud.Image) string { return i.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Images []imageXML `xml:"imagesSet>item"`
		Next   string     `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, i := range part {
		out.Images = append(out.Images, s.describeImage(i))
	}
	return out, nil
}

func (s *ec2Service) describeImage(i cloud.Image) imageXML {
	x := imageXML{
		ID: i.ID, Name: i.Name, Description: i.Description, Location: i.OwnerID + "/" + i.Name, State: i.State,
		Owner: i.OwnerID, OwnerAlias: i.OwnerAlias, Public: i.OwnerAlias != "", Architecture: i.Architecture, Type: "machine",
		Platform: i.Platform, Details: i.PlatformDetails(), Usage: "RunInstances", Boot: "uefi-preferred", IMDS: "v2.0", Source: i.Source,
		Parameter: i.Parameter, RootType: "ebs", RootName: i.RootDevice, Virt: "hvm", Hypervisor: "xen", ENA: true,
		Created: timestamp(i.CreatedAt), Tags: xmlTags(i.Tags),
	}
	if i.Platform == "windows" {
		x.Usage, x.Boot, x.IMDS = "RunInstances:0002", "uefi", ""
	}
	if i.Source != "" {
		x.SourceRegion = s.cloud.Options().Region
	}
	if !i.DeprecatedAt.IsZero() {
		x.Deprecated = timestamp(i.DeprecatedAt)
	}
	for _, own := range i.Devices() {
		d := deviceXML{Name: own.Device}
		d.EBS.Snapshot, d.EBS.Size, d.EBS.Type, d.EBS.IOPS, d.EBS.Throughput, d.EBS.Delete = i.Snapshot(), own.SizeGiB, "gp3", 3000, 125, true
		x.Devices = append(x.Devices, d)
	}
	return x
}

type copyImageInput struct {
	dry
	Name         string                   `q:"Name,required"`
	Source       string                   `q:"SourceImageId,required"`
	SourceRegion string                   `q:"SourceRegion,required"`
	Description  string                   `q:"Description"`
	CopyTags     bool                     `q:"CopyImageTags"`
	Token        string                   `q:"ClientToken"`
	Tags         []cloud.TagSpecification `q:"TagSpecification"`
	Encrypted    *bool                    `q:"Encrypted,refuse"`
	Key          string                   `q:"KmsKeyId,refuse"`
	Zone         string                   `q:"DestinationAvailabilityZone,refuse"`
	ZoneID       string                   `q:"DestinationAvailabilityZoneId,refuse"`
	Outpost      string                   `q:"DestinationOutpostArn,refuse"`
	Minutes      *int                     `q:"SnapshotCopyCompletionDurationMinutes,refuse"`
}

func (in *copyImageInput) needs(s *ec2Service) []cloud.Demand {
	return s.toCreate("CopyImage", "image", "*", in.Tags)
}

func (s *ec2Service) copyImage(c *call, in *copyImageInput) (any, *cloud.Error) {
	if in.SourceRegion != s.cloud.Options().Region {
		return nil, apiError("InvalidRequest", "simaws has one region: the source must be in it.")
	}
	if err := checkTags(in.Tags, "image", "snapshot"); err != nil || in.DryRun {
		return done(in.DryRun, err)
	}
	want := cloud.Image{Name: in.Name, Description: in.Description, Tags: cloud.TagsFor(in.Tags, "image")}
	id, err := s.cloud.CopyImage(in.Source, want, in.CopyTags, in.Token, fingerprint(c))
	if err != nil {
		return nil, err
	}
	return struct {
		ID string `xml:"imageId"`
	}{id}, nil
}

type imageInput struct {
	dry
	ID string `q:"ImageId,required"`
}

type deprecateInput struct {
	imageInput
	At time.Time `q:"DeprecateAt,required"`
}

func (in *deprecateInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("EnableImageDeprecation", []string{in.ID})
}

func (s *ec2Service) enableImageDeprecation(_ *call, in *deprecateInput) (any, *cloud.Error) {
	return done(in.DryRun, s.cloud.Deprecate(in.ID, in.At, in.DryRun))
}

type undeprecateInput struct{ imageInput }

func (in *undeprecateInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("DisableImageDeprecation", []string{in.ID})
}

func (s *ec2Service) disableImageDeprecation(_ *call, in *undeprecateInput) (any, *cloud.Error) {
	return done(in.DryRun, s.cloud.Deprecate(in.ID, time.Time{}, in.DryRun))
}

type deregisterInput struct {
	imageInput
	Snapshots bool `q:"DeleteAssociatedSnapshots"`
}

func (in *deregisterInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("DeregisterImage", []string{in.ID})
}

func (s *ec2Service) deregisterImage(_ *call, in *deregisterInput) (any, *cloud.Error) {
	return done(in.DryRun, s.cloud.Deregister(in.ID, in.DryRun))
}
