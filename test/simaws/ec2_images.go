package simaws

import "github.com/karp-sh/karp/test/simaws/cloud"

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
		ID     string `xml:"volumeId,omitempty"`
		Status string `xml:"status,omitempty"`
		Size   int64  `xml:"volumeSize,omitempty"`
		Type   string `xml:"volumeType,omitempty"`
		Delete bool   `xml:"deleteOnTermination"`
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
		x := imageXML{
			ID: i.ID, Name: i.Name, Description: i.Description, Location: i.OwnerID + "/" + i.Name, State: i.State,
			Owner: i.OwnerID, OwnerAlias: i.OwnerAlias, Public: i.OwnerAlias != "", Architecture: i.Architecture, Type: "machine",
			Platform: i.Platform, RootType: "ebs", RootName: i.RootDevice, Virt: "hvm", Hypervisor: "xen", ENA: true,
			Created: timestamp(i.CreatedAt), Tags: xmlTags(i.Tags),
		}
		if !i.DeprecatedAt.IsZero() {
			x.Deprecated = timestamp(i.DeprecatedAt)
		}
		d := deviceXML{Name: i.RootDevice}
		d.EBS.Size, d.EBS.Type, d.EBS.Delete = i.RootGiB, "gp3", true
		x.Devices = []deviceXML{d}
		out.Images = append(out.Images, x)
	}
	return out, nil
}
