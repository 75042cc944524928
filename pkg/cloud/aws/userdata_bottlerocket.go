package aws

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
)

// bottlerocket lays our settings over the user's TOML (AWS rules 5.5). It returns the keys below settings.kubernetes that the image is not known
// to have; they are kept, as everything else of the user's.
func bottlerocket(in bootInput) (text string, unknown []string, err error) {
	doc := map[string]any{}
	if err := toml.Unmarshal([]byte(in.user), &doc); err != nil {
		return "", nil, fmt.Errorf("reading spec.userData as TOML: %w", tomlPosition(err))
	}
	settings, err := table(doc, "settings")
	if err != nil {
		return "", nil, err
	}
	kubernetes, err := table(settings, "kubernetes")
	if err != nil {
		return "", nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(kubernetes)) {
		if !slices.Contains(bottlerocketKeys(), key) {
			unknown = append(unknown, key)
		}
	}
	if err := setKubernetes(kubernetes, in); err != nil {
		return "", nil, err
	}
	if in.raid0 {
		commands, err := table(settings, "bootstrap-commands")
		if err != nil {
			return "", nil, err
		}
		commands["000-mount-instance-storage"] = mountInstanceStore(in.bindDirs)
	}
	var out bytes.Buffer
	if err := toml.NewEncoder(&out).Encode(doc); err != nil {
		return "", nil, fmt.Errorf("writing TOML: %w", err)
	}
	return out.String(), unknown, nil
}

// tomlPosition adds the line to an error of the parser.
func tomlPosition(err error) error {
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := at.Position()
		return fmt.Errorf("line %d, column %d: %w", row, column, err)
	}
	return err
}

// table returns the table below a key, made if it is not there.
func table(in map[string]any, key string) (map[string]any, error) {
	switch v := in[key].(type) {
	case nil:
		out := map[string]any{}
		in[key] = out
		return out, nil
	case map[string]any:
		return v, nil
	}
	return nil, fmt.Errorf("spec.userData: %s must be a table", key)
}

// setKubernetes writes what the cluster and the class determine. Labels are united, everything else is replaced as a whole.
func setKubernetes(k map[string]any, in bootInput) error {
	k["cluster-name"], k["api-server"], k["max-pods"] = in.clusterName, in.endpoint, in.maxPods
	if in.ca != "" {
		k["cluster-certificate"] = in.ca
	}
	if len(in.dns) > 0 {
		k["cluster-dns-ip"] = in.dns[0]
	}
	if len(in.labels) > 0 {
		labels, err := table(k, "node-labels")
		if err != nil {
			return err
		}
		for key, value := range in.labels {
			labels[key] = value
		}
	}
	k["node-taints"] = taintTable(in)
	if in.kubelet != nil {
		setBottlerocketKubelet(k, in.kubelet)
	}
	return nil
}

// taintTable has for each key the list of its "value:Effect".
func taintTable(in bootInput) map[string]any {
	byKey := map[string][]string{}
	for _, t := range in.taints {
		byKey[t.Key] = append(byKey[t.Key], t.Value+":"+string(t.Effect))
	}
	out := map[string]any{}
	for key, list := range byKey {
		out[key] = list
	}
	return out
}

func setBottlerocketKubelet(k map[string]any, c *awsv1.KubeletConfiguration) {
	for key, m := range map[string]map[string]string{
		"system-reserved": c.SystemReserved, "kube-reserved": c.KubeReserved, "eviction-hard": withoutEmpty(c.EvictionHard),
		"eviction-soft": withoutEmpty(c.EvictionSoft), "eviction-soft-grace-period": goDurations(c.EvictionSoftGracePeriod),
	} {
		if len(m) > 0 {
			k[key] = m
		}
	}
	setValue(k, "eviction-max-pod-grace-period", c.EvictionMaxPodGracePeriod)
	setValue(k, "cpu-cfs-quota-enforced", c.CPUCFSQuota)
	// The settings model has the thresholds as texts.
	setText(k, "image-gc-high-threshold-percent", c.ImageGCHighThresholdPercent)
	setText(k, "image-gc-low-threshold-percent", c.ImageGCLowThresholdPercent)
}

func setText(k map[string]any, key string, v *int32) {
	if v != nil {
		k[key] = strconv.Itoa(int(*v))
	}
}

// mountInstanceStore is the bootstrap command that makes the local disks the node's ephemeral storage. Images before 1.46.0 have no default for
// the directories.
func mountInstanceStore(dirs bool) map[string]any {
	bind := []string{"apiclient", "ephemeral-storage", "bind"}
	if dirs {
		bind = append(bind, "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
	}
	return map[string]any{
		"commands": [][]string{{"apiclient", "ephemeral-storage", "init"}, bind}, "mode": "always", "essential": true,
	}
}

// bindsByDefault reports whether the Bottlerocket images of the class know which directories to bind: version 1.46.0 and later. An unknown
// version counts as old, because naming the directories does no harm.
func bindsByDefault(class *awsv1.EC2NodeClass) bool {
	version := bottlerocketVersion(class)
	if version == "latest" {
		return true
	}
	parts := strings.Split(strings.TrimLeft(version, "v"), ".")
	if len(parts) < 3 {
		return false
	}
	var have [3]int
	for i := range have {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return false
		}
		have[i] = n
	}
	return slices.Compare(have[:], []int{1, 46, 0}) >= 0
}

// bottlerocketVersion is the version of the class's images, "" if it cannot be told: that of the alias, else the one in the name of a term, else
// the one in the name of an image that an id selected, else of any image.
func bottlerocketVersion(class *awsv1.EC2NodeClass) string {
	if _, version, ok := strings.Cut(class.Alias(), "@"); ok {
		return version
	}
	byTerm, byID, any := "", "", ""
	for _, t := range class.Spec.AMISelectorTerms {
		byTerm = cmp.Or(byTerm, versionInName(t.Name))
	}
	for _, a := range class.Status.AMIs {
		if !strings.Contains(a.Name, "bottlerocket") {
			continue
		}
		version := versionInName(a.Name)
		any = cmp.Or(any, version)
		if slices.ContainsFunc(class.Spec.AMISelectorTerms, func(t awsv1.AMISelectorTerm) bool { return t.ID == a.ID }) {
			byID = cmp.Or(byID, version)
		}
	}
	return cmp.Or(byTerm, byID, any)
}

// versionInName finds the first segment such as v1.45.0 of a name whose segments are separated by dashes.
func versionInName(name string) string {
	for segment := range strings.SplitSeq(name, "-") {
		if strings.HasPrefix(segment, "v") && strings.Contains(segment, ".") {
			return segment
		}
	}
	return ""
}

// bottlerocketKeys are the keys of settings.kubernetes (Bottlerocket's settings reference).
func bottlerocketKeys() []string {
	return []string{
		"api-server", "cloud-provider", "cluster-certificate", "cluster-name", "cluster-dns-ip", "credential-providers", "node-labels", "node-taints",
		"max-pods", "static-pods", "eviction-hard", "eviction-soft", "eviction-soft-grace-period", "eviction-max-pod-grace-period", "kube-reserved",
		"system-reserved", "allowed-unsafe-sysctls", "server-tls-bootstrap", "registry-qps", "registry-burst", "event-qps", "event-burst",
		"kube-api-qps", "kube-api-burst", "container-log-max-size", "container-log-max-files", "container-log-max-workers",
		"container-log-monitor-interval", "cpu-manager-policy", "cpu-manager-policy-options", "cpu-manager-reconcile-period", "memory-manager-policy",
		"memory-manager-reserved-memory", "topology-manager-scope", "topology-manager-policy", "topology-manager-policy-options",
		"image-gc-high-threshold-percent", "image-gc-low-threshold-percent", "ids-per-pod", "cpu-cfs-quota-enforced", "shutdown-grace-period",
		"shutdown-grace-period-for-critical-pods", "cluster-domain", "seccomp-default", "pod-pids-limit", "device-ownership-from-security-context",
		"single-process-oom-kill", "hostname-override-source", "log-level",
	}
}
