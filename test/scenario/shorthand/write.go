package shorthand

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Files of a snapshot directory beside the objects, which stand in one file per kind.
const (
	CatalogueFile = "catalogue.yaml"
	OfferingsFile = "offerings.yaml"
	InfoFile      = "snapshot.yaml"
)

// Info says when a snapshot was taken. It is the clock of whoever reads the directory without being told another.
type Info struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	At         time.Time `json:"at"`
	Cluster    string    `json:"cluster"`
}

// Write puts the snapshot into a directory that kubectl karp --snapshot reads.
func (s *Snapshot) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := s.objectFiles()
	if err != nil {
		return err
	}
	files[CatalogueFile] = s.CatalogueText
	// Without an agent nobody writes down what is closed; then events speak.
	if len(s.Offerings.Items) > 0 {
		if files[OfferingsFile], err = yaml.Marshal(s.Offerings); err != nil {
			return err
		}
	}
	if files[InfoFile], err = yaml.Marshal(Info{"cli.karp.sh/v1alpha1", "SnapshotInfo", s.At, "prod-eu"}); err != nil {
		return err
	}
	var all error
	for name, text := range files {
		all = errors.Join(all, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	return all
}

// objectFiles groups the objects by kind: nodepools.yaml, pods.yaml, ... An object that several pods brought along is written once.
func (s *Snapshot) objectFiles() (map[string][]byte, error) {
	out := map[string][]byte{}
	seen := map[string]bool{}
	for _, o := range s.Objects {
		text, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		var head struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(text, &head); err != nil {
			return nil, err
		}
		if head.Kind == "" {
			return nil, fmt.Errorf("writing %T: it has no kind", o)
		}
		id := head.Kind + "/" + head.Metadata.Namespace + "/" + head.Metadata.Name
		if seen[id] {
			continue
		}
		seen[id] = true
		doc, err := yaml.JSONToYAML(text)
		if err != nil {
			return nil, err
		}
		name := plural(strings.ToLower(head.Kind)) + ".yaml"
		out[name] = append(out[name], bytes.Join([][]byte{[]byte("---\n"), doc}, nil)...)
	}
	return out, nil
}

func plural(kind string) string {
	if strings.HasSuffix(kind, "s") {
		return kind + "es"
	}
	return kind + "s"
}
