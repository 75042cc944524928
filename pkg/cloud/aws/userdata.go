package aws

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
)

// bootInput is everything that user data is made of. Equal inputs give equal bytes.
type bootInput struct {
	family      ec2types.Family
	clusterName string
	endpoint    string
	ca          string // base64
	cidr        string
	dns         []string
	maxPods     int64
	labels      map[string]string
	taints      []corev1.Taint
	kubelet     *awsv1.KubeletConfiguration
	raid0       bool
	user        string
}

// maxUserData is what EC2 takes of user data, in bytes before base64.
const maxUserData = 16384

// userData renders the user data of the family, base64.
func userData(in bootInput) (string, error) {
	var text string
	var err error
	switch in.family {
	case ec2types.AL2023:
		text, err = al2023(in)
	case ec2types.Custom:
		text = in.user
	default:
		err = fmt.Errorf("image family %s is not supported yet: use AL2023, or Custom with user data that joins the cluster", in.family)
	}
	if err != nil {
		return "", fmt.Errorf("rendering user data: %w", err)
	}
	return base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(text, "\r\n", "\n"))), nil
}

// al2023 appends a NodeConfig to the user's parts: nodeadm merges them in order, so ours wins field by field.
func al2023(in bootInput) (string, error) {
	if in.cidr == "" {
		return "", &cloud.ClassNotReady{Detail: "the service address range of the cluster is not known yet"}
	}
	if _, err := base64.StdEncoding.DecodeString(in.ca); err != nil {
		return "", fmt.Errorf("the cluster's certificate authority is not base64: %w", err)
	}
	parts, err := userParts(in.user)
	if err != nil {
		return "", err
	}
	ours, err := nodeConfig(in)
	if err != nil {
		return "", err
	}
	return writeParts(append(parts, mimePart{header: [][2]string{{"Content-Type", nodeConfigType}}, body: ours}))
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
	setNumber(out, "podsPerCore", k.PodsPerCore)
	setNumber(out, "evictionMaxPodGracePeriod", k.EvictionMaxPodGracePeriod)
	setNumber(out, "imageGCHighThresholdPercent", k.ImageGCHighThresholdPercent)
	setNumber(out, "imageGCLowThresholdPercent", k.ImageGCLowThresholdPercent)
	setNumber(out, "cpuCFSQuota", k.CPUCFSQuota)
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

func setNumber[T any](out map[string]any, name string, p *T) {
	if p != nil {
		out[name] = *p
	}
}

// withoutEmpty leaves out empty thresholds, which mean nothing but which the kubelet refuses.
func withoutEmpty(in map[string]string) map[string]string {
	out := maps.Clone(in)
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	return out
}

// goDurations writes durations as Go does ("1m0s").
func goDurations(in map[string]string) map[string]string {
	out := maps.Clone(in)
	for k, text := range out {
		if d, err := time.ParseDuration(text); err == nil {
			out[k] = d.String()
		}
	}
	return out
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

// joinMap writes a map as "k=v,k=v" by ascending key.
func joinMap(m map[string]string, separator string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+separator+m[k])
	}
	return strings.Join(out, ",")
}

// bootTaints are the claim's taints, then its startup taints, then the taint that keeps pods off until registration.
func bootTaints(taints, startup []corev1.Taint) []corev1.Taint {
	out := slices.Concat(taints, startup)
	mark := karpv1.UnregisteredTaint()
	if !slices.ContainsFunc(out, func(t corev1.Taint) bool { return t.Key == mark.Key && t.Effect == mark.Effect }) {
		out = append(out, mark)
	}
	return out
}

// bootLabels are the labels the kubelet registers with: those of the claim that a kubelet may set.
func bootLabels(claim map[string]string, capacityType string, family ec2types.Family) map[string]string {
	out := map[string]string{}
	for k, v := range claim {
		if !protectedKey(k) {
			out[k] = v
		}
	}
	out[karpv1.CapacityTypeLabel] = capacityType
	if family != ec2types.Custom {
		out[karpv1.DoNotSyncTaintsLabel] = "true"
	}
	return out
}

// protectedKey reports whether the API server refuses the label from a kubelet, or may do so.
func protectedKey(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io"}, func(d string) bool {
		return domain == d || strings.HasSuffix(domain, "."+d)
	})
}
