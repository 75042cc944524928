package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// bootstrapScript is the program of Amazon Linux 2 images.
const bootstrapScript = "/etc/eks/bootstrap.sh"

// kubeletPods is the kubelet's own limit, where no program sets another.
const kubeletPods = 110

// decodeAL2 runs the shell parts of user data as cloud-init does, and from
// them the call of bootstrap.sh.
func decodeAL2(userData []byte) (*Config, error) {
	scripts, err := shellParts(userData)
	if err != nil {
		return nil, fmt.Errorf("reading user data: %w", err)
	}
	for _, script := range scripts {
		commands, err := shellWords(script)
		if err != nil {
			return nil, fmt.Errorf("running user data: %w", err)
		}
		for _, words := range commands {
			for at, w := range words {
				if w == bootstrapScript {
					return runBootstrap(words[at+1:])
				}
			}
		}
	}
	return nil, fmt.Errorf("running user data: nothing calls %s", bootstrapScript)
}

func shellParts(userData []byte) ([]string, error) {
	text := bytes.TrimSpace(userData)
	switch {
	case len(text) == 0:
		return nil, errors.New("it is empty")
	case !isMIME(text) && !bytes.HasPrefix(text, []byte("#!")):
		return nil, errors.New("it is neither a script nor a MIME archive: cloud-init does not know what to do with it")
	case !isMIME(text):
		return []string{string(text)}, nil
	}
	parts, err := readMIME(text)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range parts {
		if p.kind == "text/x-shellscript" {
			out = append(out, string(p.body))
		}
	}
	return out, nil
}

// bootstrapOptions are the options of bootstrap.sh that change nothing here.
func bootstrapOptions() map[string]bool {
	return map[string]bool{
		"--aws-api-retry-attempts": true, "--container-runtime": true, "--containerd-config-file": true, "--docker-config-json": true,
		"--enable-docker-bridge": true, "--enable-local-outpost": true, "--cluster-id": true, "--mount-bpf-fs": true, "--pause-container-account": true,
		"--pause-container-version": true, "--service-ipv6-cidr": true, "--ip-family": true,
	}
}

func runBootstrap(words []string) (*Config, error) {
	c := &Config{Labels: map[string]string{}, OS: Linux, RootDevice: "/dev/xvda"}
	extra := ""
	for i := 0; i < len(words); i++ {
		name, value, joined := strings.Cut(words[i], "=")
		if !strings.HasPrefix(name, "--") {
			if c.Cluster.Name != "" {
				return nil, fmt.Errorf("running bootstrap.sh: unexpected argument %q", words[i])
			}
			c.Cluster.Name = words[i]
			continue
		}
		if !joined {
			if i++; i == len(words) {
				return nil, fmt.Errorf("running bootstrap.sh: %s needs a value", name)
			}
			value = words[i]
		}
		switch name {
		case "--apiserver-endpoint":
			c.Cluster.Endpoint = value
		case "--b64-cluster-ca":
			c.Cluster.CertificateAuthority = value
		case "--dns-cluster-ip":
			c.Kubelet.ClusterDNS = []string{value}
		case "--use-max-pods":
			if value == "false" {
				c.PodLimit = kubeletPods
			}
		case "--local-disks":
			if value != "raid0" && value != "raid10" && value != "mount" {
				return nil, fmt.Errorf("running bootstrap.sh: --local-disks %q is neither raid0, raid10 nor mount", value)
			}
			c.RAID0 = value == "raid0"
		case "--kubelet-extra-args":
			extra = value
		default:
			if !bootstrapOptions()[name] {
				return nil, fmt.Errorf("running bootstrap.sh: unknown option %s", name)
			}
		}
	}
	return c.finish("bootstrap.sh", extra)
}

// finish applies kubelet arguments and checks what a program was told.
func (c *Config) finish(program, arguments string) (*Config, error) {
	if c.Cluster.Name == "" {
		return nil, fmt.Errorf("running %s: the cluster name is missing", program)
	}
	if err := c.Cluster.checkGiven(); err != nil {
		return nil, fmt.Errorf("running %s: %w", program, err)
	}
	flags, err := shellWords(arguments)
	if err != nil {
		return nil, fmt.Errorf("starting kubelet: %w", err)
	}
	for _, words := range flags {
		if err := c.applyFlags(joinFlags(words)); err != nil {
			return nil, fmt.Errorf("starting kubelet: %w", err)
		}
	}
	if err := c.Kubelet.check(); err != nil {
		return nil, fmt.Errorf("starting kubelet: %w", err)
	}
	return c, nil
}

// joinFlags writes "--flag value" as "--flag=value".
func joinFlags(words []string) []string {
	var out []string
	for _, w := range words {
		if last := len(out) - 1; last >= 0 && !strings.HasPrefix(w, "--") && !strings.Contains(out[last], "=") {
			out[last] += "=" + w
			continue
		}
		out = append(out, w)
	}
	return out
}
