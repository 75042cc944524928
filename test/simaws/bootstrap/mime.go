package bootstrap

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
)

// A mimePart is a part of an archive.
type mimePart struct {
	kind string
	body []byte
}

// isMIME tells whether user data is a MIME archive, as cloud-init does.
func isMIME(text []byte) bool {
	return bytes.HasPrefix(text, []byte("MIME-Version:")) || bytes.HasPrefix(text, []byte("Content-Type:"))
}

// readMIME reads the parts of an archive.
func readMIME(text []byte) ([]mimePart, error) {
	msg, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parsing the MIME archive: %w", err)
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("parsing the MIME archive: %w", err)
	}
	if !strings.HasPrefix(kind, "multipart/") || params["boundary"] == "" {
		return nil, fmt.Errorf("parsing the MIME archive: %q is not multipart with a boundary", kind)
	}
	var out []mimePart
	for r := multipart.NewReader(msg.Body, params["boundary"]); ; {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parsing the MIME archive: %w", err)
		}
		one, err := readPart(part)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
}

func readPart(part *multipart.Part) (mimePart, error) {
	body, err := io.ReadAll(part)
	if err != nil {
		return mimePart{}, fmt.Errorf("parsing the MIME archive: %w", err)
	}
	kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
	if err != nil {
		return mimePart{}, fmt.Errorf("parsing a MIME part: %w", err)
	}
	if strings.EqualFold(part.Header.Get("Content-Transfer-Encoding"), "base64") {
		if body, err = base64.StdEncoding.DecodeString(string(bytes.TrimSpace(body))); err != nil {
			return mimePart{}, fmt.Errorf("parsing a MIME part: %w", err)
		}
	}
	return mimePart{kind, body}, nil
}
