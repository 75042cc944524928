package cloud

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Image is a machine image.
type Image struct {
	ID, Name, Description string
	Architecture          string // x86_64, arm64
	OwnerID, OwnerAlias   string
	CreatedAt             time.Time
	DeprecatedAt          time.Time // zero: never
	State                 string
	Platform              string // "windows" or empty
	RootDevice            string
	RootGiB               int64
	Tags                  Tags

	// Family is how the image boots: al2023, bottlerocket, windows, or empty
	// for one that never joins a cluster.
	Family string
}

// Accounts that own AWS's images.
const (
	eksImageOwner          = "602401143452"
	bottlerocketImageOwner = "092701018921"
	windowsImageOwner      = "801119661308"
)

// imageReleases are the releases of the EKS images, oldest first; the last is
// the recommended one.
func imageReleases() []time.Time {
	return []time.Time{
		time.Date(2026, 10, 20, 18, 0, 0, 0, time.UTC),
		time.Date(2026, 11, 19, 18, 0, 0, 0, time.UTC),
	}
}

// publishImages makes the images AWS publishes for the cluster's version and
// the SSM parameters that name them.
func (c *Cloud) publishImages() {
	for i, at := range imageReleases() {
		last := i == len(imageReleases())-1
		c.publishAL2023(at, last)
		c.publishBottlerocket(at, i, last)
		c.publishWindows(at, last)
	}
}

func (c *Cloud) publishAL2023(at time.Time, last bool) {
	k := c.opts.KubernetesVersion
	variants := []string{"x86_64/standard", "x86_64/nvidia", "x86_64/neuron", "arm64/standard", "arm64/nvidia"}
	for _, av := range variants {
		arch, variant, _ := strings.Cut(av, "/")
		long := fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-v%s", arch, variant, k, at.Format("20060102"))
		img := &Image{
			Name: long, Architecture: arch, OwnerID: eksImageOwner, OwnerAlias: "amazon", CreatedAt: at,
			Description: "EKS-optimized Kubernetes node based on Amazon Linux 2023", RootDevice: "/dev/xvda", RootGiB: 20, Family: "al2023",
		}
		c.addImage(img)
		base := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/", k, av)
		c.params[base+long+"/image_id"] = img.ID
		if last {
			c.params[base+"recommended/image_id"] = img.ID
		}
	}
}

func (c *Cloud) publishBottlerocket(at time.Time, release int, last bool) {
	version := fmt.Sprintf("1.%d.0", 60+release)
	for _, flavour := range []string{"", "-nvidia"} {
		for _, arch := range []string{"x86_64", "arm64"} {
			name := fmt.Sprintf("aws-k8s-%s%s", c.opts.KubernetesVersion, flavour)
			img := &Image{
				Name: fmt.Sprintf("bottlerocket-%s-%s-v%s-%s", name, arch, version, digest(name, version)[:8]), Architecture: arch,
				OwnerID: bottlerocketImageOwner, OwnerAlias: "amazon", CreatedAt: at, RootDevice: "/dev/xvda", RootGiB: 4, Family: "bottlerocket",
			}
			c.addImage(img)
			base := fmt.Sprintf("/aws/service/bottlerocket/%s/%s/", name, arch)
			c.params[base+version+"/image_id"] = img.ID
			if last {
				c.params[base+"latest/image_id"] = img.ID
			}
		}
	}
}

func (c *Cloud) publishWindows(at time.Time, last bool) {
	for _, year := range []string{"2019", "2022", "2025"} {
		base := fmt.Sprintf("Windows_Server-%s-English-Core-EKS_Optimized-%s", year, c.opts.KubernetesVersion)
		img := &Image{
			Name: base + "-" + at.Format("2006.01.02"), Architecture: "x86_64", OwnerID: windowsImageOwner, OwnerAlias: "amazon",
			CreatedAt: at, Platform: "windows", RootDevice: "/dev/sda1", RootGiB: 50, Family: "windows",
		}
		c.addImage(img)
		if last {
			c.params["/aws/service/ami-windows-latest/"+base+"/image_id"] = img.ID
		}
	}
}

// addImage adds an image, once: AWS's images have the same id in every account.
func (c *Cloud) addImage(img *Image) {
	orElse(&img.ID, "ami-0"+digest(c.opts.Region, img.Name)[:16])
	if c.image(img.ID) != nil {
		return
	}
	img.State = "available"
	if img.Tags == nil {
		img.Tags = Tags{}
	}
	c.images = append(c.images, img)
}

// AddImage adds an image of the account itself and returns its id. A zero
// CreatedAt means now; an empty OwnerID means the account.
func (c *Cloud) AddImage(img Image) string {
	now := c.lock()
	defer c.mu.Unlock()
	img.ID = c.id("ami")
	orElse(&img.OwnerID, c.opts.AccountID)
	orElse(&img.Architecture, "x86_64")
	orElse(&img.RootDevice, "/dev/xvda")
	orElse(&img.RootGiB, 20)
	if img.CreatedAt.IsZero() {
		img.CreatedAt = now
	}
	c.addImage(&img)
	return img.ID
}

// DeprecateImage sets when an image is deprecated.
func (c *Cloud) DeprecateImage(id string, at time.Time) error {
	c.lock()
	defer c.mu.Unlock()
	img := c.image(id)
	if img == nil {
		return fmt.Errorf("no image %q", id)
	}
	img.DeprecatedAt = at
	return nil
}

// ReleaseAL2023 publishes a new release of the AL2023 images and recommends it.
func (c *Cloud) ReleaseAL2023(at time.Time) {
	c.lock()
	defer c.mu.Unlock()
	c.publishAL2023(at, true)
}

func (c *Cloud) image(id string) *Image {
	for _, i := range c.images {
		if i.ID == id {
			return i
		}
	}
	return nil
}

func (i *Image) property(name string) ([]string, bool) {
	switch name {
	case "image-id":
		return []string{i.ID}, true
	case "name":
		return []string{i.Name}, true
	case "state":
		return []string{i.State}, true
	case "architecture":
		return []string{i.Architecture}, true
	case "owner-id":
		return []string{i.OwnerID}, true
	case "owner-alias":
		return []string{i.OwnerAlias}, true
	case "platform":
		return []string{i.Platform}, true
	case "root-device-type":
		return []string{"ebs"}, true
	case "virtualization-type":
		return []string{"hvm"}, true
	case "is-public":
		return []string{"true"}, true
	}
	return nil, false
}

// ImageQuery are the parameters of DescribeImages.
type ImageQuery struct {
	IDs, Owners       []string
	Filters           []Filter
	IncludeDeprecated bool
}

// Images is DescribeImages.
func (c *Cloud) Images(q ImageQuery) ([]Image, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	for _, id := range q.IDs {
		if err := c.checkImageID(id); err != nil {
			return nil, err
		}
	}
	if err := check(q.Filters, new(Image).property); err != nil {
		return nil, err
	}
	var out []Image
	for _, img := range c.images {
		ok, err := pass(q.Filters, img.Tags, img.property)
		if err != nil {
			return nil, err
		}
		if !ok || q.IDs != nil && !slices.Contains(q.IDs, img.ID) || q.Owners != nil && !c.owned(img, q.Owners) {
			continue
		}
		deprecated := !img.DeprecatedAt.IsZero() && !img.DeprecatedAt.After(now)
		// A named image, or one's own, is shown in any case.
		if deprecated && !q.IncludeDeprecated && img.OwnerID != c.opts.AccountID && q.IDs == nil {
			continue
		}
		copied := *img
		copied.Tags = cloneTags(img.Tags)
		out = append(out, copied)
	}
	return out, nil
}

func (c *Cloud) checkImageID(id string) *Error {
	if !strings.HasPrefix(id, "ami-") {
		return fail("InvalidAMIID.Malformed", "Invalid id: %q", id)
	}
	if c.image(id) == nil {
		return fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	return nil
}

func (c *Cloud) owned(img *Image, owners []string) bool {
	return slices.ContainsFunc(owners, func(o string) bool {
		return o == img.OwnerID || o == img.OwnerAlias && o != "" || o == "self" && img.OwnerID == c.opts.AccountID
	})
}

// Parameter is SSM's GetParameter.
func (c *Cloud) Parameter(name string) (string, *Error) {
	c.lock()
	defer c.mu.Unlock()
	v, ok := c.params[name]
	if !ok {
		return "", fail("ParameterNotFound", "Parameter %s not found.", name)
	}
	return v, nil
}

// SetParameter sets an SSM parameter; an empty value removes it.
func (c *Cloud) SetParameter(name, value string) {
	c.lock()
	defer c.mu.Unlock()
	if value == "" {
		delete(c.params, name)
		return
	}
	c.params[name] = value
}
