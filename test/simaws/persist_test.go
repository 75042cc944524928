package simaws_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/karp-sh/karp/test/simaws"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

// startingAPI is an API server that forbids the first node, as one does that
// has not read its roles yet.
type startingAPI struct {
	mu       sync.Mutex
	node     *corev1.Node
	refusals int
	said     []string // what simaws told of the boot after each refusal
	tell     func() string
}

func (a *startingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(status int, body any) {
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(body); err != nil {
			return
		}
	}
	in := &corev1.Node{}
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(in); err != nil {
			answer(http.StatusBadRequest, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonBadRequest, Code: 400, Message: err.Error()})
			return
		}
	}
	switch {
	case r.Method == http.MethodPost && a.refusals > 0:
		a.refusals--
		a.said = append(a.said, a.tell())
		answer(http.StatusForbidden, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: 403, Message: "nodes is forbidden"})
	case r.Method == http.MethodPost, r.Method == http.MethodPut:
		in.TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
		a.node = in
		answer(http.StatusCreated, in)
	default:
		answer(http.StatusOK, a.node)
	}
}

func TestForbiddenIsNotFinal(t *testing.T) {
	api := &startingAPI{refusals: 2}
	web := httptest.NewServer(api)
	t.Cleanup(web.Close)
	server, err := simaws.New(simaws.Options{Kubernetes: &rest.Config{Host: web.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}})
	if err != nil {
		t.Fatal(err)
	}
	boot := func() simaws.InstanceInfo { return server.InstanceInfos()[0] }
	api.tell = func() string { return boot().BootReason }
	launchNode(t, server.Cloud())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	for deadline := time.Now().Add(time.Minute); boot().Boot != cloud.BootJoined && boot().Boot != cloud.BootFailed && time.Now().Before(deadline); {
		<-time.After(20 * time.Millisecond)
	}
	if got := boot(); got.Boot != cloud.BootJoined {
		t.Errorf("after two refusals the boot is %s: %s", got.Boot, got.BootReason)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(api.said) != 2 || api.said[0] != "" || api.said[1] != "registering the node: nodes is forbidden" {
		t.Errorf("told of the boot: %q", api.said)
	}
	if api.node == nil || len(api.node.Spec.Taints) != 0 || api.node.Labels[corev1.LabelTopologyZone] != "us-east-1a" {
		t.Errorf("the node: %+v", api.node)
	}
}

// launchNode launches an instance that can join.
func launchNode(t *testing.T, c *cloud.Cloud) {
	t.Helper()
	if _, err := c.CreateProfile("nodes", "/", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.AddRoleToProfile("nodes", c.Options().Roles[0]); err != nil {
		t.Fatal(err)
	}
	image, err := c.Parameter("/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if err != nil {
		t.Fatal(err)
	}
	subnets, err := c.Subnets(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Run(cloud.RunRequest{Type: "m5.large", ImageID: image, Subnet: subnets[0].ID, Min: 1, Max: 1, Data: cloud.LaunchData{
		UserData: base64.StdEncoding.EncodeToString([]byte(nodeConfig(""))), Profile: &cloud.ProfileRef{Name: "nodes"}}})
	if err != nil {
		t.Fatal(err)
	}
}
