package aws

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	boundary       = "//"
	nodeConfigType = "application/node.eks.aws"
	shellType      = `text/x-shellscript; charset="us-ascii"`
)

// mimePart is one part of a multipart document.
type mimePart struct {
	header [][2]string
	body   string
}

// userParts takes the user's text apart: a MIME document into its parts; a YAML mapping is one part NodeConfig, any other text a script.
func userParts(text string) ([]mimePart, error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return nil, nil
	case strings.HasPrefix(trimmed, "MIME-Version:"), strings.HasPrefix(trimmed, "Content-Type:"):
		parts, err := readParts(trimmed)
		if err != nil {
			return nil, fmt.Errorf("reading spec.userData as a MIME document: %w", err)
		}
		return parts, nil
	}
	var mapping map[string]any
	if yaml.Unmarshal([]byte(text), &mapping) == nil && len(mapping) > 0 {
		return []mimePart{{[][2]string{{"Content-Type", nodeConfigType}}, text}}, nil
	}
	return []mimePart{{[][2]string{{"Content-Type", shellType}}, text}}, nil
}

func readParts(text string) ([]mimePart, error) {
	msg, err := mail.ReadMessage(strings.NewReader(text + "\n"))
	if err != nil {
		return nil, err
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(kind, "multipart/") || params["boundary"] == "" {
		return nil, fmt.Errorf("content type %q is not multipart with a boundary", kind)
	}
	var out []mimePart
	for reader := multipart.NewReader(msg.Body, params["boundary"]); ; {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		p := mimePart{body: string(body)}
		// The other headers (a file name) mean nothing to cloud-init and nodeadm; without the encoding the body could not be read.
		for _, name := range []string{"Content-Type", "Content-Transfer-Encoding"} {
			if v := part.Header.Get(name); v != "" {
				p.header = append(p.header, [2]string{name, v})
			}
		}
		out = append(out, p)
	}
}

// writeParts writes the document, with LF line ends.
func writeParts(parts []mimePart) (string, error) {
	var b strings.Builder
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + boundary + "\"\n\n")
	for _, p := range parts {
		if strings.Contains("\n"+p.body, "\n--"+boundary) {
			return "", fmt.Errorf("spec.userData contains a line that begins with --%s, which separates the parts of the document: use another boundary", boundary)
		}
		b.WriteString("--" + boundary + "\n")
		for _, h := range p.header {
			b.WriteString(h[0] + ": " + h[1] + "\n")
		}
		b.WriteString("\n" + strings.TrimRight(p.body, "\n") + "\n\n")
	}
	b.WriteString("--" + boundary + "--\n")
	return b.String(), nil
}
