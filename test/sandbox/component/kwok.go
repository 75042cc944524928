package component

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/client"
)

const (
	// leaseHolder is the same for every process of a sandbox: only one runs at a time, and a new one must not wait until
	// the lease of the one before has run out.
	leaseHolder = "karp-sandbox-kwok"
	// workers is how many goroutines play stages, per kind.
	workers = 8
)

// runKwok simulates the kubelets of all nodes that carry the annotation kwok.x-k8s.io/node=fake, and the driver of their EBS
// volumes.
func runKwok(args []string) error {
	fs := flag.NewFlagSet("kwok", flag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "kubeconfig of the API server")
	listen := fs.String("listen", "", "address to serve /healthz on")
	lease := fs.Uint("lease-seconds", 40, "duration of a node's lease, which is renewed every quarter of it; 40 is a kubelet's")
	if err := parse(fs, args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx = log.NewContext(ctx, log.NewLogger(os.Stderr, log.LevelWarn))

	conf, err := kwokConfig(*kubeconfig, *lease)
	if err != nil {
		return err
	}
	controller, err := controllers.NewController(conf)
	if err != nil {
		return fmt.Errorf("making the controller: %w", err)
	}
	if err := controller.Start(ctx); err != nil {
		return fmt.Errorf("starting the controller: %w", err)
	}
	driver, err := newVolumes(conf.TypedClient)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { defer close(done); driver.run(ctx) }()
	err = serveHealth(ctx, *listen)
	stop()
	<-done
	return err
}

func serveHealth(ctx context.Context, address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
		return errors.Join(server.Close())
	}
}

func kwokConfig(kubeconfig string, leaseSeconds uint) (controllers.Config, error) {
	clients, err := client.NewClientset("", kubeconfig)
	if err != nil {
		return controllers.Config{}, fmt.Errorf("reading kubeconfig: %w", err)
	}
	restConfig, err := clients.ToRESTConfig()
	if err != nil {
		return controllers.Config{}, fmt.Errorf("reading kubeconfig: %w", err)
	}
	dynamicClient, err := clients.ToDynamicClient()
	if err != nil {
		return controllers.Config{}, err
	}
	mapper, err := clients.ToRESTMapper()
	if err != nil {
		return controllers.Config{}, err
	}
	restClient, err := rest.RESTClientFor(restConfig)
	if err != nil {
		return controllers.Config{}, fmt.Errorf("making client: %w", err)
	}
	typed, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return controllers.Config{}, fmt.Errorf("making client: %w", err)
	}
	stages, err := kwokStages()
	if err != nil {
		return controllers.Config{}, err
	}
	return controllers.Config{
		Clock: clock.RealClock{}, DynamicClient: dynamicClient, RESTClient: restClient, RESTMapper: mapper,
		ImpersonatingDynamicClient: clients.ToImpersonatingDynamicClient(),
		ImpersonatingTypedClient:   clients.ToImpersonatingTypedClient(),
		TypedClient:                newOnlyFakeNodes(typed),
		// onlyFakeNodes selects the nodes already; kwok wants a selector of its own as well.
		ManageNodesWithAnnotationSelector: FakeNodeAnnotation + "=" + FakeNodeValue,
		CIDR:                              "10.244.0.0/16", NodeIP: "127.0.0.1", LocalStages: stages, ID: leaseHolder,
		PodPlayStageParallelism: workers, NodePlayStageParallelism: workers, NodeLeaseParallelism: workers,
		NodeLeaseDurationSeconds: leaseSeconds, PodsOnNodeSyncParallelism: workers,
	}, nil
}

// kwokStages are kwok's own fast stages. Every pod stage waits as long as the pod's annotation
// STAGE.stage.kwok.x-k8s.io/delay says (a Go duration), or not at all: pod-ready, pod-complete (pods of Jobs), pod-delete.
func kwokStages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	out := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, text := range []string{nodefast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete} {
		stage, err := config.UnmarshalWithType[*internalversion.Stage](text)
		if err != nil {
			return nil, fmt.Errorf("reading a stage of kwok: %w", err)
		}
		if stage.Spec.ResourceRef.Kind == "Pod" {
			expression := fmt.Sprintf(`.metadata.annotations[%q]`, stage.Name+".stage.kwok.x-k8s.io/delay")
			stage.Spec.Delay = &internalversion.StageDelay{
				DurationMilliseconds: new(int64(0)),
				DurationFrom:         &internalversion.ExpressionFrom{JQ: &internalversion.ExpressionJQ{Expression: expression}},
			}
		}
		out[stage.Spec.ResourceRef] = append(out[stage.Spec.ResourceRef], stage)
	}
	return out, nil
}
