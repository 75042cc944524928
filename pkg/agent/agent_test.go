package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"

	"github.com/karp-sh/karp/pkg/agent"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/plan"
)

func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// lock is a lease that always lets itself be written, unless it is told to fail.
type lock struct {
	resourcelock.Interface
	err error
}

func (l *lock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }
func (l *lock) Identity() string                                                { return "me" }

// Reliability rule 9: no new effect with less than the renew deadline left on the lease.
func TestFence(t *testing.T) {
	clock := testclock.NewFakePassiveClock(start())
	l := &lock{}
	f := agent.NewFence(l, clock)
	if err := f.Check(); !errors.Is(err, agent.ErrFenced) {
		t.Errorf("before the lease is won: %v", err)
	}
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me", LeaderTransitions: 7}
	if err := f.Update(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err != nil || f.Epoch() != 7 {
		t.Errorf("with a fresh lease: %v, epoch %d", err, f.Epoch())
	}
	clock.SetTime(start().Add(5 * time.Second))
	if err := f.Check(); err != nil {
		t.Errorf("10 s left: %v", err)
	}
	clock.SetTime(start().Add(5*time.Second + 1))
	if err := f.Check(); !errors.Is(err, agent.ErrFenced) {
		t.Errorf("less than 10 s left: %v", err)
	}
	if leads, _ := f.Leading(); !leads {
		t.Error("the lease has not run out yet")
	}
	l.err = errors.New("refused")
	if err := f.Update(t.Context(), mine); err == nil {
		t.Error("the lock's error is lost")
	}
	if err := f.Check(); err == nil {
		t.Error("a renewal that failed counts")
	}
	l.err = nil
	if err := f.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err == nil {
		t.Error("a released lease counts")
	}
	if err := agent.NewFence(nil, clock).Check(); err != nil {
		t.Errorf("without leader election: %v", err)
	}
}

// LX19: an object older than our last write to it is not looked at.
func TestAwaited(t *testing.T) {
	pod := func(version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: version}}
	}
	a := agent.NewAwaited()
	if a.Stale(pod("5")) {
		t.Error("stale without a write")
	}
	a.Note(pod("9"))
	a.Note(pod("8"))
	for _, step := range []struct {
		version string
		stale   bool
	}{{"8", true}, {"10", false}} {
		if got := a.Stale(pod(step.version)); got != step.stale {
			t.Errorf("version %s: stale %v", step.version, got)
		}
	}
	if a.Stale(pod("8")) {
		t.Error("a version once seen is awaited for ever")
	}
}

func TestEvents(t *testing.T) {
	clock := testclock.NewFakePassiveClock(start())
	recorder := record.NewFakeRecorder(100)
	e := agent.NewEvents(recorder, clock)
	pod := func(uid string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "same", UID: types.UID(uid)}}
	}
	count := func() int { n := len(recorder.Events); drain(recorder); return n }
	e.Warn(pod("a"), "R", "m")
	clock.SetTime(start().Add(119 * time.Second))
	e.Warn(pod("a"), "R", "m")
	if got := count(); got != 1 {
		t.Errorf("L-309: %d events within two minutes", got)
	}
	clock.SetTime(start().Add(121 * time.Second))
	e.Warn(pod("a"), "R", "m")
	if got := count(); got != 1 {
		t.Errorf("L-309: %d events after two minutes", got)
	}
	e.Warn(pod("b"), "R", "m")
	e.Warn(pod("a"), "R", "m", "another cause")
	if got := count(); got != 2 {
		t.Errorf("L-310: %d events for another object and another cause", got)
	}
	for i := range 15 {
		e.Nominated(pod("n"+string(rune('a'+i))), "m")
	}
	if got := count(); got != 10 {
		t.Errorf("L-311: %d of 15 nominations", got)
	}
}

func drain(r *record.FakeRecorder) {
	for len(r.Events) > 0 {
		<-r.Events
	}
}

func TestInstanceID(t *testing.T) {
	for text, want := range map[string]string{
		"aws:///us-west-2a/i-1": "i-1", "fake:///z1/i-2": "i-2", "": "", "aws:///i-1": "", "aws:///z/i/x": "", "aws:///z/": "", "i-1": "",
	} {
		if got, ok := agent.InstanceID(text); got != want && ok || ok != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", text, got, ok, want)
		}
	}
}

func TestVerifyToken(t *testing.T) {
	verify := agent.VerifyToken("cluster")
	id := cloud.Identity{ClusterUID: "cluster", ClaimUID: "u", Attempt: 2}
	for _, test := range []struct {
		name, launchID, token string
		want                  bool
	}{
		{"ours", id.LaunchID(), id.Token(), true}, {"forged", id.LaunchID(), "x", false}, {"another attempt", "u/3", id.Token(), false},
		{"no attempt", "u", id.Token(), false}, {"another cluster", id.LaunchID(), cloud.Identity{ClusterUID: "b", ClaimUID: "u", Attempt: 2}.Token(), false},
	} {
		if got := verify(test.launchID, test.token); got != test.want {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
}

func pool() *karpv1.NodePool {
	hours, minutes := karpv1.DurationOrNever("24h"), karpv1.Duration("5m")
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "np", UID: "uid-np"}}
	t := &p.Spec.Template
	t.ObjectMeta = karpv1.TemplateMeta{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"x": "y"}}
	t.Spec.Taints = []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}
	t.Spec.Requirements = []karpv1.Requirement{
		{Key: "example.com/tier", Operator: karpv1.In, Values: []string{"gold"}},
		{Key: "karpenter.sh/capacity-type", Operator: karpv1.In, Values: []string{"spot"}},
	}
	t.Spec.NodeClassRef = karpv1.NodeClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	t.Spec.ExpireAfter, t.Spec.TerminationGracePeriod = &hours, &minutes
	return p
}

// L-007: what a dynamic claim looks like.
func TestNewClaim(t *testing.T) {
	p := pool()
	minValues := 2
	planned := &plan.Claim{
		Pool: "np", NodeClass: cluster.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
		Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"x": "y"},
		Requirements: []constraint.Expr{
			{Key: "team", Operator: constraint.In, Values: []string{"a"}},
			{Key: "node.kubernetes.io/instance-type", Operator: constraint.Exists, MinValues: minValues},
		},
		Taints: []constraint.Taint{{Key: "t", Effect: constraint.NoSchedule}}, Requests: map[string]int64{"cpu": 1500, "pods": 2},
		Types: []string{"m5.large", "c5.large"}, CapacityTypes: []string{"spot"}, ExpireAfter: "24h", TerminationGracePeriod: "5m",
	}
	c := agent.NewClaim(p, planned, "digest/0")
	if !strings.HasPrefix(c.Name, "np-") || len(c.Name) != len("np-")+5 {
		t.Errorf("name %q", c.Name)
	}
	if again := agent.NewClaim(p, planned, "digest/0"); again.Name != c.Name {
		t.Errorf("the same decision gives %q and %q, so that a repeated creation would not be noticed", c.Name, again.Name)
	}
	if other := agent.NewClaim(p, planned, "digest/1"); other.Name == c.Name {
		t.Error("two claims of one decision have the same name")
	}
	wantLabels := map[string]string{"team": "a", "karpenter.sh/nodepool": "np", "karpenter.k8s.aws/ec2nodeclass": "default"}
	if d := cmp.Diff(wantLabels, c.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	for key, want := range map[string]string{
		"x": "y", "karpenter.sh/nodepool-hash": p.Hash(), "karpenter.sh/nodepool-hash-version": "karp1", "karpenter.sh/nodeclaim-min-values-relaxed": "false",
	} {
		if c.Annotations[key] != want {
			t.Errorf("annotation %s is %q, want %q", key, c.Annotations[key], want)
		}
	}
	yes := true
	owner := []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "np", UID: "uid-np", BlockOwnerDeletion: &yes}}
	if d := cmp.Diff(owner, c.OwnerReferences); d != "" {
		t.Errorf("owner (-want +got):\n%s", d)
	}
	wantRequirements := []karpv1.Requirement{
		{Key: "team", Operator: karpv1.In, Values: []string{"a"}},
		{Key: "node.kubernetes.io/instance-type", Operator: karpv1.In, Values: []string{"m5.large", "c5.large"}, MinValues: &minValues},
		{Key: "karpenter.sh/capacity-type", Operator: karpv1.In, Values: []string{"spot"}},
	}
	if d := cmp.Diff(wantRequirements, c.Spec.Requirements); d != "" {
		t.Errorf("requirements (-want +got):\n%s", d)
	}
	if got := c.Spec.Resources.Requests.Cpu().String(); got != "1500m" {
		t.Errorf("cpu request %s", got)
	}
	if *c.Spec.ExpireAfter != "24h" || *c.Spec.TerminationGracePeriod != "5m" {
		t.Errorf("durations %v, %v", *c.Spec.ExpireAfter, *c.Spec.TerminationGracePeriod)
	}
}

// L-257: a static claim has neither requests nor a list of types; its labels are requirements too.
func TestStaticClaim(t *testing.T) {
	c := agent.StaticClaim(pool())
	if c.GenerateName != "np-" || len(c.Spec.Resources.Requests) != 0 {
		t.Errorf("generateName %q, requests %v", c.GenerateName, c.Spec.Resources.Requests)
	}
	want := map[string]string{"team": "a", "example.com/tier": "gold", "karpenter.sh/nodepool": "np", "karpenter.k8s.aws/ec2nodeclass": "default"}
	if d := cmp.Diff(want, c.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	keys := map[string]bool{}
	for _, r := range c.Spec.Requirements {
		keys[r.Key] = true
	}
	if d := cmp.Diff(map[string]bool{"example.com/tier": true, "karpenter.sh/capacity-type": true, "team": true}, keys); d != "" {
		t.Errorf("requirement keys (-want +got):\n%s", d)
	}
}

func TestOutcomeOf(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name string
		err  error
		want lifecycle.OutcomeKind
	}{
		{"capacity", &cloud.NoCapacity{}, lifecycle.NoCapacity}, {"class", &cloud.ClassNotReady{}, lifecycle.ClassNotReady},
		{"create", &cloud.CreateFailed{Reason: "X", Err: boom}, lifecycle.Failed}, {"unknown", &cloud.UnknownOutcome{Err: boom}, lifecycle.OpenOutcome},
		// What is not known to have launched nothing may have launched something.
		{"anything else", boom, lifecycle.OpenOutcome},
	} {
		if got := agent.OutcomeOf(nil, test.err).Kind; got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
	}
}

// An instance whose claim has not stored its provider ID yet is no orphan.
func TestClaimedBy(t *testing.T) {
	claims := []karpv1.NodeClaim{
		{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Status: karpv1.NodeClaimStatus{ProviderID: "p1"}}, {ObjectMeta: metav1.ObjectMeta{UID: "b"}},
	}
	got := agent.ClaimedBy(claims, []cloud.Instance{
		{ProviderID: "p2", LaunchID: "b/1"}, {ProviderID: "p3", LaunchID: "c/1"}, {ProviderID: "p4", LaunchID: "a/1"},
	})
	if d := cmp.Diff(map[string]bool{"p1": true, "p2": true}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestVerdicts(t *testing.T) {
	v := agent.NewVerdicts(nil)
	s := &cluster.Snapshot{At: start()}
	for _, name := range []string{"placed", "planned", "stuck"} {
		s.Pods = append(s.Pods, &cluster.Pod{UID: "uid-" + name, Namespace: "ns", Name: name, Shape: &cluster.Shape{}})
	}
	v.Record(s, &plan.Plan{
		Digest: "d", Placements: []plan.Placement{{Pod: "uid-placed", Node: "n1", Claim: "c1"}}, Claims: []plan.Claim{{Pods: []string{"uid-planned"}}},
		Verdicts: []plan.Verdict{{Pod: "uid-stuck", Code: "TooBig"}},
	})
	v.Created([]string{"uid-planned"}, "c2")
	for name, want := range map[string][3]any{"placed": {"n1", "c1", true}, "planned": {"", "c2", true}, "stuck": {"", "", false}} {
		a, at, decision, ok := v.Of(types.NamespacedName{Namespace: "ns", Name: name})
		node, claim, placed := a.Parts()
		if got := [3]any{node, claim, placed}; got != want || !ok || decision != "d" || !at.Equal(start()) {
			t.Errorf("%s: got %v, %v, %s at %v; want %v", name, got, ok, decision, at, want)
		}
	}
	if _, _, _, ok := v.Of(types.NamespacedName{Namespace: "ns", Name: "another"}); ok {
		t.Error("an answer for a pod nobody has asked about")
	}
}

func TestScale(t *testing.T) {
	for _, test := range []struct{ millicores, want int }{{1000, 10}, {500, 10}, {60000, 1000}, {120000, 1000}, {30500, 513}} {
		if got := agent.Scale(test.millicores, 10, 1000); got != test.want {
			t.Errorf("%d millicores: got %d, want %d", test.millicores, got, test.want)
		}
	}
}
