package fault

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/test/cluster"
	"github.com/karp-sh/karp/test/e2e/stage"
)

var sandbox = cluster.Shared{Options: stage.Shared()}

func TestMain(m *testing.M) { os.Exit(sandbox.Main(m)) }

// TestCrash runs a script of everything the agent does for a node - provide it, replace it, take it away - and kills the agent once before, or
// once after, each kind of write, or breaks the connection there. KARP_FAULT_TIMES does so more often at each. Whatever the moment: the pods run in the end, each claim has
// had one instance, and none is left (I1, I2, I2b, I4, I13, I15, I16, I18; L-027, L-305, L-306).
func TestCrash(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv("KARP_FAULT_TIMES"))
	if err != nil {
		times = 1
	}
	for _, moment := range []Moment{After, Before, Lost, Dropped} {
		t.Run(string(moment), func(t *testing.T) { script(t, &Gate{Moment: moment, Times: times}) })
	}
}

// script is the life of two nodes, with a gate in between.
func script(t *testing.T, g *Gate) {
	s := stage.New(t, sandbox.Cluster(t))
	t.Cleanup(func() { removeRest(t, s) })
	var agent *supervisor
	ready := make(chan struct{})
	g.Kill = func() { <-ready; agent.kill() }
	g.Check = func(action string, form url.Values) string { return promised(s, action, form) }
	api, err := g.api(s.Cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	s.AWSURL, s.Kubeconfig = serve(t, g.aws(s.AWS)), kubeconfig(t, serve(t, api))
	twins := watchTwins(t, s)
	agent = supervise(t, s)
	close(ready)

	const patience = 6 * time.Minute
	s.Create(t, stage.Deployment("web", 2, "1", true))
	s.EventuallyWithin(t, patience, "pods to run", s.PodsRunning("web", 2))
	launched(t, s, 2)

	old := s.Claims(t)[0]
	if err := s.Client.Delete(t.Context(), &old); err != nil {
		t.Fatal(err)
	}
	s.EventuallyWithin(t, patience, "the deleted claim to be gone", func(ctx context.Context) (string, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(&old), &karpv1.NodeClaim{})
		if err == nil {
			return "it is there; ", nil
		}
		return "", client.IgnoreNotFound(err)
	})
	s.EventuallyWithin(t, patience, "pods to run again", s.PodsRunning("web", 2))
	launched(t, s, 3)

	if err := s.Client.Delete(t.Context(), stage.Deployment("web", 2, "1", true)); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []client.Object{&karpv1.NodePool{}, &karpv1.NodeClaim{}, &awsv1.EC2NodeClass{}} {
		if err := s.Client.DeleteAllOf(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	s.EventuallyWithin(t, patience, "everything to be gone", func(ctx context.Context) (string, error) { return everything(ctx, s) })
	launched(t, s, 3)
	if list := twins(); len(list) > 0 {
		t.Errorf("I2: two instances ran for one claim: %v", list)
	}
	for _, v := range g.Violations() {
		t.Error(v)
	}
	crashed, missed := g.Sites()
	t.Logf("faults: moment=%s lives=%d sites=%d/%d violations=%d\n  crashed at: %s\n  reached only after the last crash: %s", g.Moment, agent.count(),
		len(crashed), len(crashed)+len(missed), len(g.Violations()), strings.Join(slices.Sorted(maps.Keys(crashed)), ", "), strings.Join(missed, ", "))
	for _, site := range []string{"POST nodeclaims", "PATCH nodeclaims", "PATCH nodeclaims/status", "AWS CreateFleet", "AWS TerminateInstances", "PATCH nodes", "DELETE nodes", "POST pods/eviction"} {
		if crashed[site] == 0 {
			t.Errorf("no crash at %s", site)
		}
	}
}

// launched checks that so many instances were launched until now, each for another claim (I2, I2b).
func launched(t *testing.T, s *stage.Stage, want int) {
	t.Helper()
	all := s.AWS.InstanceInfos()
	byClaim := map[string][]string{}
	for _, i := range all {
		claim, _, _ := strings.Cut(i.Tags["karp.sh/launch-id"], "/")
		byClaim[claim] = append(byClaim[claim], i.ID)
	}
	if len(all) != want || len(byClaim) != want {
		t.Errorf("I2, I2b: %d instances were launched for %d claims, want %d: %v", len(all), len(byClaim), want, byClaim)
	}
}

// watchTwins looks all the time whether two instances live for one claim; the returned function ends it and names those claims.
func watchTwins(t *testing.T, s *stage.Stage) func() []string {
	ctx, cancel := context.WithCancel(t.Context())
	found := map[string]bool{}
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			seen := map[string]bool{}
			for _, i := range s.Alive() {
				claim, _, _ := strings.Cut(i.Tags["karp.sh/launch-id"], "/")
				found[claim] = found[claim] || seen[claim]
				seen[claim] = true
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(func() { cancel(); group.Wait() })
	return func() []string {
		cancel()
		group.Wait()
		return slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(claim string) bool { return !found[claim] })
	}
}

// promised checks the order of write-ahead: a launch carries a token that a claim has recorded before (I15), and always with the same
// request (I4, which the simulated EC2 itself enforces).
func promised(s *stage.Stage, action string, form url.Values) string {
	if action != "CreateFleet" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var list karpv1.NodeClaimList
	if err := s.Client.List(ctx, &list); err != nil {
		return fmt.Sprintf("listing claims to check a launch: %v", err)
	}
	token := form.Get("ClientToken")
	for _, c := range list.Items {
		if strings.Contains(c.Annotations["karp.sh/intent"], `"token":"`+token+`"`) {
			return ""
		}
	}
	return fmt.Sprintf("I15: CreateFleet with token %q, which no claim has recorded", token)
}

// everything says what is left of claims, nodes, instances, pools and classes.
func everything(ctx context.Context, s *stage.Stage) (string, error) {
	left, err := s.Nothing(ctx)
	if left != "" || err != nil {
		return left, err
	}
	var classes awsv1.EC2NodeClassList
	if err := s.Client.List(ctx, &classes); err != nil {
		return "", err
	}
	if n := len(classes.Items); n > 0 {
		return fmt.Sprintf("%d classes are left; ", n), nil
	}
	return "", nil
}

// removeRest takes away by force what a failed script has left, so that the next one starts on an empty stage.
func removeRest(t *testing.T, s *stage.Stage) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if left, err := everything(ctx, s); left == "" && err == nil {
		return
	}
	a, err := s.Spawn(t.TempDir() + "/cleaner.log")
	if err != nil {
		t.Error(err)
		return
	}
	defer a.Kill()
	_ = s.Client.Delete(ctx, stage.Deployment("web", 2, "1", true))
	for _, kind := range []client.Object{&karpv1.NodePool{}, &karpv1.NodeClaim{}, &awsv1.EC2NodeClass{}} {
		_ = s.Client.DeleteAllOf(ctx, kind)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := everything(ctx, s)
		if left == "" && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("clearing the stage: %s%v", left, err)
			return
		case <-tick.C:
		}
	}
}
