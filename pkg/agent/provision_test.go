package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/agent"
	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/test/fault/sim"
	"github.com/karp-sh/karp/test/fault/simkube"
)

// stage is a world whose provisioner runs by itself.
type stage struct {
	*sim.World
	t     *testing.T
	begun time.Time
}

// onStage runs f in virtual time, with pool np.
func onStage(t *testing.T, edit func(*config.Config), f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, err := sim.New(1, edit)
		if err != nil {
			t.Fatal(err)
		}
		s := &stage{World: w, t: t}
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "np", UID: "uid-np"}}
		pool.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassRef{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: "default"}
		pool.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()}}
		s.put(pool)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.Loops.Provision(ctx); close(done) }()
		synctest.Wait()
		time.Sleep(time.Millisecond) // so that no two things happen at the same instant
		s.begun = time.Now()
		f(s)
		stop()
		<-done
	})
}

// put adds or changes an object and shows it to the agent.
func (s *stage) put(obj client.Object) {
	s.t.Helper()
	if err := s.Server.Put(obj); err != nil {
		s.t.Fatal(err)
	}
	s.show()
}

func (s *stage) show() {
	s.Sync()
	synctest.Wait()
	s.Sync()
}

// at waits until so long after the beginning.
func (s *stage) at(after time.Duration) {
	time.Sleep(time.Until(s.begun.Add(after)))
	s.show()
}

// pod adds a pod that waits for a place; cpu empty stands for one core.
func (s *stage) pod(name, cpu string) {
	s.t.Helper()
	if cpu == "" {
		cpu = "1"
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	s.put(p)
}

// touch makes an event on a pod that changes nothing about it.
func (s *stage) touch(name string) {
	s.t.Helper()
	s.edit(name, func(p *corev1.Pod) { p.Annotations = map[string]string{"touched": time.Now().String()} })
}

func (s *stage) edit(name string, change func(*corev1.Pod)) {
	s.t.Helper()
	var p corev1.Pod
	if err := s.Server.Edit(types.NamespacedName{Namespace: "ns", Name: name}, &p, func() { change(&p) }); err != nil {
		s.t.Fatal(err)
	}
	s.show()
}

// passes is how many passes have been made: there is one observation of each (S-420).
func (s *stage) passes() int {
	s.t.Helper()
	n, _, err := s.Metric("scheduler_scheduling_duration_seconds{controller=provisioner}")
	if err != nil {
		s.t.Fatal(err)
	}
	return int(n)
}

// expect compares the number of passes so far, at an instant.
func (s *stage) expect(after time.Duration, want int) {
	s.t.Helper()
	s.at(after)
	if got := s.passes(); got != want {
		s.t.Errorf("%d passes after %v, want %d", got, after, want)
	}
}

// events lists what was published with a reason.
func (s *stage) events(reason string) []string {
	out := []string{}
	for _, e := range s.Events {
		if e.Reason == reason {
			out = append(out, e.Object)
		}
	}
	slices.Sort(out)
	return out
}

// TestBatching holds the rows of 32.3: when passes begin. A pass is looked for just before and just after it is due.
func TestBatching(t *testing.T) {
	const just = 20 * time.Millisecond
	second := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	type step struct {
		at    float64
		event string // a new pod, or one that is touched if it ends in !
	}
	tests := []struct {
		name      string
		steps     []step
		due       []float64
		until     float64
		idle, max time.Duration
	}{
		{name: "S-033 one pod", steps: []step{{0, "a"}}, due: []float64{1}, until: 5},
		{name: "S-034 three in a row", steps: []step{{0, "a"}, {0.8, "b"}, {1.6, "c"}}, due: []float64{2.6}, until: 5},
		{name: "S-036 the same again", steps: []step{{0, "a"}, {0.8, "a!"}}, due: []float64{1}, until: 5},
		{name: "S-037 the same after a pass", steps: []step{{0, "a"}, {1.2, "a!"}}, due: []float64{1, 2.2}, until: 5},
		{name: "S-038 nothing", until: 5},
		{name: "S-040 longer windows", steps: []step{{0, "a"}, {2, "b"}, {4, "c"}}, due: []float64{5}, until: 7, idle: 3 * time.Second, max: 5 * time.Second},
	}
	busy := struct {
		name      string
		steps     []step
		due       []float64
		until     float64
		idle, max time.Duration
	}{name: "S-035 a new pod every half second", due: []float64{10}, until: 12}
	for i := range 40 {
		busy.steps = append(busy.steps, step{float64(i) / 2, fmt.Sprint("p", i)})
	}
	for _, tt := range append(tests, busy) {
		t.Run(tt.name, func(t *testing.T) {
			edit := func(c *config.Config) {
				if tt.idle > 0 {
					c.BatchIdleDuration, c.BatchMaxDuration = tt.idle, tt.max
				}
			}
			onStage(t, edit, func(s *stage) {
				steps, seen := tt.steps, 0
				play := func(until time.Duration) {
					for len(steps) > 0 && second(steps[0].at) < until {
						s.at(second(steps[0].at))
						if name, again := strings.CutSuffix(steps[0].event, "!"); again {
							s.touch(name)
						} else {
							s.pod(steps[0].event, "")
						}
						steps = steps[1:]
					}
				}
				for _, due := range tt.due {
					play(second(due))
					s.expect(second(due)-just, seen)
					seen++
					s.expect(second(due)+just, seen)
				}
				play(second(tt.until))
				s.expect(second(tt.until), seen)
			})
		})
	}
}

// TestTriggerDuringPass holds S-039: a pod that comes while a pass runs is in the next one, without another trigger.
func TestTriggerDuringPass(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		slow := true
		s.Fault = func(w simkube.Write) simkube.Fault {
			if slow && w.Site == "POST nodeclaims" {
				slow = false
				time.Sleep(3 * time.Second)
			}
			return simkube.None
		}
		s.pod("a", "3")
		s.at(2 * time.Second)
		s.pod("b", "3") // the pass has begun after 1 s
		s.expect(3900*time.Millisecond, 1)
		s.expect(5100*time.Millisecond, 2)
		if got := len(s.claims()); got != 2 {
			t.Errorf("%d claims, want one for each pod", got)
		}
	})
}

func (s *stage) claims() []karpv1.NodeClaim {
	s.t.Helper()
	var list karpv1.NodeClaimList
	if err := s.API.Live().List(s.t.Context(), &list); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// TestRepeatedTriggers holds S-043: a pod that stays without a place is tried every 10 s, until it has one.
func TestRepeatedTriggers(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		s.pod("a", "100")
		for i, due := range []time.Duration{1, 11, 21, 31} {
			s.expect(due*time.Second+500*time.Millisecond, i+1)
		}
		s.at(35 * time.Second)
		s.edit("a", func(p *corev1.Pod) { p.Spec.NodeName = "elsewhere" })
		s.expect(60*time.Second, 4)
	})
}

// TestCreationFails holds S-411: the other claims are created, the pass is made again, and only pods whose claim exists are told of it.
func TestCreationFails(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		left := 1
		s.Fault = func(w simkube.Write) simkube.Fault {
			if w.Site == "POST nodeclaims" && left > 0 {
				left--
				return simkube.Throttled
			}
			return simkube.None
		}
		for _, name := range []string{"a", "b", "c"} {
			s.pod(name, "3")
		}
		s.at(1100 * time.Millisecond)
		if claims, told := len(s.claims()), len(s.events("Nominated")); claims != 2 || told != 2 {
			t.Errorf("%d claims, %d pods told, want 2 and 2", claims, told)
		}
		s.at(5 * time.Second)
		if got := s.events("Nominated"); len(s.claims()) != 3 || !cmp.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("later %d claims and %v told, want all", len(s.claims()), got)
		}
	})
}

// TestSchedulingEvents holds S-414 and S-415: passes every 10 s tell a placed pod every two minutes where it will go, and one without a place every five
// why not.
func TestSchedulingEvents(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		s.pod("fits", "1")
		s.pod("large", "100")
		s.at(time.Minute)
		if got := s.events("Nominated"); !cmp.Equal(got, []string{"fits"}) {
			t.Errorf("nominated within a minute: %v, want one event", got)
		}
		s.at(6 * time.Minute)
		if got := s.events("FailedScheduling"); !cmp.Equal(got, []string{"large", "large"}) {
			t.Errorf("failed within six minutes: %v, want two events", got)
		}
		if s.passes() < 30 {
			t.Errorf("only %d passes", s.passes())
		}
	})
}

// TestUnschedulableCount holds S-416 as far as this catalogue goes, which has no reservations: what is left over and what was ignored.
func TestUnschedulableCount(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		s.pod("fits", "1")
		s.pod("large", "100")
		ignored := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ignored", UID: "ignored"}}
		ignored.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "n"}
		ignored.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		s.put(ignored)
		s.at(2 * time.Second)
		for name, want := range map[string]float64{"scheduler_unschedulable_pods_count{controller=provisioner}": 1, "scheduler_ignored_pods_count": 1} {
			if got, ok, err := s.Metric(name); got != want || !ok || err != nil {
				t.Errorf("%s is %v (%v, %v), want %v", name, got, ok, err, want)
			}
		}
		if s.passes() != 1 {
			t.Errorf("%d passes and observations, want one (S-420)", s.passes())
		}
	})
}

// TestBookkeeping holds S-421: a bound pod has no entry, and the entry of a pod that is gone goes too.
func TestBookkeeping(t *testing.T) {
	v := agent.NewVerdicts(nil)
	snapshot := func(pods ...*cluster.Pod) *cluster.Snapshot { return &cluster.Snapshot{At: start(), Pods: pods} }
	waiting, bound := &cluster.Pod{UID: "w", Namespace: "ns", Name: "waiting", Shape: &cluster.Shape{}}, &cluster.Pod{UID: "b", Namespace: "ns", Name: "bound", Node: "n", Shape: &cluster.Shape{}}
	decision := &plan.Plan{Placements: []plan.Placement{{Pod: "w", Node: "n"}, {Pod: "b", Node: "m"}}} // b moves off a node that goes
	has := func(name string) bool {
		_, _, _, ok := v.Of(types.NamespacedName{Namespace: "ns", Name: name})
		return ok
	}
	v.Record(snapshot(waiting, bound), decision)
	if !has("waiting") || has("bound") {
		t.Errorf("entries of the waiting pod: %v, of the bound one: %v", has("waiting"), has("bound"))
	}
	v.Record(snapshot(bound), &plan.Plan{})
	if has("waiting") {
		t.Error("the entry of a pod that is gone has stayed")
	}
}
