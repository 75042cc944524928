package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The parts of SPDX 2.3 that a list of modules needs.
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []component    `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type component struct {
	ID        string      `json:"SPDXID"`
	Name      string      `json:"name"`
	Version   string      `json:"versionInfo"`
	Location  string      `json:"downloadLocation"`
	Analyzed  bool        `json:"filesAnalyzed"`
	Checksums []checksum  `json:"checksums,omitempty"`
	Refs      []reference `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// writeBill lists the modules linked into a program, as the program itself says, beside what was shipped with it.
func writeBill(o options, program, file, shipped, sum string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading what %s is made of: %w", program, err)
	}
	root := component{ID: "SPDXRef-Package-root", Name: shipped, Version: o.version, Location: "NOASSERTION", Checksums: []checksum{{"SHA256", sum}}}
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: shipped,
		Namespace:     "https://github.com/karp-sh/karp/releases/" + o.version + "/" + file,
		Creation:      creation{Created: "1970-01-01T00:00:00Z", Creators: []string{"Tool: karp-release"}},
		Packages:      []component{root},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", root.ID}},
	}
	add := func(path, version string) {
		id := fmt.Sprintf("SPDXRef-Package-%d", len(d.Packages))
		d.Packages = append(d.Packages, component{ID: id, Name: path, Version: version, Location: "NOASSERTION", Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}})
		d.Relationships = append(d.Relationships, relationship{root.ID, "DEPENDS_ON", id})
	}
	add("stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(m.Path, m.Version)
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, file), append(data, '\n'), 0o644)
}
