// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd makes a backup of an etcd cluster. It restores a backup as the data of the first member of a new cluster.
package etcd

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/internal/contract"
)

// Flavour is the name of the server in manifests.
const Flavour = "etcd"

// object is the name of the snapshot in a backup.
const object = "snapshot.db"

// patience is the maximum time in which a member must answer a request.
const patience = 15 * time.Second

// Cluster holds the options for connections to the members.
type Cluster struct {
	// Endpoint is an address that leads to any member, such as http://store.data.svc:2379.
	Endpoint string
	// TLS is a folder with tls.crt, tls.key and ca.crt; empty for connections that are not encrypted.
	TLS string
}

// Backup makes a backup of a cluster: the snapshot that one member streams, followed by a hash. The backup includes every write that was
// acknowledged before its start. It returns the manifest, and the leftovers of earlier runs that it removed.
func Backup(ctx context.Context, c Cluster, o draft.Options) (*manifest.Backup, []string, error) {
	client, err := c.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	d, err := draft.Begin(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	if err := c.describe(ctx, client, &d.Manifest); err != nil {
		return nil, nil, err
	}
	done, err := o.Claim(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	removed, err := catalogue.SweepOld(ctx, o.Store, d.Manifest.Started)
	if err != nil {
		return nil, removed, err
	}
	stored, err := d.Put(ctx, object, func(w io.Writer) error { return c.stream(ctx, client, w, silence) })
	if err == nil {
		d.Manifest.Objects = []manifest.Object{stored}
		err = d.Commit(ctx)
	}
	if err != nil {
		d.Discard(ctx)
		return nil, removed, err
	}
	return &d.Manifest, removed, nil
}

func (c Cluster) connect(ctx context.Context) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints: []string{c.Endpoint}, Context: ctx, DialTimeout: patience,
		DialKeepAliveTime: patience, DialKeepAliveTimeout: patience, Logger: zap.NewNop(),
	}
	var err error
	if config.TLS, err = c.certificates(); err != nil {
		return nil, contract.Errorf(contract.ReasonUsage, "read the certificates for %s: %w", c.Endpoint, err)
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, c.failed("connect to", err)
	}
	return client, nil
}

func (c Cluster) certificates() (*tls.Config, error) {
	if c.TLS == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.TLS, "tls.crt"), filepath.Join(c.TLS, "tls.key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(c.TLS, "ca.crt"))
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(authority) {
		return nil, errors.New("ca.crt has no certificate")
	}
	return config, nil
}

// describe sets the manifest's fields about the cluster. Its read is linearizable: the answering member has all writes that any member
// acknowledged before.
func (c Cluster) describe(ctx context.Context, client *clientv3.Client, m *manifest.Backup) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	state, err := client.Status(ctx, c.Endpoint)
	if err != nil {
		return c.failed("query", err)
	}
	latest, err := client.Get(ctx, "\x00")
	if err != nil {
		return c.failed("read the latest revision of", err)
	}
	m.Server = manifest.Server{Version: state.Version, Flavour: Flavour, UUID: fmt.Sprintf("%x", state.Header.ClusterId)}
	m.Revision, m.Tool = latest.Header.Revision, "etcd"
	return nil
}

// trailer computes the hash of its input except the last bytes. The last bytes are the hash that a member sends after a snapshot
// (https://etcd.io/docs/v3.6/op-guide/recovery/).
type trailer struct {
	hash hash.Hash
	last []byte
	n    int64
}

func newTrailer() *trailer { return &trailer{hash: sha256.New()} }

func (t *trailer) Write(p []byte) (int, error) {
	t.n += int64(len(p))
	t.last = append(t.last, p...)
	if over := len(t.last) - sha256.Size; over > 0 {
		t.hash.Write(t.last[:over])
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(p), nil
}

// verify returns an error unless the received bytes are a complete snapshot: pages of at least 512 bytes, followed by the hash.
func (t *trailer) verify() error {
	if t.n%512 != sha256.Size {
		return fmt.Errorf("the member sent %d bytes, which are not a snapshot followed by its hash", t.n)
	}
	if sum := t.hash.Sum(nil); string(sum) != string(t.last) {
		return fmt.Errorf("the snapshot has the hash %s, but the member reports %s", hex.EncodeToString(sum), hex.EncodeToString(t.last))
	}
	return nil
}

// failed wraps an error with the attempted action, and sets its reason.
func (c Cluster) failed(what string, err error) error {
	reason := contract.ReasonServerUnreachable
	code := status.Code(err)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case code == codes.PermissionDenied || code == codes.Unauthenticated || errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty):
		reason = contract.ReasonAccessDenied
	}
	return contract.Errorf(reason, "%s etcd at %s: %w", what, c.Endpoint, err)
}
