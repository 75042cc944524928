package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const agent = "agent"

// images writes the agent's image for every linux platform as one OCI layout. There is no base image: the program is static and brings its
// root certificates and time zones along, so the image holds it, a user and an empty /tmp, and nothing to attack with.
func images(o options) ([]string, error) {
	folder := filepath.Join(o.out, "image")
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	index := v1.ImageIndex(mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	var products []string
	for _, platform := range o.platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		if goos != "linux" {
			continue
		}
		file, err := build(o, agent, platform)
		if err != nil {
			return nil, err
		}
		img, err := image(o, file, goarch)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: goos, Architecture: goarch}}})
		sum, err := img.Digest()
		if err != nil {
			return nil, err
		}
		bill := "karp-agent_linux_" + goarch + ".spdx.json"
		if err := writeBill(o, file, bill, "karp-agent:"+o.version, sum.Hex); err != nil {
			return nil, err
		}
		products = append(products, bill)
	}
	if len(products) == 0 {
		return nil, fmt.Errorf("no linux platform among %v", o.platforms)
	}
	if _, err := layout.Write(folder, index); err != nil {
		return nil, err
	}
	return append(products, "image/index.json"), nil
}

func image(o options, program, goarch string) (v1.Image, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	if err := writeTar(tar.NewWriter(&layer), []entry{
		{"etc/", nil, 0o755},
		{"etc/passwd", []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"), 0o644},
		{"etc/group", []byte("root:x:0:\nnonroot:x:65532:\n"), 0o644},
		{"tmp/", nil, 0o1777},
		{"karp-agent", data, 0o755},
	}); err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), l)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created, config.Author = "linux", goarch, v1.Time{Time: time.Unix(0, 0).UTC()}, "karp"
	config.Config = v1.Config{
		Entrypoint: []string{"/karp-agent"}, User: "65532:65532", WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title": "karp-agent", "org.opencontainers.image.version": o.version, "org.opencontainers.image.revision": o.commit,
			"org.opencontainers.image.source": "https://github.com/karp-sh/karp", "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(img, config)
}
