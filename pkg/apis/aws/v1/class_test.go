package v1_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
)

func TestParseAlias(t *testing.T) {
	for text, want := range map[string]v1.Alias{
		"al2@latest":          {Family: v1.AL2, Version: "latest"},
		"al2023@v20240625":    {Family: v1.AL2023, Version: "v20240625"},
		"bottlerocket@1.20.1": {Family: v1.Bottlerocket, Version: "1.20.1"},
		"windows2019@latest":  {Family: v1.Windows2019, Version: "latest"},
		"windows2025@latest":  {Family: v1.Windows2025, Version: "latest"},
	} {
		got, err := v1.ParseAlias(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("ParseAlias(%q): %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "al2023", "al2023@", "al2023@a@b", "AL2023@latest", "ubuntu@latest", "custom@latest"} {
		if got, err := v1.ParseAlias(text); err == nil {
			t.Errorf("ParseAlias(%q) = %v, want an error", text, got)
		}
	}
}

func TestFamily(t *testing.T) {
	tests := map[string]struct {
		spec v1.EC2NodeClassSpec
		want v1.AMIFamily
	}{
		"no spec":          {v1.EC2NodeClassSpec{}, ""},
		"field":            {v1.EC2NodeClassSpec{AMIFamily: ptr(v1.AL2)}, v1.AL2},
		"alias":            {v1.EC2NodeClassSpec{AMISelectorTerms: []v1.AMISelectorTerm{{Alias: "bottlerocket@latest"}}}, v1.Bottlerocket},
		"Custom and alias": {v1.EC2NodeClassSpec{AMIFamily: ptr(v1.Custom), AMISelectorTerms: []v1.AMISelectorTerm{{Alias: "al2023@latest"}}}, v1.Custom},
		"two @":            {v1.EC2NodeClassSpec{AMISelectorTerms: []v1.AMISelectorTerm{{Alias: "al2023@a@b"}}}, v1.AL2023},
	}
	for name, tt := range tests {
		if got := (&v1.EC2NodeClass{Spec: tt.spec}).Family(); got != tt.want {
			t.Errorf("%s: family is %q, want %q", name, got, tt.want)
		}
	}
}

func TestVolumeSize(t *testing.T) {
	for text, want := range map[v1.VolumeSize]int64{"20Gi": 20 << 30, "1Ti": 1 << 40, "5G": 5e9, "2T": 2e12} {
		if got, err := text.Quantity(); err != nil || got.Value() != want {
			t.Errorf("%s is %d bytes (%v), want %d", text, got.Value(), err, want)
		}
	}
	for _, text := range []v1.VolumeSize{"Ti", "T", ""} {
		if got, err := text.Quantity(); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

func TestValidateTags(t *testing.T) {
	for key, bad := range map[string]bool{
		"Name": false, "team": false, "karpenter.sh/other": false, "kubernetes.io/clusterfoo": false, "kubernetes.io/cluster/": false,
		"kubernetes.io/cluster/a_B-1": true, "karpenter.sh/nodepool": true, "karpenter.sh/nodeclaim": true,
		"karpenter.k8s.aws/ec2nodeclass": true, "eks:eks-cluster-name": true,
	} {
		c := &v1.EC2NodeClass{Spec: v1.EC2NodeClassSpec{Tags: map[string]string{key: "x"}}}
		err := c.ValidateTags()
		if (err != nil) != bad || (err != nil && !strings.Contains(err.Error(), "spec.tags["+key+"]")) {
			t.Errorf("tag %s: %v, refused should be %v", key, err, bad)
		}
	}
}

func TestLabelLists(t *testing.T) {
	overlay, pool := v1.OverlayLabels(), v1.InstanceLabels()
	if len(overlay) != 21 || len(pool) != 27 {
		t.Errorf("%d overlay labels, %d instance labels", len(overlay), len(pool))
	}
	form := regexp.MustCompile(`^karpenter\.k8s\.aws/[a-z-]+$`)
	for i, key := range pool {
		if !form.MatchString(key) || slices.Contains(pool[:i], key) || !v1.IsWellKnown(key) {
			t.Errorf("%s: twice, of the wrong form, or not well known", key)
		}
	}
	if v1.IsWellKnown(v1.EC2NodeClassLabel) || !v1.IsWellKnown(v1.LabelTopologyZoneID) {
		t.Error("the class label is well known or the zone id is not")
	}
}
