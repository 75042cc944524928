package aws

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/karp-sh/karp/pkg/catalog/ec2types"
)

// aliasParameter is a public parameter that names an image, and what the image is for.
type aliasParameter struct {
	name string
	arch string
	// uses has one set of requirements for each entry in the status; nil has the architecture only.
	uses [][]corev1.NodeSelectorRequirement
}

// unsupportedAlias tells that an alias cannot be resolved now or ever.
type unsupportedAlias struct{ text string }

func (e *unsupportedAlias) Error() string { return e.text }

// splitAlias separates family and version, and checks both against the version of Kubernetes.
func splitAlias(alias, kube string) (ec2types.Family, string, error) {
	family, ok := ec2types.FamilyOfAlias(alias)
	_, version, found := strings.Cut(alias, "@")
	if !ok || !found || strings.Contains(version, "@") {
		return "", "", &unsupportedAlias{fmt.Sprintf("alias %q is not family@version", alias)}
	}
	minor := kubeMinor(kube)
	switch {
	case family == ec2types.AL2 && minor >= 33:
		return "", "", &unsupportedAlias{fmt.Sprintf("there are no AL2 images for Kubernetes %s: use al2023 or bottlerocket", kube)}
	case family == ec2types.Windows2025 && minor < 35:
		return "", "", &unsupportedAlias{fmt.Sprintf("there are no Windows2025 images for Kubernetes %s: 1.35 is the first", kube)}
	}
	return family, version, nil
}

func kubeMinor(version string) int {
	_, minor, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(strings.TrimRight(minor, "+"))
	if err != nil {
		return 0
	}
	return n
}

// mutableAlias reports whether the parameter of an alias may change its value.
func mutableAlias(family ec2types.Family, version string) bool {
	return version == "latest" || family.Windows()
}

const (
	keyGPUs         = ec2types.LabelGPUCount
	keyAccelerators = ec2types.LabelAcceleratorCount
)

// variant is what the instances of an image have: nothing special, NVIDIA GPUs or Neuron devices.
func variant(kind string) []corev1.NodeSelectorRequirement {
	require := func(key string, op corev1.NodeSelectorOperator) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: op}
	}
	switch kind {
	case "nvidia":
		return []corev1.NodeSelectorRequirement{require(keyGPUs, corev1.NodeSelectorOpExists)}
	case "neuron":
		return []corev1.NodeSelectorRequirement{require(keyAccelerators, corev1.NodeSelectorOpExists)}
	}
	return []corev1.NodeSelectorRequirement{require(keyAccelerators, corev1.NodeSelectorOpDoesNotExist), require(keyGPUs, corev1.NodeSelectorOpDoesNotExist)}
}

func variants(kinds ...string) [][]corev1.NodeSelectorRequirement {
	var out [][]corev1.NodeSelectorRequirement
	for _, k := range kinds {
		out = append(out, variant(k))
	}
	return out
}

// aliasParameters lists the parameters of an alias for a version of Kubernetes (AWS documentation of the optimized images).
func aliasParameters(family ec2types.Family, version, kube string) []aliasParameter {
	switch family {
	case ec2types.AL2:
		return al2Parameters(version, kube)
	case ec2types.AL2023:
		return al2023Parameters(version, kube)
	case ec2types.Bottlerocket:
		return bottlerocketParameters(version, kube)
	default:
		return windowsParameters(family, kube)
	}
}

func al2Parameters(version, kube string) []aliasParameter {
	var out []aliasParameter
	for _, r := range []struct {
		suffix, node, arch string
		kinds              []string
	}{{"", "", "amd64", []string{"standard"}}, {"-arm64", "arm64-", "arm64", []string{"standard"}}, {"-gpu", "gpu-", "amd64", []string{"neuron", "nvidia"}}} {
		leaf := "recommended"
		if version != "latest" {
			leaf = fmt.Sprintf("amazon-eks-%snode-%s-%s", r.node, kube, version)
		}
		out = append(out, aliasParameter{
			fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2%s/%s/image_id", kube, r.suffix, leaf), r.arch, variants(r.kinds...),
		})
	}
	return out
}

func al2023Parameters(version, kube string) []aliasParameter {
	var out []aliasParameter
	for _, r := range [][3]string{
		{"x86_64", "amd64", "standard"}, {"x86_64", "amd64", "nvidia"}, {"x86_64", "amd64", "neuron"}, {"arm64", "arm64", "standard"}, {"arm64", "arm64", "nvidia"},
	} {
		leaf := "recommended"
		if version != "latest" {
			leaf = fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", r[0], r[2], kube, version)
		}
		out = append(out, aliasParameter{
			fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/%s/image_id", kube, r[0], r[2], leaf), r[1], variants(r[2]),
		})
	}
	return out
}

func bottlerocketParameters(version, kube string) []aliasParameter {
	version = strings.TrimLeft(version, "v")
	var out []aliasParameter
	for _, r := range []struct {
		flavour, cpu, arch string
		kinds              []string
	}{
		{"", "x86_64", "amd64", []string{"standard", "neuron"}}, {"", "arm64", "arm64", []string{"standard"}},
		{"-nvidia", "x86_64", "amd64", []string{"nvidia"}}, {"-nvidia", "arm64", "arm64", []string{"nvidia"}},
	} {
		out = append(out, aliasParameter{
			fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/%s/image_id", kube, r.flavour, r.cpu, version), r.arch, variants(r.kinds...),
		})
	}
	return out
}

func windowsParameters(family ec2types.Family, kube string) []aliasParameter {
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	year := strings.TrimPrefix(string(family), "Windows")
	return []aliasParameter{{
		fmt.Sprintf("/aws/service/ami-windows-latest/Windows_Server-%s-English-Core-EKS_Optimized-%s/image_id", year, kube), "amd64",
		[][]corev1.NodeSelectorRequirement{{in(ec2types.LabelOS, "windows"), in(ec2types.LabelWindowsBuild, family.WindowsBuild())}},
	}}
}
