package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/view"
)

// poolChanges lists the fields of spec in which a proposed NodePool differs from the present one, which may be nil.
func poolChanges(old, proposed *karpv1.NodePool) ([]view.FieldChange, error) {
	if old == nil {
		return nil, nil
	}
	before, err := fields(old)
	if err != nil {
		return nil, err
	}
	after, err := fields(proposed)
	if err != nil {
		return nil, err
	}
	var out []view.FieldChange
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		// What a manifest leaves out of disruption is filled in by the API server.
		defaulted := after[path] == "" && strings.HasPrefix(path, "disruption")
		if before[path] != after[path] && !defaulted {
			out = append(out, view.FieldChange{NodePool: proposed.Name, Path: path, From: before[path], To: after[path]})
		}
	}
	return out, nil
}

// fields spells the spec of a pool as one text for each field.
func fields(pool *karpv1.NodePool) (map[string]string, error) {
	raw, err := json.Marshal(pool.Spec)
	if err != nil {
		return nil, fmt.Errorf("reading the fields of NodePool %s: %w", pool.Name, err)
	}
	var spec map[string]any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("reading the fields of NodePool %s: %w", pool.Name, err)
	}
	out := map[string]string{}
	flatten("", spec, out)
	return out, nil
}

// flatten walks objects; items of lists are named by their key where they have one, because their order means nothing.
func flatten(path string, value any, out map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for k, x := range v {
			flatten(strings.TrimPrefix(path+"."+k, "."), x, out)
		}
	case []any:
		for i, x := range v {
			m, _ := x.(map[string]any)
			switch key, _ := m["key"].(string); {
			case key == "":
				out[fmt.Sprintf("%s[%d]", path, i)] = compact(x)
			case m["effect"] != nil:
				out[fmt.Sprintf("%s[%s:%v]", path, key, m["effect"])] = strings.TrimSuffix(fmt.Sprintf("%s=%v", key, nonNil(m["value"])), "=")
			default:
				out[fmt.Sprintf("%s[%s]", path, key)] = requirement(m)
			}
		}
	default:
		out[path] = fmt.Sprint(v)
	}
}

// requirement spells a requirement as people do: In [a b], minValues 2.
func requirement(m map[string]any) string {
	text := fmt.Sprint(nonNil(m["operator"]))
	if values, ok := m["values"].([]any); ok {
		text += " " + fmt.Sprint(values)
	}
	if n := m["minValues"]; n != nil {
		text += fmt.Sprintf(", minValues %v", n)
	}
	return text
}

func nonNil(v any) any {
	if v == nil {
		return ""
	}
	return v
}

func compact(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
