package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/karp-sh/karp/pkg/view"
)

// reportKinds are the reports that commands print for programs.
func reportKinds() map[string]reflect.Type {
	return map[string]reflect.Type{
		"PendingReport":     reflect.TypeFor[view.PendingReport](),
		"PendingReportList": reflect.TypeFor[view.PendingReportList](),
		"KeptReport":        reflect.TypeFor[view.KeptReport](),
		"KeptReportList":    reflect.TypeFor[view.KeptReportList](),
		"SimulateReport":    reflect.TypeFor[view.SimulateReport](),
		"ScaleReport":       reflect.TypeFor[scaleReport](),
		"Version":           reflect.TypeFor[versionReport](),
	}
}

func newSchema(o *options) *cobra.Command {
	kinds := slices.Sorted(maps.Keys(reportKinds()))
	return &cobra.Command{
		Use:   "schema KIND",
		Short: "Print the JSON Schema of a report",
		Long: `Prints JSON Schema 2020-12, made from the types that the reports are made of. The kinds are ` + strings.Join(kinds, ", ") + `.

Within a version fields are only added. Enums such as codes may grow: readers must accept values they do not know.`,
		Example: `  # What does -o json of why-pending look like?
  kubectl karp schema PendingReport

  # And of a list of pods?
  kubectl karp schema PendingReportList`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("give one kind of report: %s", strings.Join(kinds, ", "))
			}
			return nil
		},
		ValidArgs: kinds,
		RunE: func(_ *cobra.Command, args []string) error {
			typ, known := reportKinds()[args[0]]
			if !known {
				return usageError("there is no report of kind %q%s", args[0], suggest(args[0], kinds))
			}
			raw, err := json.MarshalIndent(schemaOf(args[0], typ), "", "  ")
			if err != nil {
				return fmt.Errorf("encoding the schema: %w", err)
			}
			_, err = fmt.Fprintln(o.Streams.Out, string(raw))
			return err
		},
	}
}

// schemaOf describes the JSON form of a type. Each struct becomes a definition of its own.
func schemaOf(kind string, typ reflect.Type) map[string]any {
	d := definitions{}
	root := d.object(typ)
	delete(d, typ.Name())
	root["$schema"], root["$id"], root["title"] = "https://json-schema.org/draft/2020-12/schema", "https://karp.sh/schema/"+reportVersion+"/"+kind, kind
	if len(d) > 0 {
		root["$defs"] = d
	}
	return root
}

// definitions holds the schemas of structs by name.
type definitions map[string]map[string]any

func (d definitions) of(typ reflect.Type) map[string]any {
	switch typ.Kind() {
	case reflect.Pointer:
		return d.of(typ.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": d.of(typ.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": d.of(typ.Elem())}
	case reflect.Struct:
		if _, known := d[typ.Name()]; !known {
			d[typ.Name()] = map[string]any{} // ends recursion
			d[typ.Name()] = d.object(typ)
		}
		return map[string]any{"$ref": "#/$defs/" + typ.Name()}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	default:
		return map[string]any{"type": "string"}
	}
}

// object describes a struct; embedded structs are part of it, fields with omitempty are optional.
func (d definitions) object(typ reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		properties[name] = d.of(f.Type)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return map[string]any{"type": "object", "properties": properties, "required": required}
}
