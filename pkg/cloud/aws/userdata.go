package aws

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
)

// bootInput is everything that user data is made of. Equal inputs give equal bytes.
type bootInput struct {
	family      ec2types.Family
	clusterName string
	endpoint    string
	ca          string // base64; empty if unknown
	cidr        string // AL2023 only
	dns         []string
	maxPods     int64
	labels      map[string]string
	taints      []corev1.Taint
	kubelet     *awsv1.KubeletConfiguration
	raid0       bool
	// bindDirs tells that Bottlerocket's instance-store command has to be told which directories to bind.
	bindDirs bool
	user     string
}

// bootOutput is rendered user data.
type bootOutput struct {
	text string
	// unknown are the keys of the user's text that the image is not known to have. They are kept.
	unknown []string
}

// maxUserData is what EC2 takes of user data, in bytes before base64.
const maxUserData = 16384

// encoded is the form in which EC2 takes user data.
func (o *bootOutput) encoded() string { return base64.StdEncoding.EncodeToString([]byte(o.text)) }

// userData renders the user data of the family. Except for Custom, whose text is passed on as it is, line ends are LF.
func userData(in bootInput) (bootOutput, error) {
	if in.family == ec2types.Custom {
		return bootOutput{text: in.user}, nil
	}
	in.user = strings.ReplaceAll(in.user, "\r", "")
	var out bootOutput
	var err error
	switch {
	case in.family == ec2types.AL2:
		out.text, err = al2(in)
	case in.family == ec2types.AL2023:
		out.text, err = al2023(in)
	case in.family == ec2types.Bottlerocket:
		out.text, out.unknown, err = bottlerocket(in)
	case in.family.Windows():
		out.text, err = windows(in)
	default:
		err = fmt.Errorf("image family %q is not known", in.family)
	}
	if err != nil {
		return bootOutput{}, fmt.Errorf("rendering user data: %w", err)
	}
	return out, nil
}

// kubeletArguments are the kubelet's flags as the bootstrap scripts of AL2 and Windows take them: one text, its order fixed (AWS rules 5.2).
func kubeletArguments(in bootInput) string {
	var out []string
	list := func(flag, separator string, values map[string]string) {
		if len(values) > 0 {
			out = append(out, flag+`="`+joinMap(values, separator)+`"`)
		}
	}
	list("--node-labels", "=", in.labels)
	if len(in.taints) > 0 {
		out = append(out, `--register-with-taints="`+strings.Join(taintTexts(in.taints), ",")+`"`)
	}
	out = append(out, "--max-pods="+strconv.FormatInt(in.maxPods, 10))
	k := in.kubelet
	if k == nil {
		return strings.Join(out, " ")
	}
	out = appendFlag(out, "--pods-per-core", k.PodsPerCore)
	list("--system-reserved", "=", k.SystemReserved)
	list("--kube-reserved", "=", k.KubeReserved)
	list("--eviction-hard", "<", withoutEmpty(k.EvictionHard))
	list("--eviction-soft", "<", withoutEmpty(k.EvictionSoft))
	list("--eviction-soft-grace-period", "=", goDurations(k.EvictionSoftGracePeriod))
	out = appendFlag(out, "--eviction-max-pod-grace-period", k.EvictionMaxPodGracePeriod)
	out = appendFlag(out, "--image-gc-high-threshold", k.ImageGCHighThresholdPercent)
	out = appendFlag(out, "--image-gc-low-threshold", k.ImageGCLowThresholdPercent)
	return strings.Join(appendFlag(out, "--cpu-cfs-quota", k.CPUCFSQuota), " ")
}

func appendFlag[T any](out []string, flag string, value *T) []string {
	if value == nil {
		return out
	}
	return append(out, fmt.Sprintf("%s=%v", flag, *value))
}

// taintTexts writes taints as the kubelet's flag takes them: key=value:Effect, or key:Effect.
func taintTexts(taints []corev1.Taint) []string {
	var out []string
	for _, t := range taints {
		key := t.Key
		if t.Value != "" {
			key += "=" + t.Value
		}
		out = append(out, key+":"+string(t.Effect))
	}
	return out
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
