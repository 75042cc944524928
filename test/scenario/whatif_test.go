package scenario_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"
)

func whatIfCommand(t *testing.T, _ *world, d *datadriven.TestData) string {
	d.Fatalf(t, "not yet")
	return ""
}
