package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const plugin = "kubectl-karp"

// archives builds the plugin and packs it with its licence, one archive a platform, with bills of materials and the krew manifest.
func archives(o options) ([]string, error) {
	licence, err := os.ReadFile(filepath.Join(o.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(filepath.Join(o.root, "krew", "karp.yaml"))
	if err != nil {
		return nil, err
	}
	krew := strings.ReplaceAll(string(manifest), "version: VERSION", "version: "+o.version)
	krew = strings.ReplaceAll(krew, "/VERSION/", "/"+o.version+"/")
	var products []string
	for _, platform := range o.platforms {
		file, err := build(o, plugin, platform)
		if err != nil {
			return nil, err
		}
		program, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		id := strings.ReplaceAll(platform, "/", "_")
		packed, err := pack([]entry{{"LICENSE", licence, 0o644}, {filepath.Base(file), program, 0o755}})
		if err != nil {
			return nil, err
		}
		name := plugin + "_" + id + ".tar.gz"
		if err := os.WriteFile(filepath.Join(o.out, name), packed, 0o644); err != nil {
			return nil, err
		}
		bill := plugin + "_" + id + ".spdx.json"
		if err := writeBill(o, file, bill, name, digest(packed)); err != nil {
			return nil, err
		}
		krew = strings.ReplaceAll(krew, "SHA256_"+id+"\n", digest(packed)+"\n")
		products = append(products, name, bill)
	}
	if err := os.WriteFile(filepath.Join(o.out, "karp.yaml"), []byte(withoutMissing(krew)), 0o644); err != nil {
		return nil, err
	}
	return append(products, "karp.yaml"), nil
}

// withoutMissing leaves out the platforms of a krew manifest that were not built.
func withoutMissing(manifest string) string {
	head, list, _ := strings.Cut(manifest, "  platforms:\n")
	var kept []string
	for _, item := range strings.Split(list, "  - selector:")[1:] {
		if !strings.Contains(item, "SHA256_") {
			kept = append(kept, "  - selector:"+item)
		}
	}
	return head + "  platforms:\n" + strings.Join(kept, "")
}

type entry struct {
	name string
	data []byte
	mode int64
}

// pack writes a tar.gz without times, owners or names of the machine.
func pack(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := writeTar(tar.NewWriter(zip), entries); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeTar(w *tar.Writer, entries []entry) error {
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("packing %s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return fmt.Errorf("packing %s: %w", e.name, err)
		}
	}
	return w.Close()
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
