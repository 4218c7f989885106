// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// longestNotice limits the time before the expiry in which a certificate counts as late. The limit matters
// for authorities, which are valid for years.
const longestNotice = 30 * 24 * time.Hour

// Validity is the validity period of certificates.
type Validity struct{ From, Until time.Time }

// ValidityOf returns the validity of the certificate in PEM that expires first.
func ValidityOf(text []byte) (Validity, error) {
	var first Validity
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return Validity{}, fmt.Errorf("read the certificate: %w", err)
		}
		if first.Until.IsZero() || cert.NotAfter.Before(first.Until) {
			first = Validity{cert.NotBefore, cert.NotAfter}
		}
	}
	if first.Until.IsZero() {
		return Validity{}, errors.New("there is no certificate")
	}
	return first, nil
}

// IsOver reports whether a certificate has expired.
func (v Validity) IsOver(now time.Time) bool { return now.After(v.Until) }

// IsLate reports whether a certificate should have been renewed already: less than a sixth of its lifetime is left, and
// less than 30 days. The operator renews a certificate when a third is left.
func (v Validity) IsLate(now time.Time) bool {
	return v.Until.Sub(now) < min(v.Until.Sub(v.From)/6, longestNotice)
}
