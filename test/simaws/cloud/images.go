package cloud

import (
	"fmt"
	"slices"
	"strconv"
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
	DataGiB               int64 // of /dev/xvdb, where Bottlerocket has its data
	Source                string
	Parameter             string // of SSM that names the image for everyone
	Tags                  Tags

	// Family is how the image boots: al2, al2023, bottlerocket, windows, or
	// empty for one that never joins a cluster.
	Family string
	// Kubernetes is the minor version of the kubelet in the image; empty for
	// that of the cluster.
	Kubernetes string
	// Build of Windows, e.g. 10.0.20348.
	Build string
}

// Snapshot is the id of the snapshot of the image's root volume.
func (i *Image) Snapshot() string { return "snap-0" + digest("snapshot", i.ID)[:16] }

// PlatformDetails is the billing name of what runs in the image.
func (i *Image) PlatformDetails() string {
	if i.Platform == "windows" {
		return "Windows"
	}
	return "Linux/UNIX"
}

// ImageDevice is a device of an image.
type ImageDevice struct {
	Device  string
	SizeGiB int64
}

// Devices are the volumes an image starts with.
func (i *Image) Devices() []ImageDevice {
	out := []ImageDevice{{i.RootDevice, i.RootGiB}}
	if i.DataGiB > 0 {
		out = append(out, ImageDevice{"/dev/xvdb", i.DataGiB})
	}
	return out
}

// addImage adds an image, once: AWS's images have the same id in every account.
func (c *Cloud) addImage(img *Image) {
	orElse(&img.ID, "ami-0"+digest(c.opts.Region, img.Name)[:16])
	if c.image(img.ID) != nil {
		return
	}
	img.State = "available"
	img.Tags = cloneTags(img.Tags)
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
		return []string{strconv.FormatBool(i.OwnerAlias != "")}, true
	case "description":
		return []string{i.Description}, true
	case "creation-date":
		return []string{i.CreatedAt.Format("2006-01-02T15:04:05.000Z")}, true
	case "root-device-name":
		return []string{i.RootDevice}, true
	case "image-type":
		return []string{"machine"}, true
	case "hypervisor":
		return []string{"xen"}, true
	case "ena-support":
		return []string{"true"}, true
	case "source-image-id":
		return []string{i.Source}, true
	case "block-device-mapping.snapshot-id":
		return []string{i.Snapshot()}, true
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

// CopyImage is CopyImage within the region: an image of the account with
// another id and its own dates.
func (c *Cloud) CopyImage(source string, want Image, copyTags bool, token, params string) (string, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	return once(c, "CopyImage", token, params, func() (string, *Error) {
		if err := c.checkImageID(source); err != nil {
			return "", err
		}
		from := c.image(source)
		img := *from
		img.ID, img.Name, img.Description = c.id("ami"), want.Name, want.Description
		img.OwnerID, img.OwnerAlias, img.Source, img.Parameter = c.opts.AccountID, "", source, ""
		img.CreatedAt, img.DeprecatedAt = now, time.Time{}
		img.Tags = cloneTags(want.Tags)
		if copyTags {
			img.Tags = merged(from.Tags, want.Tags)
		}
		c.addImage(&img)
		return img.ID, nil
	})
}

// ownImage finds an image that the account may change.
func (c *Cloud) ownImage(id string) (*Image, *Error) {
	if err := c.checkImageID(id); err != nil {
		return nil, err
	}
	img := c.image(id)
	if img.OwnerID != c.opts.AccountID {
		return nil, fail("AuthFailure", "Not authorized for image:%s", id)
	}
	return img, nil
}

// Deprecate is EnableImageDeprecation, and with a zero time its opposite. A
// time that has passed deprecates at once.
func (c *Cloud) Deprecate(id string, at time.Time, dryRun bool) *Error {
	c.lock()
	defer c.mu.Unlock()
	img, err := c.ownImage(id)
	if err == nil && !dryRun {
		img.DeprecatedAt = at
	}
	return err
}

// Deregister is DeregisterImage. Instances go on, and boot.
func (c *Cloud) Deregister(id string, dryRun bool) *Error {
	c.lock()
	defer c.mu.Unlock()
	img, err := c.ownImage(id)
	if err == nil && !dryRun {
		c.images = slices.DeleteFunc(c.images, func(i *Image) bool { return i == img })
		c.oldImages = append(c.oldImages, img)
	}
	return err
}
