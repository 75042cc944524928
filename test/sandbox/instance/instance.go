// Package instance lays out one sandbox: its folder, ports, certificates and kubeconfigs, and with these the command line
// of every component. It starts nothing.
package instance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/karp-sh/karp/test/cluster/control"
	"github.com/karp-sh/karp/test/sandbox/pki"
	"github.com/karp-sh/karp/test/sandbox/supervise"
)

// Options of a sandbox.
type Options struct {
	Name        string   // see control.CheckName
	Dir         string   // made by New; must not exist, or be empty
	Components  []string // names of package control
	KubeVersion string   // of the Kubernetes components, for information

	ClusterName string        // as karp and the simulated EKS call it
	Region      string        // of the simulated AWS
	Queue       string        // name of the interruption queue
	NodeGrace   time.Duration // how long a node may be silent before it is NotReady
	// FeatureGates go to every Kubernetes component, as NAME=true,NAME=false.
	FeatureGates string
	SimAWSArgs   []string // further arguments of simaws
}

// Instance is a sandbox that is laid out.
type Instance struct {
	opts  Options
	ports Ports
	port  map[string]int
	ca    *pki.Authority
	etcd  pki.Pair // client certificate for etcd
	admin pki.Pair
	api   *apiClient

	Info  control.Sandbox
	Specs []supervise.Spec
}

// needs of the components, transitively closed by what they need in turn.
func needs(component string) []string {
	switch component {
	case control.Etcd:
		return nil
	case control.APIServer:
		return []string{control.Etcd}
	}
	return []string{control.APIServer}
}

// CheckComponents reports an unknown component, or one without those it needs.
func CheckComponents(names []string) error {
	if len(names) == 0 {
		return errors.New("no components; name at least one of " + fmt.Sprint(control.Components()))
	}
	for _, name := range names {
		if !slices.Contains(control.Components(), name) {
			return fmt.Errorf("unknown component %q; there are %v", name, control.Components())
		}
		for _, need := range needs(name) {
			if !slices.Contains(names, need) {
				return fmt.Errorf("component %s needs %s; add it to --components", name, need)
			}
		}
	}
	return nil
}

// New makes the folder with everything in it and reserves the ports. Close has to be called, also after an error of a
// later step.
func New(opts Options, now time.Time) (_ *Instance, err error) {
	if err := CheckComponents(opts.Components); err != nil {
		return nil, err
	}
	if err := makeFolder(opts.Dir); err != nil {
		return nil, err
	}
	in := &Instance{opts: opts, port: map[string]int{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.Close())
		}
	}()
	for _, name := range append([]string{"control"}, opts.Components...) {
		if in.port[name], err = in.ports.Take(); err != nil {
			return nil, err
		}
	}
	if in.ca, err = pki.New(in.path("pki"), now); err != nil {
		return nil, err
	}
	in.Info = control.Sandbox{
		Version: control.Version, Name: opts.Name, Dir: opts.Dir, PID: os.Getpid(), Started: now, KubeVersion: opts.KubeVersion,
		Control: "http://" + in.address("control"), Token: rand.Text(),
	}
	for _, name := range control.Components() {
		if !slices.Contains(opts.Components, name) {
			continue
		}
		spec, err := in.spec(name)
		if err != nil {
			return nil, fmt.Errorf("laying out %s: %w", name, err)
		}
		spec.Name, spec.Needs, spec.Log = name, needs(name), in.path("logs", name+".log")
		in.Specs = append(in.Specs, spec)
	}
	in.Info.Env = in.environment()
	return in, nil
}

// Close gives the ports back and removes the folder.
func (in *Instance) Close() error {
	err := errors.Join(in.ports.Close(), os.RemoveAll(in.opts.Dir))
	if parent := filepath.Dir(in.opts.Dir); parent == control.Base() {
		// It works only for the last one, which is what is wanted.
		_ = os.Remove(parent)
	}
	return err
}

// ControlAddress is where the supervisor has to listen.
func (in *Instance) ControlAddress() string { return in.address("control") }

func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of the sandbox: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("making the folder of the sandbox: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("folder %s is not empty, and the sandbox removes its folder when it ends; name another one", dir)
	}
	for _, sub := range []string{"pki", "logs"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return fmt.Errorf("making the folder of the sandbox: %w", err)
		}
	}
	return nil
}

func (in *Instance) path(elem ...string) string {
	return filepath.Join(append([]string{in.opts.Dir}, elem...)...)
}

func (in *Instance) address(component string) string {
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(in.port[component]))
}

func (in *Instance) spec(name string) (supervise.Spec, error) {
	switch name {
	case control.Etcd:
		return in.etcdSpec()
	case control.APIServer:
		return in.apiServerSpec()
	case control.ControllerManager:
		return in.controllerManagerSpec()
	case control.Scheduler:
		return in.schedulerSpec()
	case control.Kwok:
		return in.kwokSpec()
	case control.SimAWS:
		return in.simawsSpec()
	}
	return supervise.Spec{}, fmt.Errorf("component %q: %w", name, control.ErrUnknown)
}

// kubeconfigFor issues a client certificate and writes a kubeconfig with it.
func (in *Instance) kubeconfigFor(file, user string, groups ...string) (string, error) {
	pair, err := in.ca.Client(file, user, groups...)
	if err != nil {
		return "", err
	}
	path := in.path("pki", file+".kubeconfig")
	return path, writeKubeconfig(path, in.opts.Name, in.Info.APIServer, in.ca.CAPEM, user, pair)
}

// environment is what karp, kubectl and the AWS SDK need to use the sandbox.
func (in *Instance) environment() []string {
	var env []string
	if in.Info.Kubeconfig != "" {
		env = append(env, "KUBECONFIG="+in.Info.Kubeconfig)
	}
	if in.Info.SimAWS != "" {
		env = append(env,
			"AWS_ENDPOINT_URL="+in.Info.SimAWS,
			"AWS_EC2_METADATA_SERVICE_ENDPOINT="+in.Info.SimAWS,
			"AWS_REGION="+in.opts.Region,
			"AWS_ACCESS_KEY_ID=AKIASANDBOXSANDBOX00",
			"AWS_SECRET_ACCESS_KEY=sandbox",
			"CLUSTER_NAME="+in.opts.ClusterName,
			"CLUSTER_ENDPOINT="+in.Info.APIServer,
			"INTERRUPTION_QUEUE="+in.opts.Queue,
		)
	}
	return env
}

// settled wraps ready so that then runs once ready has succeeded, and both have to.
func settled(ready, then func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := ready(ctx); err != nil {
			return err
		}
		return then(ctx)
	}
}
