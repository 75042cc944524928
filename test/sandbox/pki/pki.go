// Package pki makes the keys and certificates of one sandbox: a CA, a serving certificate for 127.0.0.1, a client
// certificate per component, and the key that signs service account tokens. All of them are worth nothing outside the
// sandbox's folder and expire after a year.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime of every certificate; a sandbox lives for minutes, a forgotten one for weeks.
const lifetime = 365 * 24 * time.Hour

// Pair is a certificate with its key, as files.
type Pair struct {
	CertFile, KeyFile string
	CertPEM, KeyPEM   []byte
}

// Authority issues the certificates of one sandbox into one folder.
type Authority struct {
	dir    string
	now    time.Time
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64

	CAFile string
	CAPEM  []byte
}

// New makes the CA and writes ca.crt and ca.key to dir, which must exist.
func New(dir string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the CA key: %w", err)
	}
	a := &Authority{dir: dir, now: now, key: key, serial: 1}
	tmpl := a.template("karp-sandbox-ca")
	tmpl.IsCA = true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the CA certificate: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("making the CA certificate: %w", err)
	}
	p, err := a.write("ca", der, key)
	if err != nil {
		return nil, err
	}
	a.CAFile, a.CAPEM = p.CertFile, p.CertPEM
	return a, nil
}

// Server issues a serving certificate for 127.0.0.1, localhost and the given names and addresses.
func (a *Authority) Server(file string, names []string, addresses ...net.IP) (Pair, error) {
	tmpl := a.template(file)
	tmpl.DNSNames = append([]string{"localhost"}, names...)
	tmpl.IPAddresses = append([]net.IP{net.IPv4(127, 0, 0, 1)}, addresses...)
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return a.issue(file, tmpl)
}

// Client issues a client certificate. Kubernetes reads the user from the common name and the groups from the organisations.
func (a *Authority) Client(file, user string, groups ...string) (Pair, error) {
	tmpl := a.template(user)
	tmpl.Subject.Organization = groups
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(file, tmpl)
}

// SigningKey writes a key pair for service account tokens: FILE.key and FILE.pub.
func (a *Authority) SigningKey(file string) (private, public string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("making key %s: %w", file, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", fmt.Errorf("encoding key %s: %w", file, err)
	}
	private, public = filepath.Join(a.dir, file+".key"), filepath.Join(a.dir, file+".pub")
	if err := os.WriteFile(private, keyPEM, 0o600); err != nil {
		return "", "", fmt.Errorf("writing key: %w", err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := os.WriteFile(public, block, 0o600); err != nil {
		return "", "", fmt.Errorf("writing key: %w", err)
	}
	return private, public, nil
}

func (a *Authority) template(name string) *x509.Certificate {
	serial := big.NewInt(a.serial)
	a.serial++
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             a.now.Add(-time.Minute), // tolerate a clock that is set back a little
		NotAfter:              a.now.Add(lifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		BasicConstraintsValid: true,
	}
}

func (a *Authority) issue(file string, tmpl *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making key %s: %w", file, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("making certificate %s: %w", file, err)
	}
	return a.write(file, der, key)
}

func (a *Authority) write(file string, der []byte, key *ecdsa.PrivateKey) (Pair, error) {
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	p := Pair{
		CertFile: filepath.Join(a.dir, file+".crt"),
		KeyFile:  filepath.Join(a.dir, file+".key"),
		CertPEM:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:   keyPEM,
	}
	if err := os.WriteFile(p.CertFile, p.CertPEM, 0o600); err != nil {
		return Pair{}, fmt.Errorf("writing certificate: %w", err)
	}
	if err := os.WriteFile(p.KeyFile, p.KeyPEM, 0o600); err != nil {
		return Pair{}, fmt.Errorf("writing key: %w", err)
	}
	return p, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
