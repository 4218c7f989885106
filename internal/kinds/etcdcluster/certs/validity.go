// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// longestNotice is the longest time before its end at which a certificate is late: authorities live for years.
const longestNotice = 30 * 24 * time.Hour

// Validity is for how long certificates are valid.
type Validity struct{ From, Until time.Time }

// ValidityOf returns for how long certificates in PEM are valid. Of several it is the one that ends first.
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

// IsOver reports whether a certificate is refused.
func (v Validity) IsOver(now time.Time) bool { return now.After(v.Until) }

// IsLate reports whether a certificate should have been renewed: a sixth of its life is left, 30 days at most. What renews
// certificates by itself does so with a third left.
func (v Validity) IsLate(now time.Time) bool {
	return v.Until.Sub(now) < min(v.Until.Sub(v.From)/6, longestNotice)
}
