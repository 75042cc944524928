package simaws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/karp-sh/karp/test/simaws/bootstrap"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

// A runner plays the kubelets' first and last steps; in between kwok, or
// whoever NodeAnnotations name, plays the kubelet.
type runner struct {
	server *Server
	admin  kubernetes.Interface // nil without an API server
	slots  chan struct{}
	busy   sync.WaitGroup
}

// joinsAtOnce limits the nodes that register at the same time.
const joinsAtOnce = 32

func (s *Server) newRunner() (*runner, error) {
	r := &runner{server: s, slots: make(chan struct{}, joinsAtOnce)}
	if s.opts.Kubernetes == nil {
		return r, nil
	}
	admin, err := kubernetes.NewForConfig(unlimited(s.opts.Kubernetes))
	if err != nil {
		return nil, fmt.Errorf("making the client for nodes: %w", err)
	}
	r.admin = admin
	return r, nil
}

// unlimited is the config without the client's own rate limit.
func unlimited(c *rest.Config) *rest.Config {
	copied := rest.CopyConfig(c)
	copied.QPS = -1
	return copied
}

func (r *runner) wait() { r.busy.Wait() }

// step starts what is due; each boot and each stop goes its own way.
func (r *runner) step(ctx context.Context) {
	for _, i := range r.server.cloud.TakeBoots() {
		r.start(ctx, func() { r.boot(ctx, i) })
	}
	for _, i := range r.server.cloud.TakeStops() {
		r.start(ctx, func() { r.stop(ctx, i) })
	}
}

func (r *runner) start(ctx context.Context, do func()) {
	r.busy.Go(func() {
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-r.slots }()
		do()
	})
}

// boot runs the user data and joins the cluster.
func (r *runner) boot(ctx context.Context, i *cloud.Instance) {
	m, err := r.server.machine(i)
	if err == nil && r.admin == nil {
		err = errors.New("simaws has no API server to join")
	}
	if err != nil {
		r.server.cloud.SetBoot(i.ID, cloud.Boot{State: cloud.BootFailed, Reason: err.Error()})
		r.server.log.Info("instance never joins", "instance", i.ID, "reason", err.Error())
		return
	}
	if err := r.join(ctx, m); err != nil {
		r.server.cloud.SetBoot(i.ID, cloud.Boot{State: cloud.BootFailed, Reason: err.Error()})
		r.server.log.Warn("instance cannot join", "instance", i.ID, "reason", err.Error())
		return
	}
	r.server.cloud.SetBoot(i.ID, cloud.Boot{State: cloud.BootJoined, NodeName: i.PrivateDNS})
	if devices := m.devices(); len(devices) > 0 {
		r.plugIn(ctx, m, devices)
	}
}

// machine runs the bootstrap of an instance's image: an error is why the
// kubelet never starts or never gets in.
func (s *Server) machine(i *cloud.Instance) (*machine, error) {
	image, err := s.cloud.BootImage(i.ImageID)
	if err != nil {
		return nil, err
	}
	config, err := bootstrap.Decode(image.Family, i.UserData)
	if err != nil {
		return nil, err
	}
	o := s.cloud.Options()
	want := bootstrap.Cluster{Name: o.ClusterName, Endpoint: o.ClusterEndpoint, CertificateAuthority: o.CertificateAuthority}
	if err := config.Check(want); err != nil {
		return nil, err
	}
	if _, err := s.cloud.RoleOf(i); err != nil {
		return nil, fmt.Errorf("no credentials for the kubelet: %w", err)
	}
	typ, ok := s.cloud.Data().Type(i.Type)
	if !ok {
		return nil, fmt.Errorf("unknown instance type %q", i.Type)
	}
	m := &machine{instance: i, typ: typ, image: image, config: config, region: o.Region, version: s.opts.KubeletVersion, ipv6: s.cloud.IPv6()}
	if image.Kubernetes != "" && image.Kubernetes != o.KubernetesVersion {
		m.version = "v" + image.Kubernetes + ".0"
	}
	return m, nil
}

// as is a client with the identity of a node.
func (r *runner) as(node string) (kubernetes.Interface, error) {
	c := unlimited(r.server.opts.Kubernetes)
	c.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}}
	return kubernetes.NewForConfig(c)
}

// join registers the node as its kubelet and then does the cloud controller's
// part. Everything is tried again while the instance runs, as kubelets do; what
// the API server said last is told as the reason meanwhile.
func (r *runner) join(ctx context.Context, m *machine) error {
	kubelet, err := r.as(m.instance.PrivateDNS)
	if err != nil {
		return fmt.Errorf("making the kubelet's client: %w", err)
	}
	return r.persist(ctx, m.instance.ID, func() error {
		node := m.node(r.server.opts.NodeAnnotations, r.server.opts.Cloud.Clock.Now())
		_, err := kubelet.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			have, getErr := r.admin.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
			if getErr != nil || have.Spec.ProviderID != node.Spec.ProviderID {
				return fmt.Errorf("another Node has the name: %w", err)
			}
			err = r.wakeUp(ctx, have) // this call's own node: its answer was lost, or the instance was stopped
		}
		if err != nil {
			return fmt.Errorf("registering the node: %w", err)
		}
		return r.initialize(ctx, m)
	})
}

// wakeUp gives a node that exists the annotations that keep its kubelet played.
func (r *runner) wakeUp(ctx context.Context, node *corev1.Node) error {
	_, err := r.admin.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType,
		mustJSON(map[string]any{"metadata": map[string]any{"annotations": r.server.opts.NodeAnnotations}}), metav1.PatchOptions{})
	return err
}

// initialize is the cloud controller: it labels the node and unlocks it.
func (r *runner) initialize(ctx context.Context, m *machine) error {
	nodes := r.admin.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, m.instance.PrivateDNS, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for k, v := range m.cloudLabels() {
			node.Labels[k] = v
		}
		kept := node.Spec.Taints[:0]
		for _, t := range node.Spec.Taints {
			if t.Key != uninitialized {
				kept = append(kept, t)
			}
		}
		node.Spec.Taints = kept
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("initializing the node: %w", err)
	}
	return nil
}

// retryAfter is the pause between tries.
const retryAfter = time.Second

// persist tries until it works or there is no point in it any more. A kubelet
// does not take a refusal for final: an API server that is starting forbids
// everything until it knows its roles, and admission policies change.
func persist(ctx context.Context, worthwhile func() bool, refused func(error), try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		refused(err)
		if !worthwhile() || !wait(ctx, retryAfter) {
			return err
		}
	}
}

// persist tries while an instance runs, and tells what it is refused with.
func (r *runner) persist(ctx context.Context, instance string, try func() error) error {
	return persist(ctx, r.running(instance), func(err error) {
		r.server.cloud.SetBoot(instance, cloud.Boot{State: cloud.BootStarted, Reason: err.Error()})
	}, try)
}

// running tells whether it is worthwhile to go on with an instance's boot.
func (r *runner) running(id string) func() bool {
	return func() bool { return r.server.cloud.Runs(id) }
}

func always() bool { return true }

// plugIn makes the device plugins' resources appear after their delay.
func (r *runner) plugIn(ctx context.Context, m *machine, devices corev1.ResourceList) {
	r.busy.Go(func() {
		if !wait(ctx, r.server.cloud.Options().DevicePluginDelay) {
			return
		}
		kubelet, err := r.as(m.instance.PrivateDNS)
		if err != nil {
			r.server.log.Warn("device plugin", "instance", m.instance.ID, "error", err.Error())
			return
		}
		err = persist(ctx, r.running(m.instance.ID), func(error) {}, func() error {
			_, err := kubelet.CoreV1().Nodes().Patch(ctx, m.instance.PrivateDNS, types.MergePatchType,
				mustJSON(map[string]any{"status": map[string]any{"capacity": devices, "allocatable": devices}}), metav1.PatchOptions{}, "status")
			if apierrors.IsNotFound(err) {
				return nil // the node has been deleted
			}
			return err
		})
		if err != nil {
			r.server.log.Warn("device plugin", "instance", m.instance.ID, "error", err.Error())
		}
	})
}

// mustJSON encodes what always encodes: maps of strings and quantities.
func mustJSON(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return out
}

// stop ends the kubelet: the annotations that keep it played are taken away.
// The Node stays; the node controller finds it unreachable.
func (r *runner) stop(ctx context.Context, i *cloud.Instance) {
	r.server.cloud.SetBoot(i.ID, cloud.Boot{State: cloud.BootStopped, NodeName: i.Boot.NodeName})
	if r.admin == nil || i.Boot.NodeName == "" {
		return
	}
	gone := map[string]any{}
	for k := range r.server.opts.NodeAnnotations {
		gone[k] = nil
	}
	err := persist(ctx, always, func(error) {}, func() error {
		node, err := r.admin.CoreV1().Nodes().Get(ctx, i.Boot.NodeName, metav1.GetOptions{})
		if err != nil || node.Spec.ProviderID != "aws:///"+i.Zone+"/"+i.ID {
			return ignoreNotFound(err)
		}
		_, err = r.admin.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType,
			mustJSON(map[string]any{"metadata": map[string]any{"annotations": gone, "uid": node.UID}}), metav1.PatchOptions{})
		return ignoreNotFound(err)
	})
	if err != nil {
		r.server.log.Warn("stopping a kubelet", "instance", i.ID, "error", err.Error())
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
