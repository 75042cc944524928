package config_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/config"
)

var update = flag.Bool("update", false, "write settings.md")

// settings.md is generated from the table.
func TestSettingsPage(t *testing.T) {
	want := "# Settings of the agent\n\nGenerated from the table in package config. A flag wins over its environment variable, which wins over the default. An environment value\n" +
		"that does not parse falls back to the default; a flag that does not parse, and a value that makes no sense, stop the agent with a message.\n\n" + config.Markdown()
	if *update {
		if err := os.WriteFile("settings.md", []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("settings.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("settings.md is out of date: run `go test ./pkg/config -update` (-want +got):\n%s", diff)
	}
}
