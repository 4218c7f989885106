// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// certificateProblem returns the reason why the operator and an agent do not accept each other's certificates. It
// returns "" if a query failed for another reason. Unlike the text of an x509 error, which contains the time of the
// query, the reason does not change.
func certificateProblem(err error, name string) string {
	var (
		invalid x509.CertificateInvalidError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		alert   tls.AlertError
	)
	secret := fmt.Sprintf("compare Secret %s with the files in the pod", name+suffixMemberTLS)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		return fmt.Sprintf("the certificate of its agent is valid from %s to %s: %s, and check the nodes' clocks", invalid.Cert.NotBefore.UTC().Format(time.RFC3339),
			invalid.Cert.NotAfter.UTC().Format(time.RFC3339), secret)
	case errors.As(err, &invalid):
		return "the certificate of its agent is wrong: " + secret
	case errors.As(err, &unknown):
		return "the certificate of its agent is signed by another certificate authority: " + secret
	case errors.As(err, &host):
		return "the certificate of its agent is for another name: " + secret
	case errors.As(err, &alert):
		return fmt.Sprintf("its agent refuses the operator's certificate (%s): %s, and check the nodes' clocks", alert, secret)
	}
	return ""
}
