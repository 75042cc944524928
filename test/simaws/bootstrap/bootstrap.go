// Package bootstrap reads user data as the bootstrap program of an image does
// and says how the kubelet is started, or why it never is.
//
// Families are al2 (bootstrap.sh), al2023 (nodeadm: NodeConfig documents, plain
// or as parts of a MIME archive), bottlerocket (TOML) and windows (PowerShell).
// Errors word what an operator would find in the instance's log.
package bootstrap

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Config is how a kubelet is started.
type Config struct {
	Cluster Cluster
	Labels  map[string]string
	Taints  []corev1.Taint
	Kubelet KubeletConfig
	// RAID0 tells that the instance store holds the ephemeral storage.
	RAID0 bool
	// OS is linux or windows.
	OS string
	// RootDevice holds the ephemeral storage otherwise.
	RootDevice string
	// PodLimit applies without maxPods; 0 is what the CNI has addresses for.
	PodLimit int32
}

// The operating systems.
const (
	Linux   = "linux"
	Windows = "windows"
)

// Cluster says which cluster to join.
type Cluster struct {
	Name                 string `json:"name"`
	Endpoint             string `json:"apiServerEndpoint"`
	CertificateAuthority string `json:"certificateAuthority"` // base64 PEM
	CIDR                 string `json:"cidr"`                 // of services
	Outpost              bool   `json:"enableOutpost,omitempty"`
	ID                   string `json:"id,omitempty"`
}

// check refuses details that are missing or cannot be right.
func (c Cluster) check() error {
	for _, f := range [][2]string{{"name", c.Name}, {"apiServerEndpoint", c.Endpoint}, {"certificateAuthority", c.CertificateAuthority}, {"cidr", c.CIDR}} {
		if f[1] == "" {
			return fmt.Errorf("spec.cluster.%s is missing", f[0])
		}
	}
	if _, err := netip.ParsePrefix(c.CIDR); err != nil {
		return fmt.Errorf("spec.cluster.cidr %q is not a CIDR block", c.CIDR)
	}
	return c.checkGiven()
}

// checkGiven refuses an endpoint or authority that cannot be right. Where they
// are missing, bootstrap programs ask EKS.
func (c Cluster) checkGiven() error {
	if u, err := url.Parse(c.Endpoint); c.Endpoint != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		return fmt.Errorf("the API server's endpoint %q is not a URL", c.Endpoint)
	}
	if _, err := base64.StdEncoding.DecodeString(c.CertificateAuthority); err != nil {
		return fmt.Errorf("the certificate authority is not base64: %w", err)
	}
	return nil
}

// Decode reads user data for an image family: al2, al2023, bottlerocket or
// windows.
func Decode(family string, userData []byte) (*Config, error) {
	switch family {
	case "al2":
		return decodeAL2(userData)
	case "al2023":
		return decodeAL2023(userData)
	case "bottlerocket":
		return decodeBottlerocket(userData)
	case "windows":
		return decodeWindows(userData)
	}
	return nil, fmt.Errorf("the image has no bootstrap program that joins a cluster")
}

// Check compares the cluster of a decoded config with the one that is there.
// An empty certificate authority in want is not compared.
func (c *Config) Check(want Cluster) error {
	switch got := c.Cluster; {
	case got.Name != want.Name:
		return fmt.Errorf("cluster %q is not %q: the API server does not know the node's role", got.Name, want.Name)
	case got.Endpoint != "" && strings.TrimSuffix(got.Endpoint, "/") != strings.TrimSuffix(want.Endpoint, "/"):
		return fmt.Errorf("no API server answers at %s; it is at %s", got.Endpoint, want.Endpoint)
	case want.CertificateAuthority != "" && got.CertificateAuthority != "" && got.CertificateAuthority != want.CertificateAuthority:
		return fmt.Errorf("the API server's certificate is signed by an authority other than that of the user data")
	}
	return nil
}
