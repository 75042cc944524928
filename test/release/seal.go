package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// seal writes the checksums of all products, the provenance over them, and, given a key, a signature of the checksums.
func seal(o options, products []string) error {
	slices.Sort(products)
	var sums strings.Builder
	var subjects []subject
	for _, p := range products {
		data, err := os.ReadFile(filepath.Join(o.out, p))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", digest(data), p)
		subjects = append(subjects, subject{Name: p, Digest: map[string]string{"sha256": digest(data)}})
	}
	if err := provenance(o, subjects); err != nil {
		return err
	}
	file := filepath.Join(o.out, "checksums.txt")
	if err := os.WriteFile(file, []byte(sums.String()), 0o644); err != nil {
		return err
	}
	if o.key == "" {
		return nil
	}
	return sign(o, file, []byte(sums.String()))
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// provenance is an in-toto statement with a SLSA 1.0 predicate: from which commit and which locked modules, by which toolchain and command.
func provenance(o options, subjects []subject) error {
	locked, err := os.ReadFile(filepath.Join(o.root, "go.sum"))
	if err != nil {
		return err
	}
	statement := map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          "https://github.com/karp-sh/karp/release@v1",
				"externalParameters": map[string]any{"version": o.version, "platforms": o.platforms},
				"internalParameters": map[string]any{"go": runtime.Version()},
				"resolvedDependencies": []map[string]any{
					{"uri": "git+https://github.com/karp-sh/karp", "digest": map[string]string{"gitCommit": o.commit}},
					{"uri": "file:go.sum", "digest": map[string]string{"sha256": digest(locked)}},
				},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": "https://github.com/karp-sh/karp/make-release"}},
		},
	}
	data, err := json.MarshalIndent(statement, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "provenance.intoto.json"), append(data, '\n'), 0o644)
}

// sign writes FILE.sig, base64 of an ASN.1 ECDSA signature over SHA-256, as `cosign sign-blob` does, and the public key beside it.
func sign(o options, file string, data []byte) error {
	key, err := privateKey(o.key)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, "karp.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644); err != nil {
		return err
	}
	return os.WriteFile(file+".sig", []byte(base64.StdEncoding.EncodeToString(signature)), 0o644)
}

func privateKey(file string) (*ecdsa.PrivateKey, error) {
	if file == "test" {
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file", file)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s holds no private key: %w", file, err)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok || ec.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s is not an ECDSA key on P-256", file)
	}
	return ec, nil
}
