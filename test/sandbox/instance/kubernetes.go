package instance

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/cluster/control"
	"github.com/karp-sh/karp/test/sandbox/supervise"
)

// serviceCIDR is what EKS gives to a cluster in a 192.168 or 172.16 VPC; objects.json has its tenth address.
const serviceCIDR = "10.100.0.0/16"

func (in *Instance) etcdSpec() (supervise.Spec, error) {
	server, err := in.ca.Server("etcd", nil)
	if err != nil {
		return supervise.Spec{}, err
	}
	if in.etcd, err = in.ca.Client("etcd-client", "sandbox:etcd-client"); err != nil {
		return supervise.Spec{}, err
	}
	url := "https://" + in.address(control.Etcd)
	api, err := newAPIClient(url, in.ca.CAPEM, in.etcd)
	if err != nil {
		return supervise.Spec{}, err
	}
	args := []string{control.Etcd, "--data-dir=" + in.path("etcd"), "--listen=" + url,
		"--cert=" + server.CertFile, "--key=" + server.KeyFile, "--ca=" + in.ca.CAFile}
	return supervise.Spec{URL: url, Args: args, Ready: api.check("/health")}, nil
}

func (in *Instance) apiServerSpec() (supervise.Spec, error) {
	url := "https://" + in.address(control.APIServer)
	in.Info.APIServer, in.Info.Kubeconfig = url, in.path("kubeconfig")
	server, err := in.ca.Server("apiserver", []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local"}, net.IPv4(10, 100, 0, 1))
	if err != nil {
		return supervise.Spec{}, err
	}
	if in.admin, err = in.ca.Client("admin", "kubernetes-admin", "system:masters"); err != nil {
		return supervise.Spec{}, err
	}
	if err := writeKubeconfig(in.Info.Kubeconfig, in.opts.Name, url, in.ca.CAPEM, "kubernetes-admin", in.admin); err != nil {
		return supervise.Spec{}, err
	}
	private, public, err := in.ca.SigningKey("service-accounts")
	if err != nil {
		return supervise.Spec{}, err
	}
	if in.api, err = newAPIClient(url, in.ca.CAPEM, in.admin); err != nil {
		return supervise.Spec{}, err
	}
	args := in.kubernetesArgs(control.APIServer,
		"--etcd-servers=https://"+in.address(control.Etcd), "--etcd-cafile="+in.ca.CAFile,
		"--etcd-certfile="+in.etcd.CertFile, "--etcd-keyfile="+in.etcd.KeyFile,
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", // no pod dials the Service kubernetes
		"--tls-cert-file="+server.CertFile, "--tls-private-key-file="+server.KeyFile, "--client-ca-file="+in.ca.CAFile,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+public, "--service-account-signing-key-file="+private,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range="+serviceCIDR, "--allow-privileged=true")
	return supervise.Spec{URL: url, Args: args, Ready: settled(in.api.check("/readyz"), in.api.applyObjects)}, nil
}

// controllers of the controller manager: those whose effects karp or its tests see.
func controllers() string {
	return strings.Join([]string{
		"serviceaccount-controller", "serviceaccount-token-controller", "clusterrole-aggregation-controller",
		"namespace-controller", "garbage-collector-controller", "pod-garbage-collector-controller",
		"deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller", "job-controller",
		"cronjob-controller", "disruption-controller", "node-lifecycle-controller", "taint-eviction-controller",
		"persistentvolume-binder-controller", "persistentvolume-attach-detach-controller", "ephemeral-volume-controller",
		"persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller", "endpointslice-controller",
		"validatingadmissionpolicy-status-controller",
	}, ",")
}

func (in *Instance) controllerManagerSpec() (supervise.Spec, error) {
	kubeconfig, err := in.kubeconfigFor("controller-manager", "system:kube-controller-manager")
	if err != nil {
		return supervise.Spec{}, err
	}
	server, err := in.ca.Server("controller-manager-server", nil)
	if err != nil {
		return supervise.Spec{}, err
	}
	url := "https://" + in.address(control.ControllerManager)
	health, err := newAPIClient(url, in.ca.CAPEM, in.admin)
	if err != nil {
		return supervise.Spec{}, err
	}
	args := in.kubernetesArgs(control.ControllerManager,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--tls-cert-file="+server.CertFile, "--tls-private-key-file="+server.KeyFile,
		"--leader-elect=false", "--controllers="+controllers(), "--use-service-account-credentials=true",
		"--root-ca-file="+in.ca.CAFile, "--service-account-private-key-file="+in.path("pki", "service-accounts.key"),
		"--node-monitor-grace-period="+in.opts.NodeGrace.String(), "--node-monitor-period=2s",
		"--kube-api-qps=500", "--kube-api-burst=1000", "--concurrent-gc-syncs=20")
	// Pods can be created only once their service account is there.
	accounts := in.api.check("/api/v1/namespaces/default/serviceaccounts/default")
	return supervise.Spec{URL: url, Args: args, Ready: settled(health.check("/healthz"), accounts)}, nil
}

func (in *Instance) schedulerSpec() (supervise.Spec, error) {
	kubeconfig, err := in.kubeconfigFor("scheduler", "system:kube-scheduler")
	if err != nil {
		return supervise.Spec{}, err
	}
	server, err := in.ca.Server("scheduler-server", nil)
	if err != nil {
		return supervise.Spec{}, err
	}
	url := "https://" + in.address(control.Scheduler)
	health, err := newAPIClient(url, in.ca.CAPEM, in.admin)
	if err != nil {
		return supervise.Spec{}, err
	}
	args := in.kubernetesArgs(control.Scheduler,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--tls-cert-file="+server.CertFile, "--tls-private-key-file="+server.KeyFile,
		"--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000")
	return supervise.Spec{URL: url, Args: args, Ready: health.check("/readyz")}, nil
}

// kubernetesArgs are the arguments that all Kubernetes components share, and args.
func (in *Instance) kubernetesArgs(component string, args ...string) []string {
	out := []string{component, "--bind-address=127.0.0.1", "--secure-port=" + port(in.address(component)), "--profiling=false"}
	if in.opts.FeatureGates != "" {
		out = append(out, "--feature-gates="+in.opts.FeatureGates)
	}
	return append(out, args...)
}

func port(address string) string {
	_, p, _ := strings.Cut(address, ":")
	return p
}

func (in *Instance) kwokSpec() (supervise.Spec, error) {
	kubeconfig, err := in.kubeconfigFor("kwok", "sandbox:kwok")
	if err != nil {
		return supervise.Spec{}, err
	}
	url := "http://" + in.address(control.Kwok)
	health, err := newAPIClient(url, in.ca.CAPEM, in.admin)
	if err != nil {
		return supervise.Spec{}, err
	}
	args := []string{control.Kwok, "--kubeconfig=" + kubeconfig, "--listen=" + in.address(control.Kwok),
		fmt.Sprintf("--lease-seconds=%d", leaseSeconds(in.opts.NodeGrace))}
	return supervise.Spec{URL: url, Args: args, Ready: health.check("/healthz")}, nil
}

// leaseSeconds is the duration of node leases: a kubelet's 40 seconds, or as long as a node may be silent when that is less. A
// lease is renewed every quarter of it, so that three renewals may fail before the node is found unready.
func leaseSeconds(grace time.Duration) int { return min(40, max(4, int(grace.Seconds()))) }

func (in *Instance) simawsSpec() (supervise.Spec, error) {
	kubeconfig, err := in.kubeconfigFor("simaws", "sandbox:simaws")
	if err != nil {
		return supervise.Spec{}, err
	}
	in.Info.SimAWS = "http://" + in.address(control.SimAWS)
	health, err := newAPIClient(in.Info.SimAWS, in.ca.CAPEM, in.admin)
	if err != nil {
		return supervise.Spec{}, err
	}
	args := []string{control.SimAWS, "--kubeconfig=" + kubeconfig, "--listen=" + in.address(control.SimAWS),
		"--region=" + in.opts.Region, "--cluster-name=" + in.opts.ClusterName, "--queue=" + in.opts.Queue,
		"--cluster-endpoint=" + in.Info.APIServer, "--ca-file=" + in.ca.CAFile, "--service-cidr=" + serviceCIDR}
	return supervise.Spec{URL: in.Info.SimAWS, Args: append(args, in.opts.SimAWSArgs...), Ready: health.check("/_sim/healthz")}, nil
}
