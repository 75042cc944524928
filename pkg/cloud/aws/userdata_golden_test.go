package aws_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud/aws"
	"github.com/karp-sh/karp/test/simaws/bootstrap"
)

// bootCase is the input of a case; everything else is that of the fixture.
type bootCase struct {
	Kubelet  *awsv1.KubeletConfiguration `json:"kubelet"`
	MaxPods  int64                       `json:"maxPods"`
	DNS      []string                    `json:"dns"`
	NoDNS    bool                        `json:"noDNS"`
	NoCA     bool                        `json:"noCA"`
	Labels   map[string]string           `json:"labels"`
	Taints   []corev1.Taint              `json:"taints"`
	Startup  []corev1.Taint              `json:"startupTaints"`
	RAID0    bool                        `json:"raid0"`
	BindDirs bool                        `json:"bindDirs"`
	UserData string                      `json:"userData"`
	// Refused tells that the image would not take it, for what the user has written.
	Refused bool `json:"refused"`
}

func (c bootCase) boot(family ec2types.Family) aws.Boot {
	b := boot()
	b.Family, b.Kubelet, b.Taints, b.Startup, b.RAID0, b.BindDirs, b.User = family, c.Kubelet, c.Taints, c.Startup, c.RAID0, c.BindDirs, c.UserData
	if c.MaxPods != 0 {
		b.MaxPods = c.MaxPods
	}
	if len(c.DNS) > 0 || c.NoDNS {
		b.DNS = c.DNS
	}
	if c.NoCA {
		b.CA = ""
	}
	maps.Copy(b.Labels, c.Labels)
	return b
}

// TestUserDataGolden renders the cases of testdata/userdata, one file for each family. Run with -rewrite to write the outputs anew.
func TestUserDataGolden(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "userdata"), func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "render" || len(d.CmdArgs) != 1 {
				d.Fatalf(t, "want: render FAMILY")
			}
			var c bootCase
			if err := yaml.UnmarshalStrict([]byte(d.Input), &c); err != nil {
				d.Fatalf(t, "reading the case: %v", err)
			}
			family := ec2types.Family(d.CmdArgs[0].Key)
			text, err := aws.RenderUserData(c.boot(family))
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			if again, _ := aws.RenderUserData(c.boot(family)); again != text {
				d.Fatalf(t, "rendering the same twice differs")
			}
			if strings.Contains(text, "\r") {
				d.Fatalf(t, "carriage return in the output")
			}
			if family != ec2types.Custom {
				boots(t, d, family, text, c.Refused)
			}
			if !strings.HasSuffix(text, "\n") {
				text += "\n"
			}
			return fmt.Sprintf("# %d bytes\n%s", len(text), text)
		})
	})
}

// boots reads the text as the image's bootstrap program does: the node joins our cluster, with our labels and our taint, unless the image refuses
// what the user has written.
func boots(t *testing.T, d *datadriven.TestData, family ec2types.Family, text string, refused bool) {
	t.Helper()
	name := strings.ToLower(string(family))
	if family.Windows() {
		name = "windows"
	}
	got, err := bootstrap.Decode(name, []byte(text))
	switch {
	case refused && err == nil:
		t.Errorf("%s: the image takes what it should refuse", d.Pos)
	case refused:
	case err != nil:
		t.Errorf("%s: the node does not join: %v", d.Pos, err)
	case got.Cluster.Name != "demo" || got.Cluster.Endpoint != "https://demo.example":
		t.Errorf("%s: the node joins %+v", d.Pos, got.Cluster)
	case got.Labels["karpenter.sh/nodepool"] != "np" || got.Labels["karpenter.sh/capacity-type"] != "on-demand":
		t.Errorf("%s: the node has labels %v", d.Pos, got.Labels)
	case !slices.ContainsFunc(got.Taints, func(t corev1.Taint) bool {
		return t.Key == "karpenter.sh/unregistered" && t.Effect == corev1.TaintEffectNoExecute
	}):
		t.Errorf("%s: the node has taints %v", d.Pos, got.Taints)
	}
}
