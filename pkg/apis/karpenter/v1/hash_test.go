package v1_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	v1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

const pool = `
spec:
  weight: 10
  limits: {cpu: 100}
  template:
    metadata:
      labels: {team: a, tier: web}
      annotations: {example.com/owner: a}
    spec:
      taints:
      - {key: example.com/a, value: x, effect: NoSchedule}
      - {key: example.com/b, effect: NoExecute}
      startupTaints:
      - {key: example.com/c, effect: NoSchedule}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      terminationGracePeriod: 60m
      expireAfter: 720h
`

func read(t *testing.T, text string) *v1.NodePool {
	t.Helper()
	p := &v1.NodePool{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func text[T ~string](s T) *T { return &s }

// The golden values pin the algorithm: when they change, HashVersion has to.
func TestHashGolden(t *testing.T) {
	if v1.HashVersion != "karp1" {
		t.Errorf("version is %s", v1.HashVersion)
	}
	for name, tt := range map[string]struct{ pool, want string }{
		"full":  {pool, "6319301488964033370"},
		"empty": {"{}", "16406829232824261652"},
	} {
		if got := read(t, tt.pool).Hash(); got != tt.want {
			t.Errorf("%s: hash is %s, want %s", name, got, tt.want)
		}
	}
}

func TestHashUnchanged(t *testing.T) {
	tests := map[string]func(p *v1.NodePool){
		"requirements": func(p *v1.NodePool) { p.Spec.Template.Spec.Requirements = nil },
		"weight":       func(p *v1.NodePool) { p.Spec.Weight = nil },
		"limits": func(p *v1.NodePool) {
			p.Spec.Limits = corev1.ResourceList{"memory": resource.MustParse("1Gi")}
		},
		"replicas":   func(p *v1.NodePool) { n := int64(3); p.Spec.Replicas = &n },
		"disruption": func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = text(v1.Never) },
		"status":     func(p *v1.NodePool) { p.Status.Nodes = 5 },
		"metadata":   func(p *v1.NodePool) { p.Name, p.Labels = "x", map[string]string{"a": "b"} },
		"order of taints": func(p *v1.NodePool) {
			taints := p.Spec.Template.Spec.Taints
			taints[0], taints[1] = taints[1], taints[0]
		},
		"60m is 1h":   func(p *v1.NodePool) { p.Spec.Template.Spec.TerminationGracePeriod = text(v1.Duration("1h")) },
		"720h in min": func(p *v1.NodePool) { p.Spec.Template.Spec.ExpireAfter = text(v1.DurationOrNever("43200m")) },
	}
	for name, change := range tests {
		p := read(t, pool)
		change(p)
		if got, want := p.Hash(), read(t, pool).Hash(); got != want {
			t.Errorf("%s: hash moved to %s from %s", name, got, want)
		}
	}
}

func TestHashChanged(t *testing.T) {
	template := func(f func(s *v1.NodeClaimTemplateSpec)) func(p *v1.NodePool) {
		return func(p *v1.NodePool) { f(&p.Spec.Template.Spec) }
	}
	tests := map[string]func(p *v1.NodePool){
		"label added": func(p *v1.NodePool) { p.Spec.Template.ObjectMeta.Labels["new"] = "x" },
		"label value": func(p *v1.NodePool) { p.Spec.Template.ObjectMeta.Labels["team"] = "b" },
		"label to annotation": func(p *v1.NodePool) {
			p.Spec.Template.ObjectMeta.Labels, p.Spec.Template.ObjectMeta.Annotations = p.Spec.Template.ObjectMeta.Annotations, p.Spec.Template.ObjectMeta.Labels
		},
		"annotation added":  func(p *v1.NodePool) { p.Spec.Template.ObjectMeta.Annotations["new"] = "x" },
		"taint value":       template(func(s *v1.NodeClaimTemplateSpec) { s.Taints[0].Value = "y" }),
		"taint effect":      template(func(s *v1.NodeClaimTemplateSpec) { s.Taints[0].Effect = corev1.TaintEffectNoExecute }),
		"taint removed":     template(func(s *v1.NodeClaimTemplateSpec) { s.Taints = s.Taints[:1] }),
		"taint to startup":  template(func(s *v1.NodeClaimTemplateSpec) { s.Taints, s.StartupTaints = s.StartupTaints, s.Taints }),
		"startup taint":     template(func(s *v1.NodeClaimTemplateSpec) { s.StartupTaints = nil }),
		"class name":        template(func(s *v1.NodeClaimTemplateSpec) { s.NodeClassRef.Name = "other" }),
		"class kind":        template(func(s *v1.NodeClaimTemplateSpec) { s.NodeClassRef.Kind = "other" }),
		"class group":       template(func(s *v1.NodeClaimTemplateSpec) { s.NodeClassRef.Group = "other" }),
		"grace period":      template(func(s *v1.NodeClaimTemplateSpec) { s.TerminationGracePeriod = text(v1.Duration("61m")) }),
		"grace period gone": template(func(s *v1.NodeClaimTemplateSpec) { s.TerminationGracePeriod = nil }),
		"grace period 0":    template(func(s *v1.NodeClaimTemplateSpec) { s.TerminationGracePeriod = text(v1.Duration("0s")) }),
		"expiry":            template(func(s *v1.NodeClaimTemplateSpec) { s.ExpireAfter = text(v1.DurationOrNever("24h")) }),
		"never expires":     template(func(s *v1.NodeClaimTemplateSpec) { s.ExpireAfter = text(v1.Never) }),
		"expiry gone":       template(func(s *v1.NodeClaimTemplateSpec) { s.ExpireAfter = nil }),
		"expiry 0":          template(func(s *v1.NodeClaimTemplateSpec) { s.ExpireAfter = text(v1.DurationOrNever("0s")) }),
	}
	seen := map[string]string{read(t, pool).Hash(): "the original"}
	for name, change := range tests {
		p := read(t, pool)
		change(p)
		if other, ok := seen[p.Hash()]; ok {
			t.Errorf("%s: hash equals that of %s", name, other)
		}
		seen[p.Hash()] = name
	}
}

func TestHashEmptyIsAbsent(t *testing.T) {
	p := read(t, "{}")
	p.Spec.Template.ObjectMeta.Labels = map[string]string{}
	p.Spec.Template.ObjectMeta.Annotations = map[string]string{}
	p.Spec.Template.Spec.Taints = []corev1.Taint{}
	p.Spec.Template.Spec.StartupTaints = []corev1.Taint{}
	if got, want := p.Hash(), read(t, "{}").Hash(); got != want {
		t.Errorf("hash of empty lists is %s, of absent ones %s", got, want)
	}
	before := read(t, pool)
	before.Hash()
	if d := *before.Spec.Template.Spec.TerminationGracePeriod; d != "60m" {
		t.Errorf("hashing rewrote 60m to %s", d)
	}
}
