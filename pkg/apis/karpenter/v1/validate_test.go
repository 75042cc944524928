package v1_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

func requirement(key string, operator v1.Operator, values ...string) v1.Requirement {
	return v1.Requirement{Key: key, Operator: operator, Values: values}
}

func minimum(r v1.Requirement, n int) v1.Requirement {
	r.MinValues = &n
	return r
}

func TestRequirementRuntimeValidate(t *testing.T) {
	const valid = ""
	tests := map[string]struct {
		requirement v1.Requirement
		want        string // part of the error
	}{
		"custom":                        {requirement("example.com/team", v1.In, "a"), valid},
		"bare key":                      {requirement("team", v1.Exists), valid},
		"k8s domain is open":            {requirement("node-restriction.kubernetes.io/team", v1.In, "a"), valid},
		"well known":                    {requirement("karpenter.k8s.aws/instance-cpu", v1.Gt, "4"), valid},
		"zone id":                       {requirement("topology.k8s.aws/zone-id", v1.In, "use1-az1"), valid},
		"old name":                      {requirement("beta.kubernetes.io/arch", v1.In, "amd64"), valid},
		"NotIn without values":          {requirement("team", v1.NotIn), valid},
		"Exists with values":            {requirement("team", v1.Exists, "a"), valid},
		"empty value":                   {requirement("team", v1.In, ""), valid},
		"hostname":                      {requirement("kubernetes.io/hostname", v1.In, "a"), "kubernetes.io/hostname is reserved"},
		"class label":                   {requirement("karpenter.k8s.aws/ec2nodeclass", v1.In, "a"), "karpenter.k8s.aws/ec2nodeclass is reserved"},
		"no such label":                 {requirement("karpenter.k8s.aws/instance-pods", v1.Gt, "1"), "instance-pods is reserved"},
		"own domain":                    {requirement("karpenter.sh/x", v1.Exists), "karpenter.sh/x is reserved"},
		"subdomain":                     {requirement("a.karpenter.sh/x", v1.Exists), "a.karpenter.sh/x is reserved"},
		"no dot before it":              {requirement("mykarpenter.sh/x", v1.Exists), valid},
		"domain as bare key":            {requirement("karpenter.sh", v1.Exists), valid},
		"not a key":                     {requirement("a/b/c", v1.Exists), `key "a/b/c"`},
		"not a value":                   {requirement("team", v1.In, "a b"), `value "a b"`},
		"not a value with NotIn":        {requirement("team", v1.NotIn, "a b"), `value "a b"`},
		"value of 64":                   {requirement("team", v1.In, strings.Repeat("a", 64)), "team"},
		"In without values":             {requirement("team", v1.In), "at least one value"},
		"In below minValues":            {minimum(requirement("team", v1.In, "a"), 2), "minValues 2"},
		"In at minValues":               {minimum(requirement("team", v1.In, "a", "b"), 2), valid},
		"minValues with Exists":         {minimum(requirement("team", v1.Exists), 2), valid},
		"unknown operator":              {requirement("team", "Near", "a"), `operator "Near"`},
		"Gt zero":                       {requirement("team", v1.Gt, "0"), valid},
		"Lt without values":             {requirement("team", v1.Lt), "exactly one value"},
		"Gte two values":                {requirement("team", v1.Gte, "1", "2"), "exactly one value"},
		"Lte negative":                  {requirement("team", v1.Lte, "-1"), "not negative"},
		"Gt text":                       {requirement("team", v1.Gt, "a"), "integer"},
		"capacity types":                {requirement("karpenter.sh/capacity-type", v1.In, "spot", "reserved", "on-demand"), valid},
		"one known":                     {requirement("karpenter.sh/capacity-type", v1.In, "spot", "sport"), valid},
		"none known":                    {requirement("karpenter.sh/capacity-type", v1.In, "sport"), "known"},
		"none known, NotIn":             {requirement("karpenter.sh/capacity-type", v1.NotIn, "sport"), valid},
		"known below minValues":         {minimum(requirement("karpenter.sh/capacity-type", v1.In, "spot", "sport"), 2), "at least 2"},
		"tenancy":                       {requirement("karpenter.k8s.aws/instance-tenancy", v1.In, "dedicated"), valid},
		"no such tenancy":               {requirement("karpenter.k8s.aws/instance-tenancy", v1.In, "host"), "known"},
		"pool name, as pods may select": {requirement("karpenter.sh/nodepool", v1.In, "a"), valid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { expect(t, tt.requirement.RuntimeValidate(), tt.want) })
	}
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("accepted, want an error with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("error %q lacks %q", err, want)
	}
}

func TestNodePoolRuntimeValidate(t *testing.T) {
	labels := func(key, value string) func(t *v1.NodeClaimTemplate) {
		return func(t *v1.NodeClaimTemplate) { t.ObjectMeta.Labels = map[string]string{key: value} }
	}
	taint := func(key, value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: effect}
	}
	taints := func(list ...corev1.Taint) func(t *v1.NodeClaimTemplate) {
		return func(t *v1.NodeClaimTemplate) { t.Spec.Taints = list }
	}
	tests := map[string]struct {
		change func(t *v1.NodeClaimTemplate)
		want   string
	}{
		"nothing":              {func(*v1.NodeClaimTemplate) {}, ""},
		"label":                {labels("team", "a"), ""},
		"capacity type label":  {labels("karpenter.sh/capacity-type", "sport"), ""},
		"pool label":           {labels("karpenter.sh/nodepool", "a"), "labels[karpenter.sh/nodepool]: is set by the controller"},
		"restricted label":     {labels("karpenter.k8s.aws/ec2nodeclass", "a"), "labels[karpenter.k8s.aws/ec2nodeclass]: is reserved"},
		"host name label":      {labels("kubernetes.io/hostname", "a"), "labels[kubernetes.io/hostname]: is reserved"},
		"label key":            {labels("a b", "a"), "not a label key"},
		"label key length":     {labels(strings.Repeat("a", 64), "a"), "not a label key"},
		"label prefix length":  {labels(strings.Repeat("a", 254)+"/x", "a"), "not a label key"},
		"label value":          {labels("team", "a b"), `value "a b"`},
		"taint":                {taints(taint("a", "", "NoSchedule"), taint("a", "", "NoExecute")), ""},
		"taint value, a slash": {taints(taint("a", "example.com/x", "NoSchedule")), ""},
		"taint without key":    {taints(taint("", "", "NoSchedule")), "taints[0]: key"},
		"taint key":            {taints(taint("a b", "", "NoSchedule")), "taints[0]: key"},
		"taint value":          {taints(taint("a", "x y", "NoSchedule")), "taints[0]: value"},
		"taint effect":         {taints(taint("a", "", "Sometimes")), "taints[0]: effect"},
		"taint twice":          {taints(taint("a", "x", "NoSchedule"), taint("a", "y", "NoSchedule")), "taints[1]: key a and effect NoSchedule occur twice"},
		"taint in both lists": {func(t *v1.NodeClaimTemplate) {
			t.Spec.Taints = []corev1.Taint{taint("a", "", "NoSchedule")}
			t.Spec.StartupTaints = t.Spec.Taints
		}, "startupTaints[0]: key a and effect NoSchedule occur twice"},
		"requirement": {func(t *v1.NodeClaimTemplate) {
			t.Spec.Requirements = []v1.Requirement{requirement("team", v1.Exists), requirement("team", v1.In)}
		}, "requirements[1]: operator In"},
		"pool requirement": {func(t *v1.NodeClaimTemplate) {
			t.Spec.Requirements = []v1.Requirement{requirement("karpenter.sh/nodepool", v1.Exists)}
		}, "requirements[0]: key karpenter.sh/nodepool is set by the controller"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &v1.NodePool{}
			tt.change(&p.Spec.Template)
			expect(t, p.RuntimeValidate(), tt.want)
		})
	}
}

func TestAllErrorsAreReported(t *testing.T) {
	p := &v1.NodePool{}
	p.Spec.Template.ObjectMeta.Labels = map[string]string{"b b": "x", "a a": "x"}
	p.Spec.Template.Spec.Requirements = []v1.Requirement{requirement("team", v1.In)}
	got := p.RuntimeValidate().Error()
	for i, want := range []string{"labels[a a]", "labels[b b]", "requirements[0]"} {
		if lines := strings.Split(got, "\n"); len(lines) != 3 || !strings.Contains(lines[i], want) {
			t.Errorf("line %d of %q lacks %s", i, got, want)
		}
	}
}

func TestNormalizeLabel(t *testing.T) {
	tests := map[string]string{
		"failure-domain.beta.kubernetes.io/zone":   "topology.kubernetes.io/zone",
		"failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
		"beta.kubernetes.io/arch":                  "kubernetes.io/arch",
		"beta.kubernetes.io/os":                    "kubernetes.io/os",
		"beta.kubernetes.io/instance-type":         "node.kubernetes.io/instance-type",
		"topology.ebs.csi.aws.com/zone":            "topology.kubernetes.io/zone",
		"topology.kubernetes.io/zone":              "topology.kubernetes.io/zone",
		"team":                                     "team",
	}
	for key, want := range tests {
		if got := v1.NormalizeLabel(key); got != want {
			t.Errorf("NormalizeLabel(%s) = %s, want %s", key, got, want)
		}
	}
}

func TestWellKnownLabelsAreNotRestricted(t *testing.T) {
	labels := v1.WellKnownLabels()
	if len(labels) != 8+27+1 {
		t.Errorf("%d well-known labels", len(labels))
	}
	for _, key := range labels {
		if !v1.IsWellKnown(key) || v1.IsRestricted(key) {
			t.Errorf("%s: well known %v, restricted %v", key, v1.IsWellKnown(key), v1.IsRestricted(key))
		}
	}
	for _, key := range []string{"karpenter.sh/registered", "karpenter.sh/initialized", "karpenter.sh/do-not-sync-taints", "x.karpenter.k8s.aws/y"} {
		if v1.IsWellKnown(key) || !v1.IsRestricted(key) {
			t.Errorf("%s: well known %v, restricted %v", key, v1.IsWellKnown(key), v1.IsRestricted(key))
		}
	}
}

func TestIsKnownEphemeral(t *testing.T) {
	yes := []corev1.Taint{
		{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"}, {Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"},
		{Key: "node.kubernetes.io/unreachable", Effect: "NoSchedule"},
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: "NoSchedule"},
		{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}, {Key: "readiness.k8s.io/x", Effect: "PreferNoSchedule"},
	}
	no := []corev1.Taint{
		{Key: "node.kubernetes.io/unreachable", Effect: "NoExecute"}, {Key: "karpenter.sh/disrupted", Effect: "NoSchedule"},
		{Key: "karpenter.sh/unregistered", Effect: "NoSchedule"}, {Key: "example.com/readiness.k8s.io/x", Effect: "NoSchedule"},
	}
	for _, taint := range yes {
		if !v1.IsKnownEphemeral(taint) {
			t.Errorf("%v does not count as ephemeral", taint)
		}
	}
	for _, taint := range no {
		if v1.IsKnownEphemeral(taint) {
			t.Errorf("%v counts as ephemeral", taint)
		}
	}
}
