package cli_test

import (
	"os"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestKrewTemplate checks that a release can fill in the manifest and that krew would accept its form.
func TestKrewTemplate(t *testing.T) {
	text, err := os.ReadFile("../../krew/karp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Version, Homepage, ShortDescription, Description, Caveats string
			Platforms                                                 []struct {
				Selector struct {
					MatchLabels map[string]string `json:"matchLabels"`
				} `json:"selector"`
				URI, SHA256, Bin string
			}
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.Kind != "Plugin" || m.Metadata.Name != "karp" || m.Spec.Version != "VERSION" || len(m.Spec.ShortDescription) > 50 {
		t.Errorf("head of the manifest: %+v", m)
	}
	uri := regexp.MustCompile(`^https://github\.com/karp-sh/karp/releases/download/VERSION/kubectl-karp_(\w+)_(\w+)\.tar\.gz$`)
	for _, p := range m.Spec.Platforms {
		os, arch := p.Selector.MatchLabels["os"], p.Selector.MatchLabels["arch"]
		found := uri.FindStringSubmatch(p.URI)
		bin := "kubectl-karp"
		if os == "windows" {
			bin += ".exe"
		}
		if found == nil || found[1] != os || found[2] != arch || p.SHA256 != "SHA256_"+os+"_"+arch || p.Bin != bin {
			t.Errorf("platform %s/%s: %+v", os, arch, p)
		}
	}
	if len(m.Spec.Platforms) != 6 {
		t.Errorf("%d platforms, want 6", len(m.Spec.Platforms))
	}
}
