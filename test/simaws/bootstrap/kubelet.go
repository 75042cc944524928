package bootstrap

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// KubeletConfig are the fields of a KubeletConfiguration that shape the Node.
type KubeletConfig struct {
	MaxPods                   *int32            `json:"maxPods,omitempty"`
	PodsPerCore               *int32            `json:"podsPerCore,omitempty"`
	ClusterDNS                []string          `json:"clusterDNS,omitempty"`
	RegisterWithTaints        []corev1.Taint    `json:"registerWithTaints,omitempty"`
	KubeReserved              map[string]string `json:"kubeReserved,omitempty"`
	SystemReserved            map[string]string `json:"systemReserved,omitempty"`
	EvictionHard              map[string]string `json:"evictionHard,omitempty"`
	EvictionSoft              map[string]string `json:"evictionSoft,omitempty"`
	EvictionSoftGracePeriod   map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	EvictionMaxPodGracePeriod *int32            `json:"evictionMaxPodGracePeriod,omitempty"`
	ImageGCHigh               *int32            `json:"imageGCHighThresholdPercent,omitempty"`
	ImageGCLow                *int32            `json:"imageGCLowThresholdPercent,omitempty"`
	CPUCFSQuota               *bool             `json:"cpuCFSQuota,omitempty"`
}

// readKubeletConfig decodes the configuration as the kubelet does: fields it
// does not know are let pass, wrong types and invalid values are not.
func readKubeletConfig(raw map[string]any) (KubeletConfig, error) {
	var k KubeletConfig
	text, err := json.Marshal(raw)
	if err != nil {
		return k, fmt.Errorf("reading kubelet configuration: %w", err)
	}
	if err := json.Unmarshal(text, &k); err != nil {
		return k, fmt.Errorf("reading kubelet configuration: %w", err)
	}
	return k, k.check()
}

func (k *KubeletConfig) check() error {
	for name, reserved := range map[string]map[string]string{"kubeReserved": k.KubeReserved, "systemReserved": k.SystemReserved} {
		for key, v := range reserved {
			if q, err := resource.ParseQuantity(v); err != nil || q.Sign() < 0 {
				return fmt.Errorf("invalid kubelet configuration: %s[%s]=%q is not a quantity", name, key, v)
			}
		}
	}
	for signal, v := range k.EvictionSoft {
		if _, err := time.ParseDuration(k.EvictionSoftGracePeriod[signal]); err != nil {
			return fmt.Errorf("invalid kubelet configuration: evictionSoft[%s]=%s needs a grace period", signal, v)
		}
	}
	for _, thresholds := range []map[string]string{k.EvictionHard, k.EvictionSoft} {
		for signal, v := range thresholds {
			if err := checkThreshold(signal, v); err != nil {
				return err
			}
		}
	}
	if k.MaxPods != nil && *k.MaxPods < 0 || k.PodsPerCore != nil && *k.PodsPerCore < 0 {
		return fmt.Errorf("invalid kubelet configuration: maxPods and podsPerCore must not be negative")
	}
	if k.ImageGCHigh != nil && k.ImageGCLow != nil && *k.ImageGCHigh <= *k.ImageGCLow {
		return fmt.Errorf("invalid kubelet configuration: imageGCHighThresholdPercent must be above imageGCLowThresholdPercent")
	}
	return checkTaints(k.RegisterWithTaints)
}

func checkThreshold(signal, v string) error {
	known := []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "containerfs.available", "containerfs.inodesFree", "pid.available"}
	if !slices.Contains(known, signal) {
		return fmt.Errorf("invalid kubelet configuration: unknown eviction signal %q", signal)
	}
	if p, ok := strings.CutSuffix(v, "%"); ok {
		if f, err := strconv.ParseFloat(p, 64); err != nil || f < 0 || f > 100 {
			return fmt.Errorf("invalid kubelet configuration: eviction threshold %s=%q", signal, v)
		}
		return nil
	}
	if q, err := resource.ParseQuantity(v); err != nil || q.Sign() < 0 {
		return fmt.Errorf("invalid kubelet configuration: eviction threshold %s=%q", signal, v)
	}
	return nil
}

func checkTaints(taints []corev1.Taint) error {
	for _, t := range taints {
		if errs := validation.IsQualifiedName(t.Key); len(errs) > 0 {
			return fmt.Errorf("invalid taint key %q: %s", t.Key, strings.Join(errs, "; "))
		}
		if errs := validation.IsValidLabelValue(t.Value); len(errs) > 0 {
			return fmt.Errorf("invalid taint value %q: %s", t.Value, strings.Join(errs, "; "))
		}
		if !slices.Contains([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, t.Effect) {
			return fmt.Errorf("invalid taint effect %q of %s", t.Effect, t.Key)
		}
	}
	return nil
}

// harmlessFlags are kubelet flags that do not change the Node object here.
func harmlessFlags() []string {
	return []string{
		"v", "vmodule", "node-ip", "cloud-provider", "hostname-override", "feature-gates", "kube-reserved-cgroup", "system-reserved-cgroup",
		"image-credential-provider-config", "image-credential-provider-bin-dir", "config-dir", "logging-format", "seccomp-default",
		"container-log-max-size", "container-log-max-files", "cgroup-driver", "allowed-unsafe-sysctls", "cpu-manager-policy",
		"topology-manager-policy", "memory-manager-policy", "event-qps", "event-burst", "kube-api-qps", "kube-api-burst", "runtime-request-timeout",
	}
}

// applyFlags applies kubelet flags, which override the configuration.
func (c *Config) applyFlags(flags []string) error {
	for _, f := range flags {
		name, value, ok := strings.Cut(strings.TrimSpace(f), "=")
		bare, isFlag := strings.CutPrefix(name, "--")
		if !isFlag {
			return fmt.Errorf("unknown command %q", f)
		}
		value = strings.Trim(value, `"'`)
		set, known := c.flag(bare)
		switch {
		case known && !ok:
			return fmt.Errorf("flag needs an argument: --%s", bare)
		case known:
			if err := set(value); err != nil {
				return fmt.Errorf("invalid argument %q for %q flag: %w", value, name, err)
			}
		case !slices.Contains(harmlessFlags(), bare):
			return fmt.Errorf("unknown flag: --%s", bare)
		}
	}
	return nil
}

// flag is what a flag sets, false for one that sets nothing here.
func (c *Config) flag(name string) (func(string) error, bool) {
	k := &c.Kubelet
	number := func(to **int32) func(string) error {
		return func(v string) (err error) { *to, err = parseInt32(v); return err }
	}
	pairs := func(to *map[string]string, separator string) func(string) error {
		return func(v string) (err error) { *to, err = parsePairs(v, separator); return err }
	}
	set := map[string]func(string) error{
		"node-labels":                   c.addLabels,
		"register-with-taints":          func(v string) (err error) { c.Taints, err = parseTaints(v); return err },
		"max-pods":                      number(&k.MaxPods),
		"pods-per-core":                 number(&k.PodsPerCore),
		"eviction-max-pod-grace-period": number(&k.EvictionMaxPodGracePeriod),
		"image-gc-high-threshold":       number(&k.ImageGCHigh),
		"image-gc-low-threshold":        number(&k.ImageGCLow),
		"kube-reserved":                 pairs(&k.KubeReserved, "="),
		"system-reserved":               pairs(&k.SystemReserved, "="),
		"eviction-hard":                 pairs(&k.EvictionHard, "<"),
		"eviction-soft":                 pairs(&k.EvictionSoft, "<"),
		"eviction-soft-grace-period":    pairs(&k.EvictionSoftGracePeriod, "="),
		"cluster-dns":                   func(v string) error { k.ClusterDNS = strings.Split(v, ","); return nil },
		"cpu-cfs-quota":                 func(v string) error { on, err := strconv.ParseBool(v); k.CPUCFSQuota = &on; return err },
	}[name]
	return set, set != nil
}

// parsePairs reads key<separator>value, separated by commas.
func parsePairs(s, separator string) (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(s, ",") {
		if pair == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, separator)
		if !ok {
			return nil, fmt.Errorf("malformed pair, expect key%svalue: %q", separator, pair)
		}
		out[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	return out, nil
}

func parseInt32(s string) (*int32, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	v := int32(n)
	return &v, err
}

// addLabels reads k=v,k=v and refuses what the kubelet refuses: labels of the
// kubernetes.io and k8s.io domains beyond those a node may set on itself.
func (c *Config) addLabels(s string) error {
	for pair := range strings.SplitSeq(s, ",") {
		if pair == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("malformed pair, expect string=string: %q", pair)
		}
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if errs := validation.IsQualifiedName(k); len(errs) > 0 {
			return fmt.Errorf("invalid label key %q: %s", k, strings.Join(errs, "; "))
		}
		if errs := validation.IsValidLabelValue(v); len(errs) > 0 {
			return fmt.Errorf("invalid label value %q of %s: %s", v, k, strings.Join(errs, "; "))
		}
		if !mayLabelItself(k) {
			return fmt.Errorf("unknown 'kubernetes.io' or 'k8s.io' label %q specified with --node-labels", k)
		}
		c.Labels[k] = v
	}
	return nil
}

// mayLabelItself tells whether a kubelet accepts a label for its own node.
func mayLabelItself(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok || !inDomain(domain, "kubernetes.io") && !inDomain(domain, "k8s.io") {
		return true
	}
	if inDomain(domain, "kubelet.kubernetes.io") || inDomain(domain, "node.kubernetes.io") {
		return true
	}
	return slices.Contains([]string{
		corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
		corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable,
		corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	}, key)
}

func inDomain(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// parseTaints reads key=value:Effect and key:Effect, separated by commas.
func parseTaints(s string) ([]corev1.Taint, error) {
	var out []corev1.Taint
	for one := range strings.SplitSeq(s, ",") {
		if one == "" {
			continue
		}
		kv, effect, ok := strings.Cut(one, ":")
		if !ok {
			return nil, fmt.Errorf("invalid taint spec %q", one)
		}
		k, v, _ := strings.Cut(kv, "=")
		out = append(out, corev1.Taint{Key: k, Value: v, Effect: corev1.TaintEffect(effect)})
	}
	return out, checkTaints(out)
}
