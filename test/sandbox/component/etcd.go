package component

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// runEtcd runs a single member. It never calls fsync: a killed process loses nothing by that, only a machine that goes down
// does, and the folder of a sandbox is temporary anyway.
func runEtcd(args []string) error {
	fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
	dir := fs.String("data-dir", "", "folder of the data")
	listen := fs.String("listen", "", "URL to serve clients on")
	tls := transport.TLSInfo{ClientCertAuth: true}
	fs.StringVar(&tls.CertFile, "cert", "", "serving certificate")
	fs.StringVar(&tls.KeyFile, "key", "", "key of the serving certificate")
	fs.StringVar(&tls.TrustedCAFile, "ca", "", "CA that clients' certificates have to come from")
	if err := parse(fs, args); err != nil {
		return err
	}
	client, err := url.Parse(*listen)
	if err != nil {
		return fmt.Errorf("reading --listen: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	// etcd allocates two segments of its log ahead: 2 x 8 MiB instead of 2 x 64 MiB of a temporary folder, often in memory.
	wal.SegmentSizeBytes = 8 << 20
	cfg := embed.NewConfig()
	cfg.Dir = *dir
	cfg.ClientTLSInfo = tls
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	// There is no peer; whatever port the kernel gives will do.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true
	cfg.LogLevel = "warn"
	return serveEtcd(ctx, cfg)
}

func serveEtcd(ctx context.Context, cfg *embed.Config) error {
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	defer e.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return fmt.Errorf("serving: %w", err)
	case <-e.Server.StopNotify():
		return errors.New("the server stopped by itself")
	}
}
