package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
)

// bottlerocketKeys are the keys of settings.kubernetes; those with false
// change nothing here. Source: Bottlerocket's settings reference.
func bottlerocketKeys() map[string]bool {
	out := map[string]bool{}
	for _, k := range []string{
		"api-server", "cluster-certificate", "cluster-name", "cluster-dns-ip", "node-labels", "node-taints", "max-pods", "eviction-hard",
		"eviction-soft", "eviction-soft-grace-period", "eviction-max-pod-grace-period", "kube-reserved", "system-reserved",
		"image-gc-high-threshold-percent", "image-gc-low-threshold-percent", "cpu-cfs-quota-enforced",
	} {
		out[k] = true
	}
	for _, k := range []string{
		"authentication-mode", "bootstrap-token", "cloud-provider", "credential-providers", "static-pods", "allowed-unsafe-sysctls",
		"server-tls-bootstrap", "server-certificate", "server-key", "registry-qps", "registry-burst", "event-qps", "event-burst", "kube-api-qps",
		"kube-api-burst", "container-log-max-size", "container-log-max-files", "container-log-max-workers", "container-log-monitor-interval",
		"cpu-manager-policy", "cpu-manager-policy-options", "cpu-manager-reconcile-period", "memory-manager-policy", "memory-manager-reserved-memory",
		"topology-manager-scope", "topology-manager-policy", "topology-manager-policy-options", "ids-per-pod", "shutdown-grace-period",
		"shutdown-grace-period-for-critical-pods", "cluster-domain", "seccomp-default", "pod-pids-limit", "device-ownership-from-security-context",
		"single-process-oom-kill", "hostname-override", "hostname-override-source", "log-level", "node-ip", "pod-infra-container-image", "provider-id",
		"standalone-mode", "reserved-cpus", "nvidia",
	} {
		out[k] = false
	}
	return out
}

// decodeBottlerocket applies the settings of user data; other tables are not
// read. Settings of a wrong kind stop the boot.
func decodeBottlerocket(userData []byte) (*Config, error) {
	var doc map[string]any
	if err := toml.NewDecoder(bytes.NewReader(userData)).Decode(&doc); err != nil {
		return nil, fmt.Errorf("reading user data: not TOML: %w", err)
	}
	settings, ok := doc["settings"].(map[string]any)
	if !ok {
		return nil, errors.New("reading user data: no table settings in it")
	}
	kube, ok := settings["kubernetes"].(map[string]any)
	if !ok {
		return nil, errors.New("applying settings: no table settings.kubernetes: the kubelet is not configured")
	}
	known := bottlerocketKeys()
	for _, k := range slices.Sorted(maps.Keys(kube)) {
		if _, ok := known[k]; !ok {
			return nil, fmt.Errorf("applying settings: unknown field settings.kubernetes.%s", k)
		}
	}
	s := &reader{values: kube, path: "settings.kubernetes."}
	c := s.config()
	if s.err != nil {
		return nil, fmt.Errorf("applying settings: %w", s.err)
	}
	for _, f := range [][2]string{{"cluster-name", c.Cluster.Name}, {"api-server", c.Cluster.Endpoint}, {"cluster-certificate", c.Cluster.CertificateAuthority}} {
		if f[1] == "" {
			return nil, fmt.Errorf("applying settings: settings.kubernetes.%s is missing", f[0])
		}
	}
	if err := c.Cluster.checkGiven(); err != nil {
		return nil, fmt.Errorf("applying settings: %w", err)
	}
	c.RAID0 = bindsInstanceStore(settings)
	for _, k := range slices.Sorted(maps.Keys(s.labels)) {
		if err := c.addLabels(k + "=" + s.labels[k]); err != nil {
			return nil, fmt.Errorf("starting kubelet: %w", err)
		}
	}
	if err := errors.Join(c.Kubelet.check(), checkTaints(c.Taints)); err != nil {
		return nil, fmt.Errorf("starting kubelet: %w", err)
	}
	return c, nil
}

// A reader reads typed settings; the first error is kept.
type reader struct {
	values map[string]any
	path   string
	labels map[string]string
	err    error
}

func (r *reader) fail(key, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("invalid type of %s%s: %v is not %s", r.path, key, r.values[key], want)
	}
}

func (r *reader) text(key string) string {
	v, ok := r.values[key]
	s, isText := v.(string)
	if ok && !isText {
		r.fail(key, "a string")
	}
	return s
}

func (r *reader) number(key string) *int32 {
	v, ok := r.values[key]
	if !ok {
		return nil
	}
	n, isNumber := v.(int64)
	if !isNumber {
		r.fail(key, "an integer")
	}
	out := int32(n)
	return &out
}

// percent is a number that Bottlerocket takes as a string.
func (r *reader) percent(key string) *int32 {
	s := r.text(key)
	if s == "" {
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		r.fail(key, "a number in a string")
	}
	out := int32(n)
	return &out
}

func (r *reader) table(key string) map[string]string {
	v, ok := r.values[key]
	if !ok {
		return nil
	}
	t, isTable := v.(map[string]any)
	if !isTable {
		r.fail(key, "a table")
	}
	out := map[string]string{}
	for k, v := range t {
		s, isText := v.(string)
		if !isText {
			r.fail(key, "a table of strings")
		}
		out[k] = s
	}
	return out
}

func (r *reader) config() *Config {
	c := &Config{OS: Linux, RootDevice: "/dev/xvdb", Labels: map[string]string{}, Cluster: Cluster{
		Name: r.text("cluster-name"), Endpoint: r.text("api-server"), CertificateAuthority: r.text("cluster-certificate")}}
	r.labels = r.table("node-labels")
	c.Kubelet = KubeletConfig{
		MaxPods: r.number("max-pods"), EvictionMaxPodGracePeriod: r.number("eviction-max-pod-grace-period"), ClusterDNS: r.texts("cluster-dns-ip"),
		KubeReserved: r.table("kube-reserved"), SystemReserved: r.table("system-reserved"), EvictionHard: r.table("eviction-hard"),
		EvictionSoft: r.table("eviction-soft"), EvictionSoftGracePeriod: r.table("eviction-soft-grace-period"),
		ImageGCHigh: r.percent("image-gc-high-threshold-percent"), ImageGCLow: r.percent("image-gc-low-threshold-percent"),
	}
	if v, ok := r.values["cpu-cfs-quota-enforced"]; ok {
		on, isFlag := v.(bool)
		if !isFlag {
			r.fail("cpu-cfs-quota-enforced", "true or false")
		}
		c.Kubelet.CPUCFSQuota = &on
	}
	c.Taints = r.taints()
	return c
}

// texts is a string or a list of strings.
func (r *reader) texts(key string) []string {
	switch v := r.values[key].(type) {
	case nil:
		return nil
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				r.fail(key, "a list of strings")
			}
			out = append(out, s)
		}
		return out
	}
	r.fail(key, "a string or a list of strings")
	return nil
}

// taints reads node-taints: a key and its list of "value:Effect".
func (r *reader) taints() []corev1.Taint {
	t, ok := r.values["node-taints"].(map[string]any)
	if _, given := r.values["node-taints"]; given && !ok {
		r.fail("node-taints", "a table")
	}
	var out []corev1.Taint
	for _, key := range slices.Sorted(maps.Keys(t)) {
		list := t[key]
		if one, ok := list.(string); ok {
			list = []any{one}
		}
		values, ok := list.([]any)
		if !ok {
			r.fail("node-taints", "a table of lists")
		}
		for _, e := range values {
			text, isText := e.(string)
			value, effect, hasEffect := strings.Cut(text, ":")
			if !isText || !hasEffect {
				r.fail("node-taints", `a table of lists of "value:Effect"`)
			}
			out = append(out, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
		}
	}
	return out
}

// bindsInstanceStore tells whether a bootstrap command puts the instance store
// under the kubelet's directory.
func bindsInstanceStore(settings map[string]any) bool {
	table, ok := settings["bootstrap-commands"].(map[string]any)
	if !ok {
		return false
	}
	initialized, bound := false, false
	for _, v := range table {
		entry, ok := v.(map[string]any)
		if !ok || entry["mode"] == "off" {
			continue
		}
		commands, ok := entry["commands"].([]any)
		if !ok {
			continue
		}
		for _, command := range commands {
			words := fmt.Sprint(command)
			initialized = initialized || strings.Contains(words, "ephemeral-storage init")
			bound = bound || strings.Contains(words, "ephemeral-storage bind") && (!strings.Contains(words, "--dirs") || strings.Contains(words, "/var/lib/kubelet"))
		}
	}
	return initialized && bound
}
