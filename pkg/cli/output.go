package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/kubectl/pkg/cmd/get"

	"github.com/karp-sh/karp/pkg/view"
)

// structured reports whether the output is for programs.
func (o *options) structured() bool { return o.output != "" && o.output != "wide" }

// emit prints a report: as text, or in the structured format asked for. The report must be an object with apiVersion and kind. Names are what it is
// about, as TYPE/NAME, for -o name.
func (o *options) emit(doc view.Doc, report any, names ...string) error {
	if !o.structured() {
		return view.Print(o.Streams.Out, doc, o.style)
	}
	if o.output == "name" {
		return o.emitNames(names)
	}
	p, err := o.printer()
	if err != nil {
		return err
	}
	raw, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if o.lines && o.output == "json" {
		_, err := fmt.Fprintf(o.Streams.Out, "%s\n", raw)
		return err
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(raw); err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if strings.HasPrefix(o.output, "custom-columns") && obj.IsList() {
		list, err := obj.ToList()
		if err != nil {
			return fmt.Errorf("encoding the report: %w", err)
		}
		return p.PrintObj(list, o.Streams.Out)
	}
	return p.PrintObj(obj, o.Streams.Out)
}

func (o *options) emitNames(names []string) error {
	if len(names) == 0 {
		return usageError("there is nothing to name here; use another format than -o name")
	}
	for _, n := range names {
		if _, err := fmt.Fprintln(o.Streams.Out, n); err != nil {
			return fmt.Errorf("writing the names: %w", err)
		}
	}
	return nil
}

// printer is kubectl's own for the format, so that templates and paths behave as they do there.
func (o *options) printer() (printers.ResourcePrinter, error) {
	flags := genericclioptions.NewPrintFlags("")
	flags.OutputFormat = &o.output
	name, template, _ := strings.Cut(o.output, "=")
	if name == "custom-columns" || name == "custom-columns-file" {
		columns := get.NewCustomColumnsPrintFlags()
		columns.NoHeaders = o.noHeaders
		columns.TemplateArgument = template
		p, err := columns.ToPrinter(name)
		if err != nil {
			return nil, usageError("-o %s: %w", name, err)
		}
		return p, nil
	}
	known := append(flags.AllowedFormats(), "wide", "custom-columns", "custom-columns-file")
	if !slices.Contains(known, name) {
		slices.Sort(known)
		return nil, usageError("unknown output format %q; the formats are: %s", name, strings.Join(slices.Compact(known), ", "))
	}
	p, err := flags.ToPrinter()
	if err != nil {
		return nil, usageError("-o %s: %w", name, err)
	}
	return p, nil
}
