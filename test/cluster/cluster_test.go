package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/karp-sh/karp/test/cluster"
	"github.com/karp-sh/karp/test/cluster/control"
)

// kubernetesOnly is every component but the simulated AWS, which has tests of its own.
func kubernetesOnly() []string {
	return slices.DeleteFunc(control.Components(), func(c string) bool { return c == control.SimAWS })
}

// TestComponentsAreKilledAndRestartedOneByOne runs two sandboxes side by side, kills and restarts every component of the first,
// and looks after each whether the cluster still does its work and whether the second one was left alone.
func TestComponentsAreKilledAndRestartedOneByOne(t *testing.T) {
	victim, bystander := startTwo(t)
	for _, c := range []*cluster.Cluster{victim, bystander} {
		createNode(t, c, "one")
		deploy(t, c, "before", 3)
		awaitRunning(t, c, "before", 3)
	}
	for _, component := range kubernetesOnly() {
		victim.Kill(t, component)
		if got := componentOf(t, victim, component); got.State != control.Killed || got.PID != 0 || !strings.Contains(got.Exit, "killed") {
			t.Errorf("after kill %s: got %+v, want state %s, no process, and the signal as the exit", component, got, control.Killed)
		}
		victim.Start(t, component)
		if got := componentOf(t, victim, component); got.State != control.Running || got.Starts != 2 {
			t.Errorf("after start %s: got %+v, want it running for the second time", component, got)
		}
		deploy(t, victim, "after-"+component, 2)
		awaitRunning(t, victim, "after-"+component, 2)
	}
	victim.Restart(t, control.Scheduler)
	victim.Pause(t, control.APIServer)
	if got := componentOf(t, victim, control.APIServer).State; got != control.Paused {
		t.Errorf("after pause: got state %s, want %s", got, control.Paused)
	}
	victim.WaitReady(t)
	awaitRunning(t, victim, "before", 3)
	for _, c := range bystander.Status(t).Components {
		if c.State != control.Running || c.Starts != 1 {
			t.Errorf("the other sandbox: got %+v, want it untouched", c)
		}
	}
	awaitRunning(t, bystander, "before", 3)
	for _, c := range []*cluster.Cluster{victim, bystander} {
		closeAndLook(t, c)
	}
}

// startTwo starts two sandboxes at the same time.
func startTwo(t *testing.T) (a, b *cluster.Cluster) {
	t.Helper()
	var clusters [2]*cluster.Cluster
	var errs [2]error
	var both sync.WaitGroup
	for i := range clusters {
		both.Go(func() {
			clusters[i], errs[i] = cluster.Launch(t.Context(), cluster.Options{Components: kubernetesOnly()})
		})
	}
	both.Wait()
	for i, c := range clusters {
		if errs[i] != nil {
			t.Error(errs[i])
			continue
		}
		t.Cleanup(func() {
			if _, err := os.Stat(c.Dir); err == nil { // not closed by the test
				_ = c.Close() // the test has failed already
			}
		})
	}
	if t.Failed() {
		t.FailNow()
	}
	return clusters[0], clusters[1]
}

// closeAndLook ends a sandbox and looks for what it may have left.
func closeAndLook(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if before := processesOf(t, c.Dir); len(before) != 1+len(kubernetesOnly()) {
		t.Errorf("processes of a running sandbox: got %v, want one per component and the supervisor", before)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	if left := processesOf(t, c.Dir); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
	if _, err := os.Stat(c.Dir); !os.IsNotExist(err) {
		t.Errorf("folder left behind: %s (%v)", c.Dir, err)
	}
}

// TestStoppedKubelet takes the annotation from a node: its kubelet must stop, the node become unready, and come back with it.
func TestStoppedKubelet(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Components: kubernetesOnly(), NodeGrace: 6 * time.Second})
	createNode(t, c, "one")
	awaitNode(t, c, "one", corev1.ConditionTrue)
	awaitRenewals(t, c, "one", 12*time.Second) // twice the grace
	events, err := clientOf(t, c).CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=one,reason=NodeNotReady"})
	if err != nil {
		t.Fatal(err)
	}
	if len(events.Items) > 0 {
		t.Errorf("node with a kubelet that runs was found unready: %+v", events.Items)
	}
	annotate(t, c, "one", `null`)
	awaitNode(t, c, "one", corev1.ConditionUnknown)
	annotate(t, c, "one", `"fake"`)
	awaitNode(t, c, "one", corev1.ConditionTrue)
	// kwok sees nothing of this change but that the node is missing in the next list.
	c.Pause(t, control.Kwok)
	annotate(t, c, "one", `null`)
	c.Restart(t, control.APIServer)
	c.Resume(t, control.Kwok)
	awaitNode(t, c, "one", corev1.ConditionUnknown)
}

// TestUnaskedEnd ends a component behind the supervisor's back: the sandbox must say so and end.
func TestUnaskedEnd(t *testing.T) {
	c, err := cluster.Launch(t.Context(), cluster.Options{Components: []string{control.Etcd, control.APIServer}})
	if err != nil {
		t.Fatal(err)
	}
	pid := componentOf(t, c, control.Etcd).PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.AwaitEnd()
	err = c.Close()
	if err == nil || !strings.Contains(err.Error(), "etcd ended unasked") {
		t.Errorf("closing after etcd was killed: got error %v, want it to name etcd", err)
	}
	if left := processesOf(t, c.Dir); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
}

func componentOf(t *testing.T, c *cluster.Cluster, name string) control.Component {
	t.Helper()
	component, ok := c.Status(t).Component(name)
	if !ok {
		t.Fatalf("status has no component %s", name)
	}
	return component
}

func clientOf(t *testing.T, c *cluster.Cluster) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func createNode(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status:     corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
	if _, err := clientOf(t, c).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func annotate(t *testing.T, c *cluster.Cluster, node, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"kwok.x-k8s.io/node":%s}}}`, value)
	_, err := clientOf(t, c).CoreV1().Nodes().Patch(t.Context(), node, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func deploy(t *testing.T, c *cluster.Cluster, name string, replicas int32) {
	t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/app"}}},
			},
		},
	}
	if _, err := clientOf(t, c).AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func awaitRunning(t *testing.T, c *cluster.Cluster, app string, want int) {
	t.Helper()
	q := cluster.Query{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "default", Labels: "app=" + app}
	cluster.Await(t, c, q, func(pods []corev1.Pod) string {
		running, others := 0, ""
		for _, p := range pods {
			others += fmt.Sprintf("\n%s on %q: %s %+v", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.Conditions)
			if p.Status.Phase == corev1.PodRunning && p.Spec.NodeName != "" {
				running++
			}
		}
		if running == want {
			return ""
		}
		return fmt.Sprintf("%d of %d pods of %s run, %d exist: %s", running, want, app, len(pods), others)
	})
}

func awaitNode(t *testing.T, c *cluster.Cluster, name string, want corev1.ConditionStatus) {
	t.Helper()
	q := cluster.Query{Resource: corev1.SchemeGroupVersion.WithResource("nodes")}
	cluster.Await(t, c, q, func(nodes []corev1.Node) string {
		for _, n := range nodes {
			for _, condition := range n.Status.Conditions {
				if n.Name == name && condition.Type == corev1.NodeReady && condition.Status == want {
					return ""
				}
			}
		}
		return fmt.Sprintf("node %s is not Ready=%s", name, want)
	})
}

// awaitRenewals waits until a node's lease was renewed over a span of time.
func awaitRenewals(t *testing.T, c *cluster.Cluster, node string, span time.Duration) {
	t.Helper()
	var first time.Time
	q := cluster.Query{Resource: coordinationv1.SchemeGroupVersion.WithResource("leases"), Namespace: "kube-node-lease"}
	cluster.Await(t, c, q, func(leases []coordinationv1.Lease) string {
		for _, l := range leases {
			if l.Name != node || l.Spec.RenewTime == nil {
				continue
			}
			if first.IsZero() {
				first = l.Spec.RenewTime.Time
			}
			if l.Spec.RenewTime.Sub(first) >= span {
				return ""
			}
		}
		return fmt.Sprintf("lease of %s was not renewed for %s since %s", node, span, first)
	})
}

// processesOf lists the command lines of the processes that have dir in theirs.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skipf("this system does not list processes: %v", err)
	}
	var out []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		// A process may end between the two.
		raw, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if line := strings.ReplaceAll(string(raw), "\x00", " "); strings.Contains(line, dir) {
			out = append(out, e.Name()+" "+line)
		}
	}
	return out
}
