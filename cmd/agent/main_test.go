package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"version":      {args: []string{"--version"}, stdout: "dev"},
		"help":         {args: []string{"--help"}, stdout: "CLUSTER_NAME"},
		"bad flag":     {args: []string{"--no-such"}, code: misused, stderr: "no-such"},
		"not set up":   {code: misused, stderr: "--cluster-name (CLUSTER_NAME): is empty"},
		"bad log path": {args: []string{"--cluster-name=c", "--log-output-paths=/no/such/dir/log"}, code: misused, stderr: "opening log"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), tc.args, func(string) (string, bool) { return "", false }, &stdout, &stderr)
			if code != tc.code || !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q; want %d, %q, %q", code, stdout.String(), stderr.String(), tc.code, tc.stdout, tc.stderr)
			}
		})
	}
}
