package bootstrap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"
)

const nodeConfigType = "application/node.eks.aws"

// nodeConfig is a node.eks.aws/v1alpha1 NodeConfig.
type nodeConfig struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Spec       struct {
		Cluster      Cluster         `json:"cluster"`
		Containerd   json.RawMessage `json:"containerd,omitempty"`
		FeatureGates map[string]bool `json:"featureGates,omitempty"`
		Instance     struct {
			LocalStorage struct {
				Strategy       string   `json:"strategy,omitempty"`
				MountPath      string   `json:"mountPath,omitempty"`
				DisabledMounts []string `json:"disabledMounts,omitempty"`
			} `json:"localStorage"`
			Environment json.RawMessage `json:"environment,omitempty"`
			Network     json.RawMessage `json:"network,omitempty"`
		} `json:"instance"`
		Kubelet struct {
			Config map[string]any `json:"config,omitempty"`
			Flags  []string       `json:"flags,omitempty"`
		} `json:"kubelet"`
	} `json:"spec"`
}

func decodeAL2023(userData []byte) (*Config, error) {
	documents, err := nodeConfigs(userData)
	if err != nil {
		return nil, fmt.Errorf("reading user data: %w", err)
	}
	if len(documents) == 0 {
		return nil, errors.New("reading user data: no NodeConfig in it: nodeadm has nothing to do")
	}
	merged, flags, err := mergeNodeConfigs(documents)
	if err != nil {
		return nil, fmt.Errorf("reading user data: %w", err)
	}
	if err := merged.Spec.Cluster.check(); err != nil {
		return nil, fmt.Errorf("validating NodeConfig: %w", err)
	}
	c := &Config{Cluster: merged.Spec.Cluster, Labels: map[string]string{}, OS: Linux, RootDevice: "/dev/xvda"}
	switch s := merged.Spec.Instance.LocalStorage.Strategy; s {
	case "", "RAID10", "Mount": // these do not change what the Node reports
	case "RAID0":
		c.RAID0 = true
	default:
		return nil, fmt.Errorf("validating NodeConfig: spec.instance.localStorage.strategy %q is unknown", s)
	}
	if c.Kubelet, err = readKubeletConfig(merged.Spec.Kubelet.Config); err != nil {
		return nil, fmt.Errorf("starting kubelet: %w", err)
	}
	c.Taints = c.Kubelet.RegisterWithTaints
	if err := c.applyFlags(flags); err != nil {
		return nil, fmt.Errorf("starting kubelet: %w", err)
	}
	return c, nil
}

// nodeConfigs finds the NodeConfig documents in their order.
func nodeConfigs(userData []byte) ([][]byte, error) {
	text := bytes.TrimSpace(userData)
	if len(text) == 0 {
		return nil, errors.New("it is empty")
	}
	if !isMIME(text) {
		if bytes.HasPrefix(text, []byte("#!")) {
			return nil, nil // a script, run by cloud-init
		}
		return [][]byte{text}, nil
	}
	parts, err := readMIME(text)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, p := range parts {
		if p.kind == nodeConfigType {
			out = append(out, p.body)
		}
	}
	return out, nil
}

// mergeNodeConfigs merges the documents field by field, later ones winning;
// lists are replaced, except kubelet flags, which are appended.
func mergeNodeConfigs(documents [][]byte) (*nodeConfig, []string, error) {
	var (
		merged = map[string]any{}
		flags  []string
	)
	for i, text := range documents {
		one := new(nodeConfig)
		if err := yaml.UnmarshalStrict(text, one); err != nil {
			return nil, nil, fmt.Errorf("parsing NodeConfig %d: %w", i+1, err)
		}
		if one.APIVersion != "node.eks.aws/v1alpha1" || one.Kind != "NodeConfig" {
			return nil, nil, fmt.Errorf("parsing NodeConfig %d: %q %q is not node.eks.aws/v1alpha1 NodeConfig", i+1, one.APIVersion, one.Kind)
		}
		var raw map[string]any
		if err := yaml.Unmarshal(text, &raw); err != nil {
			return nil, nil, fmt.Errorf("parsing NodeConfig %d: %w", i+1, err)
		}
		overlay(merged, raw)
		flags = append(flags, one.Spec.Kubelet.Flags...)
	}
	text, err := json.Marshal(merged)
	if err != nil {
		return nil, nil, fmt.Errorf("merging NodeConfigs: %w", err)
	}
	out := new(nodeConfig)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, nil, fmt.Errorf("merging NodeConfigs: %w", err)
	}
	return out, flags, nil
}

func overlay(onto, from map[string]any) {
	for k, v := range from {
		below, ok1 := onto[k].(map[string]any)
		above, ok2 := v.(map[string]any)
		if ok1 && ok2 {
			overlay(below, above)
			continue
		}
		onto[k] = v
	}
}
