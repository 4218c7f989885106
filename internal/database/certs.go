// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

const (
	// AuthorityLife is the validity of the certificate of an authority.
	AuthorityLife = 10 * 365 * 24 * time.Hour
	// LeafLife is the validity of the certificate of a server or client.
	LeafLife = 90 * 24 * time.Hour
	// early is subtracted from the start of a certificate's validity. Otherwise, the certificate would not be valid yet on
	// a machine whose clock is slow.
	early = 5 * time.Minute
)

// Pair is a certificate and its key, as PEM.
type Pair struct{ Cert, Key []byte }

// Leaf describes the purpose of a certificate.
type Leaf struct {
	// Name is the common name of the subject.
	Name string
	// Hosts are the names and addresses of a server. Empty: the certificate is for a client only.
	Hosts []string
	// Client reports whether the holder also connects to other servers.
	Client bool
}

// NewAuthority creates a self-signed authority. The subject is unique, because TLS servers identify a trusted authority
// by its subject.
func NewAuthority(name string, now time.Time) (Pair, error) {
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return Pair{}, fmt.Errorf("make a serial number: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name, SerialNumber: number.Text(16)}, NotBefore: now.Add(-early), NotAfter: now.Add(AuthorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return sign(template, nil, nil)
}

// Issue signs a certificate for a leaf.
func (p Pair) Issue(leaf Leaf, now time.Time) (Pair, error) {
	authority, key, err := p.parse()
	if err != nil {
		return Pair{}, fmt.Errorf("read the certificate authority: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: leaf.Name}, NotBefore: now.Add(-early), NotAfter: now.Add(LeafLife),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if len(leaf.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if leaf.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	for _, host := range leaf.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return sign(template, authority, key)
}

// sign creates a certificate. Without an authority it is self-signed.
func sign(template, authority *x509.Certificate, signer *ecdsa.PrivateKey) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return Pair{}, fmt.Errorf("make a serial number: %w", err)
	}
	if authority == nil {
		authority, signer = template, key
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), signer)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("write the key of %s: %w", template.Subject.CommonName, err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

// Check returns an error with the reason why a certificate does not fit a leaf, or nil. It also returns an error after two thirds of the
// certificate's lifetime, when the certificate must be renewed.
func (p Pair) Check(leaf Leaf, authority Pair, now time.Time) error {
	cert, key, err := p.parse()
	if err != nil {
		return err
	}
	issuer, _, err := authority.parse()
	if err != nil {
		return fmt.Errorf("read the certificate authority: %w", err)
	}
	var hosts []string
	hosts = append(hosts, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	wanted := slices.Clone(leaf.Hosts)
	slices.Sort(hosts)
	slices.Sort(wanted)
	switch {
	case cert.CheckSignatureFrom(issuer) != nil:
		return errors.New("another certificate authority signed it")
	case !key.PublicKey.Equal(cert.PublicKey):
		return errors.New("the key is not the certificate's")
	case cert.Subject.CommonName != leaf.Name || !slices.Equal(hosts, wanted):
		return errors.New("it is for other names")
	case !now.Before(Renew(cert.NotBefore, cert.NotAfter)):
		return fmt.Errorf("it is valid until %s, and due to be renewed", cert.NotAfter.Format(time.RFC3339))
	}
	return nil
}

// Renew returns the time to renew a certificate: after two thirds of its lifetime.
func Renew(from, until time.Time) time.Time { return from.Add(until.Sub(from) / 3 * 2) }

// Valid reports whether certificate and key can be parsed and belong together.
func (p Pair) Valid() bool {
	cert, key, err := p.parse()
	return err == nil && key.PublicKey.Equal(cert.PublicKey)
}

// SignedBy reports whether an authority signed a certificate. It needs only the authority's certificate.
func (p Pair) SignedBy(authority Pair) bool {
	cert, err := parseCert(p.Cert)
	if err != nil {
		return false
	}
	issuer, err := parseCert(authority.Cert)
	return err == nil && cert.CheckSignatureFrom(issuer) == nil
}

// Equal reports whether two pairs are the same.
func (p Pair) Equal(o Pair) bool { return bytes.Equal(p.Cert, o.Cert) && bytes.Equal(p.Key, o.Key) }

// Fingerprint returns the SHA-256 sum of the first certificate in PEM, in hexadecimal, or "".
func Fingerprint(text []byte) string {
	block, _ := pem.Decode(text)
	if block == nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(block.Bytes))
}

// parseCert parses the first certificate in PEM.
func parseCert(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("there is no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	return cert, nil
}

func (p Pair) parse() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	cert, err := parseCert(p.Cert)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(p.Key)
	if block == nil {
		return nil, nil, errors.New("there is no key")
	}
	secret, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("read the key: %w", err)
	}
	key, ok := secret.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("the key has an algorithm that the operator does not use")
	}
	return cert, key, nil
}
