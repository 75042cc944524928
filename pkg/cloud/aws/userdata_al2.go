package aws

import "strings"

// al2 appends a script that calls the image's bootstrap.sh to the user's parts (AWS rules 5.3).
func al2(in bootInput) (string, error) {
	parts, err := userParts(in.user, scriptOnly)
	if err != nil {
		return "", err
	}
	return writeParts(append(parts, mimePart{header: [][2]string{{contentType, shellType}}, body: al2Script(in)}))
}

func al2Script(in bootInput) string {
	command := []string{"/etc/eks/bootstrap.sh", shellQuote(in.clusterName), "--apiserver-endpoint", shellQuote(in.endpoint)}
	if in.ca != "" {
		command = append(command, "--b64-cluster-ca", shellQuote(in.ca))
	}
	if len(in.dns) > 0 {
		if strings.Contains(in.dns[0], ":") {
			command = append(command, "--ip-family", "ipv6")
		}
		command = append(command, "--dns-cluster-ip", shellQuote(in.dns[0]))
	}
	command = append(command, "--use-max-pods", "false", "--kubelet-extra-args", shellQuote(kubeletArguments(in)))
	if in.raid0 {
		command = append(command, "--local-disks", "raid0")
	}
	return "#!/bin/bash -xe\n" +
		"exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n" +
		strings.Join(command, " ") + "\n"
}

// shellQuote makes one word of a POSIX shell of a text.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
