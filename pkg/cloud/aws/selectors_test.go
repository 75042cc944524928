package aws_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud/aws"
	karpconfig "github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/test/simaws"
	simcloud "github.com/karp-sh/karp/test/simaws/cloud"
)

// observeImages reconciles a fresh class with the terms, and returns the ids in its status.
func (w *world) observeImages(t *testing.T, family awsv1.AMIFamily, terms ...awsv1.AMISelectorTerm) ([]string, error) {
	t.Helper()
	class := nodeClass()
	class.UID += "-images"
	class.Generation = int64(w.mark() + 2) // never served from a former case's answer
	class.Spec.AMISelectorTerms = terms
	if family != "" {
		class.Spec.AMIFamily = &family
	}
	class.Spec.Role, class.Spec.InstanceProfile = "", new("profile")
	err := w.observe(t, class)
	var ids []string
	for _, a := range class.Status.AMIs {
		ids = append(ids, a.ID)
	}
	return ids, err
}

// TestImageSelectors, over the wire.
func TestImageSelectors(t *testing.T) {
	w := newWorld(t)
	w.Provider = w.start(t, func(o *aws.Options) { o.DisableDryRun = true })
	c := w.sim.Cloud()
	mine := c.AddImage(simcloud.Image{Name: "my-ami-1", Tags: simcloud.Tags{"team": "a"}})
	other := c.AddImage(simcloud.Image{Name: "my-ami-2", OwnerID: "111122223333", Tags: simcloud.Tags{"team": "a"}, CreatedAt: start().Add(time.Minute)})
	third := c.AddImage(simcloud.Image{Name: "third", Architecture: "arm64"})
	c.SetParameter("/my/ami", third)
	c.SetParameter("/my/foo", "foo")
	owners := func(since int) [][]string {
		var out [][]string
		for _, call := range w.sim.Calls(since, "ec2", "DescribeImages") {
			var list []string
			for _, key := range []string{"Owner.1", "Owner.2"} {
				if v := call.Params[key]; v != "" {
					list = append(list, v)
				}
			}
			out = append(out, list)
			if call.Params["IncludeDeprecated"] != "true" || call.Params["MaxResults"] != "1000" {
				t.Errorf("A-041: parameters %v", call.Params)
			}
		}
		return out
	}
	tests := []struct {
		name   string
		terms  []awsv1.AMISelectorTerm
		want   []string
		owners [][]string
		params int
	}{
		{"A-051", []awsv1.AMISelectorTerm{{Name: "my-ami-*"}}, []string{mine}, [][]string{{"self", "amazon"}}, 0},
		{"A-052 owner", []awsv1.AMISelectorTerm{{Name: "my-ami-*", Owner: "111122223333"}}, []string{other}, [][]string{{"111122223333"}}, 0},
		{"A-052 tags", []awsv1.AMISelectorTerm{{Tags: map[string]string{"team": "a"}}}, []string{other}, [][]string{nil}, 0},
		{"A-052 tags and owner", []awsv1.AMISelectorTerm{{Tags: map[string]string{"team": "a"}, Owner: "self"}}, []string{mine}, [][]string{{"self"}}, 0},
		{"A-053", []awsv1.AMISelectorTerm{{ID: mine}, {ID: other, SSMParameter: "/other"}, {SSMParameter: "/my/ami"}}, []string{other, third}, [][]string{nil}, 1},
		{"A-054 skipped", []awsv1.AMISelectorTerm{{SSMParameter: "/my/foo"}, {SSMParameter: "/none"}, {ID: mine}}, []string{mine}, [][]string{nil}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := w.mark()
			got, err := w.observeImages(t, awsv1.Custom, tt.terms...)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.owners, owners(before)); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			if n := w.count(before, "GetParameter"); n != tt.params {
				t.Errorf("%d parameters read, want %d", n, tt.params)
			}
		})
	}
	fault := w.sim.InjectFault(simaws.Fault{Service: "ssm", Action: "GetParameter", Code: "AccessDeniedException", Status: 400})
	if _, err := w.observeImages(t, awsv1.Custom, awsv1.AMISelectorTerm{SSMParameter: "/denied"}); err == nil || !strings.Contains(err.Error(), "/denied") {
		t.Errorf("A-054: %v", err)
	}
	if _, err := w.observeImages(t, "", awsv1.AMISelectorTerm{Alias: "bottlerocket@latest"}); err == nil {
		t.Error("A-050: no error although no parameter could be read")
	}
	w.sim.ClearFaults(fault)
	c.SetParameter("/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/neuron/recommended/image_id", "")
	if got, err := w.observeImages(t, "", awsv1.AMISelectorTerm{Alias: "al2023@latest"}); err != nil || len(got) != 4 {
		t.Errorf("A-049: %v, %v", got, err)
	}
}

// TestFamilies: every family resolves and its launch template is made.
func TestFamilies(t *testing.T) {
	w := newWorld(t)
	start := func(kube string) {
		w.sim.Cloud().Configure(func(o *simcloud.Options) { o.KubernetesVersion = kube })
		w.Provider = w.start(t, func(o *aws.Options) { o.EKSControlPlane = true })
	}
	images := map[string]int{"al2@latest": 4, "al2023@latest": 5, "bottlerocket@latest": 5, "windows2019@latest": 1, "windows2022@latest": 1}
	for alias, want := range images {
		kube := "1.32"
		start(kube)
		class := nodeClass()
		class.UID, class.Spec.AMISelectorTerms[0].Alias = class.UID+"-"+"x", alias
		class.Generation = int64(w.mark() + 2)
		if err := w.observe(t, class); err != nil {
			t.Errorf("%s: %v", alias, err)
			continue
		}
		wantCondition(t, class, karpv1.ConditionReady, metav1.ConditionTrue, "")
		if len(class.Status.AMIs) != want {
			t.Errorf("%s: %d images, want %d: %+v", alias, len(class.Status.AMIs), want, class.Status.AMIs)
		}
		if got := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, int(class.Generation))); got.Type != "m5.large" {
			t.Errorf("%s: %+v", alias, got)
		}
	}
}

// TestKubernetesVersion.
func TestKubernetesVersion(t *testing.T) {
	w := newWorld(t)
	var log strings.Builder
	version, fail := "1.31", error(nil)
	w.sim.Cloud().Configure(func(o *simcloud.Options) { o.KubernetesVersion = version })
	w.Provider = w.start(t, func(o *aws.Options) {
		o.EKSControlPlane, o.DisableDryRun, o.Logger = true, true, textLogger(&log)
	})
	before := w.mark()
	if _, err := w.observeImages(t, "", awsv1.AMISelectorTerm{Alias: "al2023@latest"}); err == nil {
		for _, c := range w.sim.Calls(before, "ssm", "GetParameter") {
			if !strings.Contains(c.Params["body"], "/1.31/") {
				t.Errorf("A-011: %s", c.Params["body"])
			}
		}
	}
	if w.count(before, "GetParameter") == 0 {
		t.Error("A-011: no parameter was read")
	}
	refresh := func() error {
		for _, r := range w.Refreshers() {
			if r.Name == "kubernetes version" {
				return r.Refresh(t.Context())
			}
		}
		return nil
	}
	fault := w.sim.InjectFault(simaws.Fault{Service: "eks", Action: "DescribeCluster", Code: "ServerException", Status: 500})
	if fail = refresh(); fail == nil {
		t.Error("A-012: no error")
	}
	before = w.mark()
	_, _ = w.observeImages(t, "", awsv1.AMISelectorTerm{Alias: "bottlerocket@latest"})
	for _, c := range w.sim.Calls(before, "ssm", "GetParameter") {
		if !strings.Contains(c.Params["body"], "k8s-1.31") {
			t.Errorf("A-012: %s", c.Params["body"])
		}
	}
	w.sim.ClearFaults(fault)
	w.sim.Cloud().Configure(func(o *simcloud.Options) { o.KubernetesVersion = "1.40" })
	for range 3 {
		if err := refresh(); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "not among those that are supported"); n != 1 {
		t.Errorf("A-013: reported %d times:\n%s", n, log.String())
	}
}

// TestSubnetsOfTwoTerms: in as far as several answers are one list.
func TestSubnetsOfTwoTerms(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	class.Generation++
	class.Spec.SubnetSelectorTerms = append(class.Spec.SubnetSelectorTerms, awsv1.SubnetSelectorTerm{ID: class.Status.Subnets[0].ID})
	if err := w.observe(t, class); err != nil || len(class.Status.Subnets) != 3 {
		t.Errorf("A-033: %v, %v", class.Status.Subnets, err)
	}
}

// TestSwitchToProfile.
func TestSwitchToProfile(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	managed := class.Status.InstanceProfile
	w.clock.SetTime(start().Add(3 * time.Hour)) // the profile is old
	before := w.mark()
	class.Generation, class.Spec.Role, class.Spec.InstanceProfile = 2, "", new("ip1")
	_ = w.observe(t, class) // the trial launch finds no such profile
	if class.Status.InstanceProfile != "ip1" || len(w.sim.Calls(before, "iam", "")) != 0 {
		t.Errorf("A-071: status %q, IAM calls %v", class.Status.InstanceProfile, w.sim.Calls(before, "iam", ""))
	}
	left := func() bool {
		if err := w.CollectProfiles(t.Context(), map[string]bool{"ip1": true}); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(w.sim.Cloud().Profiles("/karpenter/"), func(p simcloud.Profile) bool { return p.Name == managed })
	}
	if !left() {
		t.Error("A-072: the former profile was removed at once")
	}
	w.clock.SetTime(start().Add(4*time.Hour + time.Minute))
	if left() {
		t.Error("A-072: the former profile is left after an hour")
	}
}

// TestPinnedAliasDeprecated: A-063.
func TestPinnedAliasDeprecated(t *testing.T) {
	w := newWorld(t)
	w.Provider = w.start(t, func(o *aws.Options) { o.DisableDryRun = true })
	class := w.readyClass(t)
	id := class.Status.AMIs[0].ID
	name := "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.32-v20240703/image_id"
	w.sim.Cloud().SetParameter(name, id)
	class.Generation, class.Spec.AMISelectorTerms[0].Alias = 2, "al2023@v20240703"
	if err := w.observe(t, class); err != nil || len(class.Status.AMIs) != 1 {
		t.Fatalf("%+v, %v", class.Status.AMIs, err)
	}
	if err := w.sim.Cloud().DeprecateImage(id, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.refresh(t, "image parameters")
	before := w.mark()
	if err := w.observe(t, class); err != nil || len(class.Status.AMIs) != 1 || class.Status.AMIs[0].ID != id || !class.Status.AMIs[0].Deprecated {
		t.Errorf("A-063: %+v, %v", class.Status.AMIs, err)
	}
	for _, c := range w.sim.Calls(before, "ssm", "GetParameter") {
		if strings.Contains(c.Params["body"], "x86_64/standard") {
			t.Error("A-063: the parameter of a pinned version was read again")
		}
	}
}

// TestMemoryOverheadSetting: A-004.
func TestMemoryOverheadSetting(t *testing.T) {
	env := map[string]string{"CLUSTER_NAME": "demo", "VM_MEMORY_OVERHEAD_PERCENT": "abc"}
	c, err := karpconfig.Parse(nil, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil || c.AWS.VMMemoryOverheadPercent != 0.075 {
		t.Errorf("A-004: %v, %v", c.AWS.VMMemoryOverheadPercent, err)
	}
}
