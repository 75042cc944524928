package sim_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/karp-sh/karp/test/fault/sim"
)

// scripts reads all scenario files.
func scripts(t *testing.T) []sim.Script {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	var out []sim.Script
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list, err := sim.ParseScripts(file, string(text))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, list...)
	}
	return out
}

// Each scenario is a conversation with the agent's loops in virtual time.
func TestScripts(t *testing.T) {
	for _, s := range scripts(t) {
		t.Run(s.Title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := s.Run(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
