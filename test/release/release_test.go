package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// release makes a release for this machine's platform, without network.
func release(t *testing.T, what string) string {
	t.Helper()
	out := t.TempDir()
	args := []string{"-version", "v0.0.1-test", "-root", "../..", "-out", out, "-key", "test", "-platforms", "linux/" + runtime.GOARCH, what}
	if err := run(args, io.Discard); err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, elements ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRelease(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the image is for linux")
	}
	out := release(t, "all")
	archive := "kubectl-karp_linux_" + runtime.GOARCH + ".tar.gz"
	t.Run("archive holds licence and program", func(t *testing.T) { inArchive(t, read(t, out, archive)) })
	t.Run("signature", func(t *testing.T) { signature(t, out) })
	t.Run("checksums", func(t *testing.T) { checksums(t, out) })
	t.Run("bill of materials", func(t *testing.T) { bills(t, out) })
	t.Run("image", func(t *testing.T) { imageRuns(t, out) })
	t.Run("krew", func(t *testing.T) { krew(t, out, archive) })
	t.Run("equal again", func(t *testing.T) {
		again := release(t, "all")
		if a, b := string(read(t, out, "checksums.txt")), string(read(t, again, "checksums.txt")); a != b {
			t.Errorf("two builds differ:\n%s\n%s", a, b)
		}
	})
}

func inArchive(t *testing.T, data []byte) {
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name)
	}
	if strings.Join(got, " ") != "LICENSE kubectl-karp" {
		t.Errorf("archive holds %v", got)
	}
}

func signature(t *testing.T, out string) {
	block, _ := pem.Decode(read(t, out, "karp.pub"))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sums := read(t, out, "checksums.txt")
	raw, err := base64.StdEncoding.DecodeString(string(read(t, out, "checksums.txt.sig")))
	if err != nil {
		t.Fatal(err)
	}
	valid := func(data []byte) bool {
		sum := sha256.Sum256(data)
		return ecdsa.VerifyASN1(key.(*ecdsa.PublicKey), sum[:], raw)
	}
	if !valid(sums) || valid(append(sums, ' ')) {
		t.Error("the signature does not tell right from wrong")
	}
}

func checksums(t *testing.T, out string) {
	for _, line := range strings.Split(strings.TrimSpace(string(read(t, out, "checksums.txt"))), "\n") {
		sum, name, _ := strings.Cut(line, "  ")
		if got := digest(read(t, out, name)); got != sum {
			t.Errorf("%s has checksum %s, listed is %s", name, got, sum)
		}
	}
	var statement struct{ Subject []subject }
	if err := json.Unmarshal(read(t, out, "provenance.intoto.json"), &statement); err != nil {
		t.Fatal(err)
	}
	if len(statement.Subject) < 4 {
		t.Errorf("provenance of %d products", len(statement.Subject))
	}
}

func bills(t *testing.T, out string) {
	for _, program := range []string{"kubectl-karp", "karp-agent"} {
		var d document
		if err := json.Unmarshal(read(t, out, program+"_linux_"+runtime.GOARCH+".spdx.json"), &d); err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, p := range d.Packages {
			names[p.Name] = true
		}
		if !names["k8s.io/client-go"] || !names["stdlib"] || len(d.Relationships) != len(d.Packages) {
			t.Errorf("%s: %d packages, %d relationships", program, len(d.Packages), len(d.Relationships))
		}
		if linked := names["github.com/aws/aws-sdk-go-v2/service/ec2"]; linked != (program == "karp-agent") {
			t.Errorf("%s links the AWS SDK: %v", program, linked)
		}
	}
}

// imageRuns unpacks the image's program from its layer and starts it.
func imageRuns(t *testing.T, out string) {
	index, err := layout.ImageIndexFromPath(filepath.Join(out, "image"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.Architecture != runtime.GOARCH {
		t.Fatalf("manifests %v, %v", manifest, err)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || len(config.RootFS.DiffIDs) != 1 {
		t.Errorf("user %s, %d layers", config.Config.User, len(config.RootFS.DiffIDs))
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("no program in the image: %v", err)
		}
		if "/"+h.Name != config.Config.Entrypoint[0] {
			continue
		}
		program := filepath.Join(t.TempDir(), "karp-agent")
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, data, 0o755); err != nil {
			t.Fatal(err)
		}
		text, err := exec.Command(program, "--version").CombinedOutput()
		if err != nil || !strings.Contains(string(text), "v0.0.1-test") {
			t.Errorf("%s, %v", text, err)
		}
		return
	}
}

// krew validates the manifest and installs the archive with the real client, which then finds a working plugin.
func krew(t *testing.T, out, archive string) {
	root := t.TempDir()
	tool := func(args ...string) {
		t.Helper()
		cmd := exec.Command("go", append([]string{"tool"}, args...)...)
		cmd.Env = append(os.Environ(), "KREW_ROOT="+root, "KREW_NO_UPGRADE_CHECK=1")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, text)
		}
	}
	tool("validate-krew-manifest", "-manifest", filepath.Join(out, "karp.yaml"), "-skip-install")
	tool("krew", "install", "--manifest", filepath.Join(out, "karp.yaml"), "--archive", filepath.Join(out, archive))
	text, err := exec.Command(filepath.Join(root, "bin", "kubectl-karp"), "version", "--agent", "none").CombinedOutput()
	if !strings.Contains(string(text), "v0.0.1-test") {
		t.Errorf("the installed plugin says %s (%v)", text, err)
	}
}

// The manifest in the repository names every platform once, and its template words are those that a release replaces.
func TestManifestTemplate(t *testing.T) {
	text := string(read(t, "../../krew/karp.yaml"))
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64", "windows_arm64"} {
		if strings.Count(text, "SHA256_"+platform) != 1 || strings.Count(text, "kubectl-karp_"+platform+".tar.gz") != 1 {
			t.Errorf("krew/karp.yaml does not name %s once", platform)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, args := range [][]string{{"all"}, {"-version", "1.2.3", "all"}, {"-version", "v1.2.3", "-root", "../..", "-out", t.TempDir(), "nothing"}} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
