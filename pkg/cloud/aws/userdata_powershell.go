package aws

import (
	"errors"
	"strings"
)

// windows puts the user's commands before a call of the image's bootstrap script (AWS rules 5.6).
func windows(in bootInput) (string, error) {
	if lower := strings.ToLower(in.user); strings.Contains(lower, "<powershell>") || strings.Contains(lower, "</powershell>") {
		return "", errors.New("spec.userData must be PowerShell commands without <powershell> tags: they are put into the element that starts the node")
	}
	call := []string{"&", "$EKSBootstrapScriptFile", "-EKSClusterName", powerQuote(in.clusterName), "-APIServerEndpoint", powerQuote(in.endpoint)}
	if in.ca != "" {
		call = append(call, "-Base64ClusterCA", powerQuote(in.ca))
	}
	call = append(call, "-KubeletExtraArgs", powerQuote(kubeletArguments(in)))
	if len(in.dns) > 0 {
		call = append(call, "-DNSClusterIP", powerQuote(in.dns[0]))
	}
	var b strings.Builder
	b.WriteString("<powershell>\n")
	if in.user != "" {
		b.WriteString(in.user + "\n")
	}
	b.WriteString(`[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"` + "\n")
	b.WriteString(strings.Join(call, " ") + "\n</powershell>")
	return b.String(), nil
}

// powerQuote makes one verbatim string of PowerShell of a text.
func powerQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
