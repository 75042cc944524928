package component

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/karp-sh/karp/test/simaws"
)

// simawsFlags are what `up --simaws-arg` can give.
type simawsFlags struct {
	options            simaws.Options
	listen, kubeconfig string
	caFile             string
	zones, localZones  string
}

func (s *simawsFlags) register(fs *flag.FlagSet) {
	c := &s.options.Cloud
	fs.StringVar(&s.listen, "listen", "", "address to serve on")
	fs.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of the API server that instances join")
	fs.StringVar(&s.caFile, "ca-file", "", "CA of that API server, as the simulated EKS tells it")
	fs.StringVar(&c.ClusterEndpoint, "cluster-endpoint", "", "URL of that API server, as the simulated EKS tells it")
	fs.StringVar(&c.ClusterName, "cluster-name", "", "name of the cluster")
	fs.StringVar(&c.Region, "region", "", "region")
	fs.StringVar(&s.zones, "zones", "", "suffixes of the zones with a subnet, such as a,b,c; empty for all")
	fs.StringVar(&s.localZones, "local-zones", "", "local zones with a subnet, such as us-west-2-lax-1a; comma-separated")
	fs.StringVar(&c.AccountID, "account", "", "number of the account")
	fs.StringVar(&c.Queue, "queue", "", "name of the interruption queue")
	fs.StringVar(&c.ServiceCIDR, "service-cidr", "", "addresses of Services; an IPv6 block makes the simulated VPC one of IPv6")
	fs.DurationVar(&c.PendingDelay, "pending-delay", 200*time.Millisecond, "from launch to running")
	fs.DurationVar(&c.BootDelay, "boot-delay", time.Second, "from running to a kubelet that starts")
	fs.DurationVar(&c.ShutdownDelay, "shutdown-delay", 500*time.Millisecond, "from shutting-down to terminated")
	fs.DurationVar(&c.DescribeDelay, "describe-delay", 0, "from launch until other calls see the instance")
	fs.DurationVar(&c.StatusDelay, "status-delay", 0, "from running until the status checks are made")
	fs.DurationVar(&c.TemplateDelay, "template-delay", 0, "from the creation of a launch template until other calls see it")
	fs.DurationVar(&c.ProfileDelay, "profile-delay", 0, "from the creation of an instance profile until EC2 sees it")
	fs.DurationVar(&c.DevicePluginDelay, "device-plugin-delay", 500*time.Millisecond, "from a node's joining until its GPUs appear")
	fs.DurationVar(&c.InterruptionNotice, "interruption-notice", 0, "from a spot warning to the reclaim; 0 for the 2 minutes of AWS")
	fs.IntVar(&c.OnDemandVCPUQuota, "on-demand-vcpus", 0, "vCPUs that may run on demand; 0 for no limit")
	fs.IntVar(&c.SpotVCPUQuota, "spot-vcpus", 0, "vCPUs that may run as spot; 0 for no limit")
}

// complete fills in what follows from the flags.
func (s *simawsFlags) complete() error {
	version, err := KubeVersion()
	if err != nil {
		return err
	}
	s.options.KubeletVersion = version
	s.options.Cloud.KubernetesVersion = strings.Join(strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)[:2], ".")
	if s.zones != "" {
		s.options.Cloud.Zones = strings.Split(s.zones, ",")
	}
	if s.localZones != "" {
		s.options.Cloud.LocalZones = strings.Split(s.localZones, ",")
	}
	ca, err := os.ReadFile(s.caFile)
	if err != nil {
		return fmt.Errorf("reading the CA: %w", err)
	}
	s.options.Cloud.CertificateAuthority = base64.StdEncoding.EncodeToString(ca)
	if s.options.Kubernetes, err = clientcmd.BuildConfigFromFlags("", s.kubeconfig); err != nil {
		return fmt.Errorf("reading kubeconfig: %w", err)
	}
	s.options.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	return nil
}

// runSimAWS serves the simulated AWS. Its account lives in memory: whoever wants AWS to be away for a while pauses it; after a
// kill the account is a new one.
func runSimAWS(args []string) error {
	fs := flag.NewFlagSet("simaws", flag.ContinueOnError)
	flags := &simawsFlags{}
	flags.register(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	if err := flags.complete(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server, err := simaws.New(flags.options)
	if err != nil {
		return fmt.Errorf("making the account: %w", err)
	}
	return serveSimAWS(ctx, server, flags.listen)
}

func serveSimAWS(ctx context.Context, server *simaws.Server, address string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	web := &http.Server{Addr: address, Handler: server, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	errs := make(chan error, 2)
	go func() {
		errs <- server.Run(ctx)
		cancel() // instances that do not boot would look like a slow cloud
	}()
	go func() {
		if err := web.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			errs <- fmt.Errorf("serving: %w", err)
			cancel()
			return
		}
		errs <- nil
	}()
	<-ctx.Done()
	// Long polls of the queue end with ctx.
	closing := web.Close()
	return errors.Join(closing, <-errs, <-errs)
}
