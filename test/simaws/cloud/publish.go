package cloud

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

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

// Families of images, by how they boot.
const (
	AL2          = "al2"
	AL2023       = "al2023"
	Bottlerocket = "bottlerocket"
	Windows      = "windows"
)

// minors are the Kubernetes versions there are images of, the cluster's first.
func (c *Cloud) minors() []string {
	out := []string{c.opts.KubernetesVersion}
	major, minor, ok := strings.Cut(c.opts.KubernetesVersion, ".")
	n, err := strconv.Atoi(minor)
	for k := 1; ok && err == nil && k <= c.opts.OlderVersions && n-k > 0; k++ {
		out = append(out, fmt.Sprintf("%s.%d", major, n-k))
	}
	return out
}

// minorOf is the number behind the dot.
func minorOf(version string) int {
	_, minor, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(minor)
	if err != nil {
		return 0
	}
	return n
}

// publishImages makes the images AWS publishes for the cluster's version and
// older ones, and the SSM parameters that name them.
func (c *Cloud) publishImages() {
	for _, k := range c.minors() {
		for i, at := range imageReleases() {
			last := i == len(imageReleases())-1
			c.publishAL2(k, at, last)
			c.publishAL2023(k, at, last)
			c.publishBottlerocket(k, at, i, last)
			c.publishWindows(k, at, last)
		}
	}
}

// Release publishes a new release of the images of a family (empty: all) and
// recommends it.
func (c *Cloud) Release(family string, at time.Time) {
	c.lock()
	defer c.mu.Unlock()
	c.releases++
	for _, k := range c.minors() {
		if family == "" || family == AL2 {
			c.publishAL2(k, at, true)
		}
		if family == "" || family == AL2023 {
			c.publishAL2023(k, at, true)
		}
		if family == "" || family == Bottlerocket {
			c.publishBottlerocket(k, at, len(imageReleases())-1+c.releases, true)
		}
		if family == "" || family == Windows {
			c.publishWindows(k, at, true)
		}
	}
}

// ReleaseAL2023 publishes a new release of the AL2023 images.
func (c *Cloud) ReleaseAL2023(at time.Time) { c.Release(AL2023, at) }

// publish adds an image under its parameter, and as the recommended one.
func (c *Cloud) publish(img Image, at time.Time, parameter, recommended string) {
	img.CreatedAt, img.DeprecatedAt, img.OwnerAlias, img.Parameter = at, at.AddDate(2, 0, 0), "amazon", cmp.Or(recommended, parameter)
	c.addImage(&img)
	for _, name := range []string{parameter, recommended} {
		if name != "" {
			c.setParameter(name, img.ID, at)
		}
	}
}

// lastAL2 is the last minor with AL2 images.
const lastAL2 = 32

func (c *Cloud) publishAL2(k string, at time.Time, last bool) {
	if minorOf(k) > lastAL2 {
		return
	}
	for _, v := range []struct{ suffix, name, arch string }{{"", "amazon-eks-node", "x86_64"}, {"-arm64", "amazon-eks-arm64-node", "arm64"}, {"-gpu", "amazon-eks-gpu-node", "x86_64"}} {
		name := fmt.Sprintf("%s-%s-v%s", v.name, k, at.Format("20060102"))
		base := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2%s/", k, v.suffix)
		c.publish(Image{
			Name: name, Architecture: v.arch, OwnerID: eksImageOwner, Description: "EKS Kubernetes Worker AMI with AmazonLinux2 image",
			RootDevice: "/dev/xvda", RootGiB: 20, Family: AL2, Kubernetes: k,
		}, at, base+name+"/image_id", when(last, base+"recommended/image_id"))
	}
}

func when(b bool, s string) string {
	if b {
		return s
	}
	return ""
}

func (c *Cloud) publishAL2023(k string, at time.Time, last bool) {
	for _, av := range []string{"x86_64/standard", "x86_64/nvidia", "x86_64/neuron", "arm64/standard", "arm64/nvidia"} {
		arch, variant, _ := strings.Cut(av, "/")
		name := fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-v%s", arch, variant, k, at.Format("20060102"))
		base := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/", k, av)
		c.publish(Image{
			Name: name, Architecture: arch, OwnerID: eksImageOwner, Description: "EKS-optimized Kubernetes node based on Amazon Linux 2023",
			RootDevice: "/dev/xvda", RootGiB: 20, Family: AL2023, Kubernetes: k,
		}, at, base+name+"/image_id", when(last, base+"recommended/image_id"))
	}
}

func (c *Cloud) publishBottlerocket(k string, at time.Time, release int, last bool) {
	version := fmt.Sprintf("1.%d.0", 60+release)
	for _, flavour := range []string{"", "-nvidia"} {
		for _, arch := range []string{"x86_64", "arm64"} {
			name := fmt.Sprintf("aws-k8s-%s%s", k, flavour)
			base := fmt.Sprintf("/aws/service/bottlerocket/%s/%s/", name, arch)
			c.publish(Image{
				Name: fmt.Sprintf("bottlerocket-%s-%s-v%s-%s", name, arch, version, digest(name, version)[:8]), Architecture: arch,
				Description: "Bottlerocket OS", OwnerID: bottlerocketImageOwner, RootDevice: "/dev/xvda", RootGiB: 4, DataGiB: 20,
				Family: Bottlerocket, Kubernetes: k,
			}, at, base+version+"/image_id", when(last, base+"latest/image_id"))
		}
	}
}

// firstWindows2025 is the first minor with images of Windows Server 2025.
const firstWindows2025 = 35

func (c *Cloud) publishWindows(k string, at time.Time, last bool) {
	for _, v := range []struct{ year, build string }{{"2019", "10.0.17763"}, {"2022", "10.0.20348"}, {"2025", "10.0.26100"}} {
		if v.year == "2025" && minorOf(k) < firstWindows2025 {
			continue
		}
		base := fmt.Sprintf("Windows_Server-%s-English-Core-EKS_Optimized-%s", v.year, k)
		c.publish(Image{
			Name: base + "-" + at.Format("2006.01.02"), Architecture: "x86_64", OwnerID: windowsImageOwner, Platform: "windows",
			Description: "Microsoft Windows Server " + v.year + " Core EKS-optimized", RootDevice: "/dev/sda1", RootGiB: 50, Family: Windows, Kubernetes: k, Build: v.build,
		}, at, "", when(last, "/aws/service/ami-windows-latest/"+base+"/image_id"))
	}
}
