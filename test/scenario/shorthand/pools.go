package shorthand

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

// Names of the fixture.
const (
	className      = "std"
	controllerNS   = "kube-system"
	classGroup     = "karpenter.k8s.aws"
	classKind      = "EC2NodeClass"
	hashVersion    = "v3"
	classHash      = "1000000000000000001"
	classHashVer   = "v4"
	archLabel      = "kubernetes.io/arch"
	osLabel        = "kubernetes.io/os"
	hostLabel      = "kubernetes.io/hostname"
	zoneLabel      = "topology.kubernetes.io/zone"
	zoneIDLabel    = "topology.k8s.aws/zone-id"
	regionLabel    = "topology.kubernetes.io/region"
	typeLabel      = "node.kubernetes.io/instance-type"
	capacityLabel  = "karpenter.sh/capacity-type"
	poolLabel      = "karpenter.sh/nodepool"
	registered     = "karpenter.sh/registered"
	initialized    = "karpenter.sh/initialized"
	hashNote       = "karpenter.sh/nodepool-hash"
	hashVerNote    = "karpenter.sh/nodepool-hash-version"
	clsHashNote    = "karpenter.k8s.aws/ec2nodeclass-hash"
	clsHashVerNote = "karpenter.k8s.aws/ec2nodeclass-hash-version"
)

// poolFacts is what nodes inherit from their pool.
type poolFacts struct {
	object *karpv1.NodePool
	static bool
}

// settings writes the controller's Deployment: its environment is where the settings of a cluster can be read.
func (x *expander) settings() error {
	env := map[string]string{
		"CLUSTER_NAME":               "prod-eu",
		"FEATURE_GATES":              "SpotToSpotConsolidation=false,NodeRepair=false,StaticCapacity=true,ReservedCapacity=true",
		"VM_MEMORY_OVERHEAD_PERCENT": "0.075",
		"PREFERENCE_POLICY":          "Respect",
		"MIN_VALUES_POLICY":          "Strict",
	}
	maps.Copy(env, x.in.Settings)
	var vars []corev1.EnvVar
	for _, k := range slices.Sorted(maps.Keys(env)) {
		vars = append(vars, corev1.EnvVar{Name: k, Value: env[k]})
	}
	labels := map[string]string{"app.kubernetes.io/name": "karpenter"}
	x.add(&appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: x.meta(controllerNS, "karpenter", "720h", labels),
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Image: "karpenter:1.14.1", Env: vars}}},
			},
		},
		Status: appsv1.DeploymentStatus{Replicas: 2, ReadyReplicas: 2},
	})
	return nil
}

func (x *expander) meta(ns, name, age string, labels map[string]string) metav1.ObjectMeta {
	created, err := x.time(age, "720h")
	if err != nil {
		created = x.now
	}
	return metav1.ObjectMeta{
		Namespace: ns, Name: name, UID: types.UID(uid(ns, name)), Labels: labels, Generation: 1,
		CreationTimestamp: metav1.NewTime(created),
	}
}

func (x *expander) condition(kind string, status metav1.ConditionStatus, reason, message string, at time.Time) metav1.Condition {
	if reason == "" {
		reason = kind
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(at), ObservedGeneration: 1}
}

func (x *expander) class() error {
	c := &awsv1.EC2NodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: classGroup + "/v1", Kind: classKind},
		ObjectMeta: x.meta("", className, "720h", nil),
	}
	c.Annotations = map[string]string{clsHashNote: classHash, clsHashVerNote: classHashVer}
	c.Spec = awsv1.EC2NodeClassSpec{
		Role:                       "KarpenterNodeRole-prod-eu",
		SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": "prod"}}},
		SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": "prod"}}},
		AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
	}
	for i, z := range slices.Sorted(maps.Keys(x.file.Zones)) {
		c.Status.Subnets = append(c.Status.Subnets, awsv1.Subnet{ID: fmt.Sprintf("subnet-0%d", i+1), Zone: z, ZoneID: x.file.Zones[z]})
	}
	c.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: "sg-01", Name: "nodes"}}
	for _, arch := range []string{"amd64", "arm64"} {
		c.Status.AMIs = append(c.Status.AMIs, awsv1.AMI{
			ID: "ami-0new00000000" + arch, Name: "al2023 1.33-v20260904 " + arch,
			Requirements: []corev1.NodeSelectorRequirement{{Key: archLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}}},
		})
	}
	since := x.now.Add(-48 * time.Hour)
	for _, t := range []string{"SubnetsReady", "SecurityGroupsReady", "AMIsReady", "InstanceProfileReady", "ValidationSucceeded", "Ready"} {
		c.Status.Conditions = append(c.Status.Conditions, x.condition(t, metav1.ConditionTrue, "", "", since))
	}
	merged, err := merge(c, x.in.Class)
	if err != nil {
		return fmt.Errorf("class %s: %w", className, err)
	}
	x.add(merged)
	return nil
}

func (x *expander) pools() error {
	x.byPool = map[string]*poolFacts{}
	for _, p := range x.in.Pools {
		np, err := x.pool(p)
		if err != nil {
			return fmt.Errorf("pool %s: %w", p.Name, err)
		}
		merged, err := merge(np, p.Patch)
		if err != nil {
			return fmt.Errorf("pool %s: %w", p.Name, err)
		}
		x.byPool[p.Name] = &poolFacts{object: merged, static: merged.Spec.Replicas != nil}
		x.add(merged)
	}
	return nil
}

func (x *expander) pool(p Pool) (*karpv1.NodePool, error) {
	np := &karpv1.NodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodePool"},
		ObjectMeta: x.meta("", p.Name, "720h", nil),
	}
	np.Spec.Weight, np.Spec.Replicas = p.Weight, p.Replicas
	t := &np.Spec.Template
	t.ObjectMeta.Labels = p.Labels
	t.Spec.NodeClassRef = karpv1.NodeClassRef{Group: classGroup, Kind: classKind, Name: or(p.Class, className)}
	expire := karpv1.DurationOrNever(or(p.ExpireAfter, "720h"))
	t.Spec.ExpireAfter = &expire
	if p.TGP != "" {
		d := karpv1.Duration(p.TGP)
		t.Spec.TerminationGracePeriod = &d
	}
	after := karpv1.DurationOrNever("1m")
	np.Spec.Disruption = karpv1.Disruption{
		ConsolidationPolicy: karpv1.WhenEmptyOrUnderutilized, ConsolidateAfter: &after, Budgets: []karpv1.Budget{{Nodes: "10%"}},
	}
	reqs, err := x.requirements(p)
	if err != nil {
		return nil, err
	}
	t.Spec.Requirements = reqs
	for _, part := range []error{
		decode(p.Taints, &t.Spec.Taints, "taints"),
		decode(p.StartupTaints, &t.Spec.StartupTaints, "startupTaints"),
		decode(p.Limits, &np.Spec.Limits, "limits"),
		decode(p.Disruption, &np.Spec.Disruption, "disruption"),
	} {
		if part != nil {
			return nil, part
		}
	}
	np.Annotations = map[string]string{hashNote: poolHash(np), hashVerNote: hashVersion}
	return np, x.poolReady(np, p.NotReady)
}

// requirements are the defaults, those of the shorthand keys in place of them, and the verbatim ones.
func (x *expander) requirements(p Pool) ([]karpv1.Requirement, error) {
	in := func(key string, values, otherwise []string) []karpv1.Requirement {
		if len(values) == 0 {
			values = otherwise
		}
		if len(values) == 0 {
			return nil
		}
		return []karpv1.Requirement{{Key: key, Operator: karpv1.In, Values: values}}
	}
	var more []karpv1.Requirement
	if err := decode(p.Require, &more, "require"); err != nil {
		return nil, err
	}
	return slices.Concat(
		in(archLabel, p.Arch, []string{"amd64"}),
		in(osLabel, nil, []string{"linux"}),
		in(capacityLabel, p.CT, []string{"on-demand"}),
		in(zoneLabel, x.zones(p.Zones), nil),
		in(typeLabel, p.Types, nil),
		more,
	), nil
}

func (x *expander) poolReady(np *karpv1.NodePool, no *Condition) error {
	since := x.now.Add(-48 * time.Hour)
	add := func(kind string, status metav1.ConditionStatus, reason, message string, at time.Time) {
		np.Status.Conditions = append(np.Status.Conditions, x.condition(kind, status, reason, message, at))
	}
	add("ValidationSucceeded", metav1.ConditionTrue, "", "", since)
	if no == nil {
		add("NodeClassReady", metav1.ConditionTrue, "", "", since)
		add("Ready", metav1.ConditionTrue, "", "", since)
		return nil
	}
	at, err := x.time(no.Since, "10m")
	if err != nil {
		return err
	}
	add("NodeClassReady", metav1.ConditionFalse, or(no.Reason, "NodeClassNotReady"), no.Message, at)
	add("Ready", metav1.ConditionFalse, "NotReady", "", at)
	return nil
}

// daemonSets are the four of the fixture; they tolerate everything.
func (x *expander) daemonSets() error {
	for _, d := range daemons() {
		labels := map[string]string{"app": d.name}
		x.add(&appsv1.DaemonSet{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
			ObjectMeta: x.meta(controllerNS, d.name, "720h", labels),
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: d.podSpec()},
			},
		})
	}
	return nil
}

type daemon struct{ name, cpu, memory string }

func daemons() []daemon {
	return []daemon{
		{"aws-node", "50m", ""},
		{"kube-proxy", "100m", ""},
		{"ebs-csi-node", "30m", "120Mi"},
		{"log-agent", "100m", "180Mi"},
	}
}

func (d daemon) podSpec() corev1.PodSpec {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(d.cpu)}
	if d.memory != "" {
		requests[corev1.ResourceMemory] = resource.MustParse(d.memory)
	}
	return corev1.PodSpec{
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers:  []corev1.Container{{Name: d.name, Image: d.name, Resources: corev1.ResourceRequirements{Requests: requests}}},
	}
}

// namespaces of everything that is mentioned.
func (x *expander) namespaces() error {
	seen := map[string]bool{controllerNS: true, "default": true, fillerNS: true}
	for _, p := range x.in.Pods {
		seen[or(p.NS, "default")] = true
	}
	for _, ns := range slices.Sorted(maps.Keys(seen)) {
		x.add(&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: x.meta("", ns, "720h", map[string]string{"kubernetes.io/metadata.name": ns}),
		})
	}
	return nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func stem(name string, parts int) string {
	split := strings.Split(name, "-")
	if len(split) <= parts {
		return split[0]
	}
	return strings.Join(split[:len(split)-parts], "-")
}
