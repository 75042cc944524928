package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/karp-sh/karp/pkg/cluster"
)

// DefaultSpread reads the default topology spread constraints out of a scheduler configuration, the value of SCHEDULER_CONFIG. An empty document means
// none.
func DefaultSpread(document string) ([]cluster.Spread, error) { return parseSchedulerConfig(document) }

// schedulerDocument is the part of a scheduler configuration that matters here.
type schedulerDocument struct {
	PodTopologySpread struct {
		DefaultConstraints []spreadDefault `json:"defaultConstraints"`
	} `json:"podTopologySpread"`
}

type spreadDefault struct {
	MaxSkew            int32    `json:"maxSkew"`
	TopologyKey        string   `json:"topologyKey"`
	WhenUnsatisfiable  string   `json:"whenUnsatisfiable"`
	MinDomains         *int32   `json:"minDomains"`
	NodeAffinityPolicy string   `json:"nodeAffinityPolicy"`
	NodeTaintsPolicy   string   `json:"nodeTaintsPolicy"`
	LabelSelector      any      `json:"labelSelector"`
	MatchLabelKeys     []string `json:"matchLabelKeys"`
}

// labelKey is a qualified name: an optional DNS prefix and a name of at most 63 characters.
var labelKey = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// parseSchedulerConfig reads the default spread constraints (scheduling rules 18). An empty document means none.
func parseSchedulerConfig(text string) ([]cluster.Spread, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var doc schedulerDocument
	if err := yaml.UnmarshalStrict([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	seen := map[[2]string]bool{}
	var out []cluster.Spread
	for i, d := range doc.PodTopologySpread.DefaultConstraints {
		s, err := d.spread()
		id := [2]string{d.TopologyKey, d.WhenUnsatisfiable}
		if err == nil && seen[id] {
			err = fmt.Errorf("topologyKey %s with whenUnsatisfiable %s appears twice", d.TopologyKey, d.WhenUnsatisfiable)
		}
		if err != nil {
			return nil, fmt.Errorf("podTopologySpread.defaultConstraints[%d]: %w", i, err)
		}
		seen[id] = true
		out = append(out, s)
	}
	return out, nil
}

func (d *spreadDefault) spread() (cluster.Spread, error) {
	out := cluster.Spread{Key: d.TopologyKey, MaxSkew: d.MaxSkew, HonorAffinity: d.NodeAffinityPolicy != "Ignore", HonorTaints: d.NodeTaintsPolicy == "Honor"}
	if d.MinDomains != nil {
		out.MinDomain = *d.MinDomains
	}
	switch {
	case d.MaxSkew <= 0:
		return out, fmt.Errorf("maxSkew %d must be greater than 0", d.MaxSkew)
	case !labelKey.MatchString(d.TopologyKey):
		return out, fmt.Errorf("topologyKey %q is not a label key", d.TopologyKey)
	case d.LabelSelector != nil:
		return out, errors.New("labelSelector is not allowed: it is derived from each pod's services and owner")
	case len(d.MatchLabelKeys) > 0:
		return out, errors.New("matchLabelKeys is not allowed in a default constraint")
	case d.MinDomains != nil && *d.MinDomains <= 0:
		return out, fmt.Errorf("minDomains %d must be greater than 0", *d.MinDomains)
	}
	for name, policy := range map[string]string{"nodeAffinityPolicy": d.NodeAffinityPolicy, "nodeTaintsPolicy": d.NodeTaintsPolicy} {
		if policy != "" && policy != "Honor" && policy != "Ignore" {
			return out, fmt.Errorf("%s %q is neither Honor nor Ignore", name, policy)
		}
	}
	switch d.WhenUnsatisfiable {
	case "DoNotSchedule":
		out.Hard = true
	case "ScheduleAnyway":
	default:
		return out, fmt.Errorf("whenUnsatisfiable %q is neither DoNotSchedule nor ScheduleAnyway", d.WhenUnsatisfiable)
	}
	return out, nil
}
