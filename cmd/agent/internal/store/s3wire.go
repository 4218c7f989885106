// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"d3os.com/d3os-operator/internal/contract"
)

// newTransport returns a transport with time limits. A request fails if a server accepts the connection and then sends nothing.
func newTransport(ca []byte) (*http.Transport, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if len(ca) > 0 && !roots.AppendCertsFromPEM(ca) {
		return nil, contract.Errorf(contract.ReasonUsage, "the certificates for the store are not in PEM format")
	}
	dialer := &net.Dialer{Timeout: 7 * time.Second}
	return &http.Transport{
		Proxy: proxy,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &impatient{conn}, nil
		},
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: 7 * time.Second,
		ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8, DisableCompression: true,
	}, nil
}

// proxy returns the proxy in the environment. Requests to addresses of the node, from which pods get credentials, use no proxy.
func proxy(r *http.Request) (*url.URL, error) {
	if ip := net.ParseIP(r.URL.Hostname()); ip != nil && ip.IsLinkLocalUnicast() {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// impatient is a connection with a time limit for each write.
type impatient struct{ net.Conn }

func (c *impatient) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

var codes = map[string]contract.Reason{
	"NoSuchBucket": contract.ReasonStoreMissing, "InvalidBucketName": contract.ReasonStoreMissing,
	"AccessDenied": contract.ReasonStoreDenied, "InvalidAccessKeyId": contract.ReasonStoreDenied, "AllAccessDisabled": contract.ReasonStoreDenied,
	"SignatureDoesNotMatch": contract.ReasonStoreDenied, "ExpiredToken": contract.ReasonStoreDenied, "InvalidToken": contract.ReasonStoreDenied,
	"QuotaExceeded": contract.ReasonStoreFull, "XMinioStorageFull": contract.ReasonStoreFull, "XMinioAdminBucketQuotaExceeded": contract.ReasonStoreFull,
	"InsufficientStorage": contract.ReasonStoreFull, "StorageFull": contract.ReasonStoreFull, "InsufficientCapacity": contract.ReasonStoreFull,
}

var advice = map[contract.Reason]string{
	contract.ReasonStoreMissing:     "there is no such bucket: create it, or correct its name",
	contract.ReasonStoreDenied:      "the store refuses the credentials: correct the Secret, or the rights of its key",
	contract.ReasonStoreFull:        "the store has no room left: raise its quota, or keep fewer backups",
	contract.ReasonStoreUnreachable: "the store does not answer",
}

// answer returns the server's response that err wraps; the zero value for other errors.
func answer(err error) minio.ErrorResponse {
	var response minio.ErrorResponse
	_ = errors.As(err, &response)
	return response
}

// error wraps a failure with the attempted action, and sets its reason.
func (s *S3) error(did, name string, err error) error {
	var known *contract.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	what := strings.TrimSpace(fmt.Sprintf("%s %s", did, name))
	response := answer(err)
	reason, ok := codes[response.Code]
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s in %s: %w", what, s, err)
	case ok:
	case response.Code == "NoSuchKey" || response.Code == "NoSuchUpload":
		return fmt.Errorf("%s in %s: %w: %w", what, s, ErrNotFound, err)
	case response.StatusCode == http.StatusInsufficientStorage:
		reason = contract.ReasonStoreFull
	case response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized:
		reason = contract.ReasonStoreDenied
	case response.StatusCode == 0 || response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests:
		reason = contract.ReasonStoreUnreachable
	default:
		return contract.Errorf(contract.ReasonFailed, "%s in %s: %w", what, s, err)
	}
	return contract.Errorf(reason, "%s in %s: %s: %w", what, s, advice[reason], err)
}
