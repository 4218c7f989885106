// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"crypto/md5" //nolint:gosec // S3 requires it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"d3os.com/d3os-operator/internal/contract"
)

// S3Options holds the location of a bucket and its credentials.
type S3Options struct {
	// Endpoint is a URL such as https://s3.example.com.
	Endpoint string
	Bucket   string
	// Prefix is the prefix of all names. The store appends a slash.
	Prefix string
	Region string
	// PathStyle puts the bucket into the path, not into the host name.
	PathStyle bool
	// CA contains PEM certificates that are trusted in addition to the system's certificates.
	CA []byte
	// AccessKey, SecretKey and Token are the credentials.
	AccessKey, SecretKey, Token string
	// IsRole selects the short-lived credentials of the pod's service account instead of a key. The cluster sets
	// AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or AWS_CONTAINER_CREDENTIALS_FULL_URI, in the pod's environment.
	IsRole bool
	// STS is the URL of the service that exchanges the service account's token for credentials; empty for the service of AWS.
	STS string
	// Encryption selects the server-side encryption of objects: AES256, aws:kms or empty. KMSKey is the key's name for aws:kms.
	Encryption, KMSKey string
	// PartSize is the size of the parts of large objects; 0 means 16 MiB. An upload needs twice PartSize of memory. An object has at most
	// 10,000 parts.
	PartSize int
}

const maxParts = 10_000

// S3 stores objects in a bucket.
type S3 struct {
	o      S3Options
	client minio.Core
	sse    encrypt.ServerSide // nil for none
}

// NewS3 returns a store in a bucket. It fails if the bucket does not answer.
func NewS3(ctx context.Context, o S3Options) (*S3, error) {
	if o.Prefix = strings.Trim(o.Prefix, "/"); o.Prefix != "" {
		o.Prefix += "/"
	}
	if o.PartSize == 0 {
		o.PartSize = 16 << 20
	}
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "https" && endpoint.Scheme != "http" || strings.Trim(endpoint.Path, "/") != "" {
		return nil, contract.Errorf(contract.ReasonUsage, "the endpoint of the store must be a URL such as 'https://s3.example.com', not %q", o.Endpoint)
	}
	transport, err := newTransport(o.CA)
	if err != nil {
		return nil, err
	}
	lookup := minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	creds := o.credentials()
	if o.IsRole {
		if err := given(creds, transport); err != nil {
			return nil, err
		}
	}
	client, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds: creds, Secure: endpoint.Scheme == "https",
		Region: o.Region, BucketLookup: lookup, Transport: transport, MaxRetries: 5,
	})
	if err != nil {
		return nil, contract.Errorf(contract.ReasonUsage, "use the store at %s: %w", o.Endpoint, err)
	}
	s := &S3{o: o, client: *client}
	if s.sse, err = o.encryption(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 45*time.Second)
	defer cancel()
	// A list request needs no further right. It detects a wrong bucket name, wrong credentials, and an unreachable store.
	first, ok := <-s.client.Client.ListObjects(ctx, o.Bucket, minio.ListObjectsOptions{Prefix: o.Prefix, Recursive: true, MaxKeys: 1})
	if ok && first.Err != nil {
		return nil, s.error("list the objects", "", first.Err)
	}
	if !ok && ctx.Err() != nil {
		return nil, s.error("list the objects", "", context.DeadlineExceeded)
	}
	return s, nil
}

func (o S3Options) credentials() *credentials.Credentials {
	if o.IsRole {
		return credentials.NewIAM(o.STS)
	}
	return credentials.NewStaticV4(o.AccessKey, o.SecretKey, o.Token)
}

// given returns an error if the pod's service account gets no credentials. Otherwise the first request would fail with an error that names
// the store.
func given(creds *credentials.Credentials, transport http.RoundTripper) error {
	_, err := creds.GetWithContext(&credentials.CredContext{Client: &http.Client{Transport: transport, Timeout: 30 * time.Second}})
	var unreachable *url.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unreachable):
		return contract.Errorf(contract.ReasonStoreUnreachable, "the service that gives credentials to the pod's service account does not answer: name a Secret with a key (credentialsSecret), or a service account that has a role: %w", err)
	}
	return contract.Errorf(contract.ReasonStoreDenied, "the pod's service account gets no credentials: correct its role, or the role's trust policy: %w", err)
}

func (o S3Options) encryption() (encrypt.ServerSide, error) {
	switch o.Encryption {
	case "":
		return nil, nil
	case "AES256":
		return encrypt.NewSSE(), nil
	case "aws:kms":
		sse, err := encrypt.NewSSEKMS(o.KMSKey, nil)
		if err != nil {
			return nil, contract.Errorf(contract.ReasonUsage, "use key %s of the store: %w", o.KMSKey, err)
		}
		return sse, nil
	}
	return nil, contract.Errorf(contract.ReasonUsage, "the store's encryption must be AES256 or aws:kms, not %q", o.Encryption)
}

func (s *S3) String() string {
	return fmt.Sprintf("bucket %s at %s", s.o.Bucket, s.o.Endpoint)
}

// Put uploads content in parts if the content is larger than one part. It uploads a part while it reads the next.
func (s *S3) Put(ctx context.Context, name string, content io.Reader) error {
	first := make([]byte, s.o.PartSize)
	n, err := io.ReadFull(content, first)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return s.put(ctx, name, first[:n], minio.PutObjectOptions{})
	case err != nil:
		return err
	}
	return s.multipart(ctx, name, content, first)
}

func (s *S3) put(ctx context.Context, name string, content []byte, o minio.PutObjectOptions) error {
	o.DisableContentSha256, o.ContentType, o.ServerSideEncryption = true, "application/octet-stream", s.sse // the client then does not sign each piece
	_, err := s.client.PutObject(ctx, s.o.Bucket, s.o.Prefix+name, reader(content), int64(len(content)), md5Of(content), sum(content), o)
	return s.error("write", name, err)
}

// sum returns the hash with which the server verifies the content.
func sum(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}

// md5Of returns the checksum that buckets with Object Lock require. It does not protect the content; the SHA-256 hash does.
func md5Of(content []byte) string {
	sum := md5.Sum(content) //nolint:gosec // S3 requires it
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Replace overwrites an object.
func (s *S3) Replace(ctx context.Context, name string, content []byte) error {
	return s.put(ctx, name, content, minio.PutObjectOptions{})
}

// Create writes an object only if no object of that name exists. If the server does not support conditional writes, Create looks for the
// object first.
func (s *S3) Create(ctx context.Context, name string, content []byte) error {
	o := minio.PutObjectOptions{}
	o.SetMatchETagExcept("*")
	err := s.put(ctx, name, content, o)
	if err == nil {
		return nil
	}
	switch answer(err).StatusCode {
	case http.StatusPreconditionFailed, http.StatusConflict:
		// If the first response was lost, the client has sent the request again. In that case, this call has created the object.
		if found, readErr := ReadAll(ctx, s, name); readErr != nil {
			return readErr
		} else if string(found) == string(content) {
			return nil
		}
		return ErrExists
	case http.StatusNotImplemented:
		if _, err := s.Stat(ctx, name); err == nil {
			return ErrExists
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		return s.Replace(ctx, name, content)
	}
	return err
}

// Get opens an object. After a broken connection, it reconnects and continues at the same offset.
func (s *S3) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	r := &resuming{ctx: ctx, store: s, name: name, offset: offset}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// Stat describes an object.
func (s *S3) Stat(ctx context.Context, name string) (Info, error) {
	info, err := s.client.StatObject(ctx, s.o.Bucket, s.o.Prefix+name, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, s.error("look for", name, err)
	}
	return Info{Name: name, Size: info.Size, Modified: info.LastModified}, nil
}

// List describes the objects under a prefix.
func (s *S3) List(ctx context.Context, prefix string) ([]Info, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var found []Info
	for object := range s.client.Client.ListObjects(ctx, s.o.Bucket, minio.ListObjectsOptions{Prefix: s.o.Prefix + prefix, Recursive: true}) {
		if object.Err != nil {
			return nil, s.error("list", prefix, object.Err)
		}
		found = append(found, Info{Name: strings.TrimPrefix(object.Key, s.o.Prefix), Size: object.Size, Modified: object.LastModified})
	}
	return found, nil
}

// Delete removes an object.
func (s *S3) Delete(ctx context.Context, name string) error {
	err := s.client.RemoveObject(ctx, s.o.Bucket, s.o.Prefix+name, minio.RemoveObjectOptions{})
	if err = s.error("remove", name, err); errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Sweep aborts uploads that will never be completed. Otherwise the bucket would keep their parts, which cost money.
func (s *S3) Sweep(ctx context.Context, prefix string) ([]string, error) {
	return s.SweepIf(ctx, prefix, func(string) bool { return true })
}

// SweepIf aborts the uploads of objects for whose names the function may returns true.
func (s *S3) SweepIf(ctx context.Context, prefix string, may func(name string) bool) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var names []string
	for upload := range s.client.ListIncompleteUploads(ctx, s.o.Bucket, s.o.Prefix+prefix, true) {
		if code := answer(upload.Err).Code; code == "NoSuchUpload" || code == "NotImplemented" {
			return names, nil // some servers return this error if there are no uploads
		}
		if upload.Err != nil {
			return names, s.error("list unfinished uploads of", prefix, upload.Err)
		}
		if !strings.HasPrefix(upload.Key, s.o.Prefix+prefix) || !may(strings.TrimPrefix(upload.Key, s.o.Prefix)) {
			continue // some servers ignore the prefix
		}
		if err := s.client.AbortMultipartUpload(ctx, s.o.Bucket, upload.Key, upload.UploadID); err != nil {
			if err := s.error("end the unfinished upload of", upload.Key, err); !errors.Is(err, ErrNotFound) {
				return names, err
			}
		}
		names = append(names, strings.TrimPrefix(upload.Key, s.o.Prefix))
	}
	return names, nil
}
