// Command expand writes a scenario out as a directory of YAML that kubectl karp --snapshot reads:
//
//	go run ./test/scenario/expand FILE -o DIR
//
// FILE is a cluster in shorthand, or a scenario file, of which the first cluster is taken.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/karp-sh/karp/test/scenario/fixture"
	"github.com/karp-sh/karp/test/scenario/shorthand"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("expand", flag.ContinueOnError)
	out := flags.String("o", "", "directory to write to")
	var file string
	for rest := args; len(rest) > 0; {
		if err := flags.Parse(rest); err != nil {
			return err
		}
		if rest = flags.Args(); len(rest) > 0 {
			file, rest = rest[0], rest[1:]
		}
	}
	if file == "" || *out == "" {
		return errors.New("want a file and -o DIR")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	cluster, err := shorthand.ParseFile(text)
	if err != nil {
		return err
	}
	snapshot, err := cluster.Expand(fixture.Catalogue())
	if err != nil {
		return err
	}
	return snapshot.Write(*out)
}
