// Command gen writes the embedded file of package ec2data.
//
//	go run ./pkg/catalog/ec2data/gen -from DIR
//
// DIR holds instance-types.json, offerings.json, vpc-limits.json, prices.json
// and bandwidth.json (layout version 1). The output depends on these files only.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
)

func main() {
	from := flag.String("from", "", "`directory` with the JSON tables (required)")
	out := flag.String("out", "pkg/catalog/ec2data/ec2data.bin", "`file` to write")
	flag.Parse()
	if err := run(*from, *out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(from, out string) error {
	if from == "" {
		return errors.New("-from DIR is required: the directory with the JSON tables")
	}
	data, err := build(from)
	if err != nil {
		return err
	}
	file, err := ec2data.Encode(data)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, file, 0o644); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	fmt.Printf("%s: %d types, %d regions, %d price lists, %d bytes\n",
		out, len(data.Types), len(data.Regions), len(data.PriceLists), len(file))
	return nil
}

// read decodes one table and checks its layout version.
func read(dir, name string, into any) error {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	var head struct{ Version int }
	if err := errors.Join(json.Unmarshal(raw, &head), json.Unmarshal(raw, into)); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if head.Version != 1 {
		return fmt.Errorf("reading %s: layout version %d, want 1", name, head.Version)
	}
	return nil
}

func build(dir string) (*ec2data.Data, error) {
	var (
		types     typesTable
		offers    offersTable
		limits    limitsTable
		prices    pricesTable
		bandwidth bandwidthTable
	)
	err := errors.Join(
		read(dir, "instance-types.json", &types),
		read(dir, "offerings.json", &offers),
		read(dir, "vpc-limits.json", &limits),
		read(dir, "prices.json", &prices),
		read(dir, "bandwidth.json", &bandwidth),
	)
	if err != nil {
		return nil, err
	}
	d := &ec2data.Data{AsOf: ec2data.AsOf{
		Types: types.Sources[0].AsOf, Offerings: offers.AsOf, VPCLimits: limits.AsOf, Bandwidth: bandwidth.AsOf,
	}}
	for name, rec := range types.Types {
		t, err := rec.convert(name, types.Sources)
		if err != nil {
			return nil, fmt.Errorf("type %s: %w", name, err)
		}
		if err := limits.apply(&t); err != nil {
			return nil, fmt.Errorf("type %s: %w", name, err)
		}
		t.BandwidthMbps, t.BandwidthKnown = bandwidth.Baseline[t.Family()][t.Size()]
		d.Types = append(d.Types, t)
	}
	slices.SortFunc(d.Types, func(a, b ec2data.Type) int { return strings.Compare(a.Name, b.Name) })
	if d.Regions, err = offers.convert(d); err != nil {
		return nil, err
	}
	d.PriceLists, err = prices.convert()
	return d, err
}

// scaled returns v × factor as an integer, exactly.
func scaled(v float64, factor int64) (int64, error) {
	x := v * float64(factor)
	r := math.Round(x)
	if math.Abs(x-r) > 1e-3 {
		return 0, fmt.Errorf("%v is not a multiple of 1/%d", v, factor)
	}
	return int64(r), nil
}
