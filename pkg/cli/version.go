package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/karp-sh/karp/pkg/view"
)

// versionReport is the JSON form of the version command.
type versionReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Version    string `json:"version"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

func newVersion(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the plugin",
		Example: `  # In words
  kubectl karp version

  # For scripts
  kubectl karp version -o jsonpath='{.version}'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionReport{"cli.karp.sh/v1alpha1", "Version", o.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if !o.structured() {
				_, err := fmt.Fprintf(o.Streams.Out, "kubectl-karp %s (%s, %s)\n", v.Version, v.GoVersion, v.Platform)
				return err
			}
			return o.emit(view.Doc{}, v)
		},
	}
}
