package status

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// Lifetimes of the certificates. The authority lives in memory only, so a restart makes a new one.
const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	servingLifetime   = 30 * 24 * time.Hour
)

// Authority is a certificate authority for one server process.
type Authority struct {
	now  func() time.Time
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	raw  []byte

	mu      sync.Mutex
	serving *tls.Certificate
	renew   time.Time
	hosts   []string
}

// NewAuthority makes an authority that issues serving certificates for ServerName, localhost and the given host names and addresses.
func NewAuthority(now func() time.Time, hosts ...string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the status endpoint's key: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "karp status endpoint"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		MaxPathLenZero:        true,
	}
	a := &Authority{now: now, key: key, hosts: append([]string{ServerName, "localhost", "127.0.0.1", "::1"}, hosts...)}
	if a.raw, err = issue(template, template, &key.PublicKey, key, now(), authorityLifetime); err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(a.raw); err != nil {
		return nil, fmt.Errorf("making the status endpoint's authority: %w", err)
	}
	return a, nil
}

// issue signs a certificate that is valid from a little before now, because clocks differ.
func issue(template, parent *x509.Certificate, pub *ecdsa.PublicKey, key *ecdsa.PrivateKey, now time.Time, lifetime time.Duration) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, now.Add(-time.Hour), now.Add(lifetime)
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		return nil, fmt.Errorf("signing the status endpoint's certificate: %w", err)
	}
	return raw, nil
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.raw})
}

// Certificate returns the serving certificate, a new one when two thirds of the old one's life are over. It fits tls.Config.GetCertificate.
func (a *Authority) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if a.serving != nil && now.Before(a.renew) {
		return a.serving, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the status endpoint's key: %w", err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: ServerName},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range a.hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	raw, err := issue(template, a.cert, &key.PublicKey, a.key, now, servingLifetime)
	if err != nil {
		return nil, err
	}
	a.serving = &tls.Certificate{Certificate: [][]byte{raw, a.raw}, PrivateKey: key}
	a.renew = now.Add(servingLifetime * 2 / 3)
	return a.serving, nil
}
