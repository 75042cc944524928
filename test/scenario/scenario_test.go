// Package scenario_test runs the scenario files: a cluster in shorthand, questions about it, and the answers.
//
// A file is a conversation in the format of datadriven: a command with arguments and input, "----", and what came of it. Each command has a file
// of its own in this folder. The cluster goes through everything a real one would: API objects, YAML files, the loader of the plugin, the
// snapshot builder, the engine. To accept new answers run
//
//	go test ./test/scenario -rewrite
package scenario_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/kube/offline"
)

// world is what the commands of one file share.
type world struct {
	// dir is the snapshot directory, as for kubectl karp --snapshot.
	dir      string
	read     *offline.Directory
	snapshot *cluster.Snapshot
	facts    explain.Facts
}

type command func(t *testing.T, w *world, d *datadriven.TestData) string

func commands() map[string]command {
	return map[string]command{
		"cluster":     clusterCommand,
		"why-pending": whyPendingCommand,
		"expect":      expectCommand,
		"groups":      groupsCommand,
		"what-if":     whatIfCommand,
		"karp":        karpCommand,
		"says":        saysCommand,
	}
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	for _, file := range files {
		// Commands change the working directory.
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimPrefix(filepath.ToSlash(file), "testdata/"), func(t *testing.T) { runFile(t, path) })
	}
}

func runFile(t *testing.T, file string) {
	w := &world{}
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		run, ok := commands()[d.Cmd]
		if !ok {
			d.Fatalf(t, "unknown command %q", d.Cmd)
		}
		return run(t, w, d)
	})
}
