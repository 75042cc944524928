package bootstrap

import (
	"fmt"
	"strings"
)

const windowsProgram = "Start-EKSBootstrap.ps1"

// decodeWindows runs the PowerShell script of user data as EC2Launch does: from
// the first <powershell> to the first </powershell>.
func decodeWindows(userData []byte) (*Config, error) {
	text := string(userData)
	_, rest, opened := strings.Cut(text, "<powershell>")
	script, _, closed := strings.Cut(rest, "</powershell>")
	if !opened || !closed {
		return nil, fmt.Errorf("reading user data: no <powershell> script in it: EC2Launch has nothing to run")
	}
	commands, err := powershellWords(script)
	if err != nil {
		return nil, fmt.Errorf("running user data: %w", err)
	}
	variables := map[string]string{}
	for _, words := range commands {
		if name, value, ok := assignment(words); ok {
			variables[name] = value
			continue
		}
		if words[0] != "&" || len(words) < 2 {
			continue
		}
		program := words[1]
		if name, ok := strings.CutPrefix(program, "$"); ok && !strings.HasPrefix(strings.ToLower(name), "env:") {
			if program, ok = variables[strings.ToLower(name)]; !ok {
				return nil, fmt.Errorf("running user data: the expression after '&' produced an object that was not valid: $%s is not set", name)
			}
		}
		if strings.HasSuffix(strings.ToLower(program), strings.ToLower(windowsProgram)) {
			return runWindowsBootstrap(words[2:])
		}
	}
	return nil, fmt.Errorf("running user data: nothing calls %s", windowsProgram)
}

// assignment reads [string]$Name = value, in up to three words.
func assignment(words []string) (name, value string, ok bool) {
	line := strings.Join(words, " ")
	if kind := strings.Index(line, "]$"); strings.HasPrefix(line, "[") && kind > 0 {
		line = line[kind+1:]
	}
	if !strings.HasPrefix(line, "$") {
		return "", "", false
	}
	name, value, ok = strings.Cut(line[1:], "=")
	return strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value), ok
}

func runWindowsBootstrap(words []string) (*Config, error) {
	c := &Config{Labels: map[string]string{}, OS: Windows, RootDevice: "/dev/sda1", PodLimit: kubeletPods}
	extra := ""
	for i := 0; i < len(words); i++ {
		name, isName := strings.CutPrefix(words[i], "-")
		if !isName {
			return nil, fmt.Errorf("running %s: a positional parameter cannot be found that accepts argument '%s'", windowsProgram, words[i])
		}
		if i++; i == len(words) {
			return nil, fmt.Errorf("running %s: missing an argument for parameter '%s'", windowsProgram, name)
		}
		switch value := words[i]; strings.ToLower(name) {
		case "eksclustername":
			c.Cluster.Name = value
		case "apiserverendpoint":
			c.Cluster.Endpoint = value
		case "base64clusterca":
			c.Cluster.CertificateAuthority = value
		case "dnsclusterip":
			c.Kubelet.ClusterDNS = []string{value}
		case "kubeletextraargs":
			extra = value
		case "kubeproxyextraargs", "servicecidr", "excludedsnatcidrs", "containerruntime":
		default:
			return nil, fmt.Errorf("running %s: a parameter cannot be found that matches parameter name '%s'", windowsProgram, name)
		}
	}
	return c.finish(windowsProgram, extra)
}
