package aws

import (
	"encoding/base64"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/karp-sh/karp/pkg/cloud"
)

// al2023 appends a NodeConfig to the user's parts: nodeadm merges them in order, so ours wins field by field (AWS rules 5.4).
func al2023(in bootInput) (string, error) {
	if in.cidr == "" {
		return "", &cloud.ClassNotReady{Detail: "the service address range of the cluster is not known yet"}
	}
	if _, err := base64.StdEncoding.DecodeString(in.ca); err != nil {
		return "", fmt.Errorf("the cluster's certificate authority is not base64: %w", err)
	}
	parts, err := userParts(in.user, scriptOrNodeConfig)
	if err != nil {
		return "", err
	}
	for i := range parts {
		// The other headers (a file name) mean nothing to nodeadm; without the encoding the body could not be read.
		parts[i].header = slices.DeleteFunc(parts[i].header, func(h [2]string) bool {
			return h[0] != contentType && h[0] != "Content-Transfer-Encoding"
		})
	}
	ours, err := nodeConfig(in)
	if err != nil {
		return "", err
	}
	return writeParts(append(parts, mimePart{header: [][2]string{{contentType, nodeConfigType}}, body: ours}))
}

func nodeConfig(in bootInput) (string, error) {
	cluster := map[string]any{"name": in.clusterName, "apiServerEndpoint": in.endpoint, "cidr": in.cidr}
	if in.ca != "" {
		cluster["certificateAuthority"] = in.ca
	}
	kubelet := map[string]any{"config": kubeletConfig(in)}
	if len(in.labels) > 0 {
		kubelet["flags"] = []string{`--node-labels="` + joinMap(in.labels, "=") + `"`}
	}
	spec := map[string]any{"cluster": cluster, "kubelet": kubelet}
	if in.raid0 {
		spec["instance"] = map[string]any{"localStorage": map[string]any{"strategy": "RAID0"}}
	}
	out, err := yaml.Marshal(map[string]any{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})
	if err != nil {
		return "", fmt.Errorf("writing the NodeConfig: %w", err)
	}
	return string(out), nil
}

// kubeletConfig holds every field that the class sets, under its name in the API of the kubelet.
func kubeletConfig(in bootInput) map[string]any {
	out := map[string]any{"maxPods": in.maxPods}
	if len(in.dns) > 0 {
		out["clusterDNS"] = in.dns
	}
	if len(in.taints) > 0 {
		out["registerWithTaints"] = taintObjects(in.taints)
	}
	k := in.kubelet
	if k == nil {
		return out
	}
	setValue(out, "podsPerCore", k.PodsPerCore)
	setValue(out, "evictionMaxPodGracePeriod", k.EvictionMaxPodGracePeriod)
	setValue(out, "imageGCHighThresholdPercent", k.ImageGCHighThresholdPercent)
	setValue(out, "imageGCLowThresholdPercent", k.ImageGCLowThresholdPercent)
	setValue(out, "cpuCFSQuota", k.CPUCFSQuota)
	for name, m := range map[string]map[string]string{
		"systemReserved": k.SystemReserved, "kubeReserved": k.KubeReserved, "evictionHard": withoutEmpty(k.EvictionHard),
		"evictionSoft": withoutEmpty(k.EvictionSoft), "evictionSoftGracePeriod": goDurations(k.EvictionSoftGracePeriod),
	} {
		if len(m) > 0 {
			out[name] = m
		}
	}
	return out
}

func setValue[T any](out map[string]any, name string, p *T) {
	if p != nil {
		out[name] = *p
	}
}

func taintObjects(taints []corev1.Taint) []map[string]string {
	var out []map[string]string
	for _, t := range taints {
		o := map[string]string{"key": t.Key, "effect": string(t.Effect)}
		if t.Value != "" {
			o["value"] = t.Value
		}
		out = append(out, o)
	}
	return out
}
