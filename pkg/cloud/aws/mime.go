package aws

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	boundary       = "//"
	contentType    = "Content-Type"
	nodeConfigType = "application/node.eks.aws"
	shellType      = `text/x-shellscript; charset="us-ascii"`
)

// mimePart is one part of a multipart document.
type mimePart struct {
	header [][2]string
	body   string
}

// plainText says what a text that is no MIME document may be.
type plainText int

const (
	// scriptOnly takes every text for a script.
	scriptOnly plainText = iota
	// scriptOrNodeConfig takes a YAML mapping for a NodeConfig and any other text for a script.
	scriptOrNodeConfig
)

// userParts takes the user's text apart: a MIME document into its parts, any other text is one part.
func userParts(text string, plain plainText) ([]mimePart, error) {
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
	if plain == scriptOrNodeConfig && yaml.Unmarshal([]byte(text), &mapping) == nil && len(mapping) > 0 {
		return []mimePart{{[][2]string{{contentType, nodeConfigType}}, text}}, nil
	}
	return []mimePart{{[][2]string{{contentType, shellType}}, text}}, nil
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
		out = append(out, mimePart{header: orderedHeader(part.Header), body: string(body)})
	}
}

// orderedHeader lists the header of a part, the content type first and the rest by name, so that equal documents are written alike.
func orderedHeader(h textproto.MIMEHeader) [][2]string {
	rank := func(name string) int {
		if name == contentType {
			return 0
		}
		return 1
	}
	var out [][2]string
	for _, name := range slices.SortedFunc(maps.Keys(h), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	}) {
		for _, v := range h[name] {
			out = append(out, [2]string{name, v})
		}
	}
	return out
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
