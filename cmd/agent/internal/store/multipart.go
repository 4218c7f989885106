// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/minio/minio-go/v7"

	"d3os.com/d3os-operator/internal/contract"
)

// multipart uploads content with more than one part. part is the first part. multipart holds two parts in memory, because it sends one part
// while it reads the next.
func (s *S3) multipart(ctx context.Context, name string, content io.Reader, part []byte) (err error) {
	key := s.o.Prefix + name
	upload, err := s.client.NewMultipartUpload(ctx, s.o.Bucket, key, minio.PutObjectOptions{ContentType: "application/octet-stream", ServerSideEncryption: s.sse})
	if err != nil {
		return s.error("begin the upload of", name, err)
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_ = s.client.AbortMultipartUpload(ctx, s.o.Bucket, key, upload) // if this fails, the next Sweep aborts the upload
		}
	}()
	var (
		parts []minio.CompletePart
		size  int64
		other = make([]byte, s.o.PartSize)
		sent  = make(chan error, 1)
	)
	send := func(number int, part []byte) {
		done, err := s.client.PutObjectPart(ctx, s.o.Bucket, key, upload, number, bytes.NewReader(part), int64(len(part)),
			minio.PutObjectPartOptions{Md5Base64: md5Of(part), Sha256Hex: sum(part), DisableContentSha256: true})
		parts = append(parts, minio.CompletePart{PartNumber: number, ETag: done.ETag})
		sent <- err
	}
	for last := false; len(part) > 0; {
		if len(parts) == maxParts {
			return contract.Errorf(contract.ReasonFailed, "write %s to %s: it needs more than %d parts of %d MiB: set a larger part size", name, s, maxParts, s.o.PartSize>>20)
		}
		go send(len(parts)+1, part)
		size += int64(len(part))
		next := other[:0]
		var readErr error
		if !last {
			var n int
			n, readErr = io.ReadFull(content, other)
			next = other[:n]
			last = errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF)
		}
		if err := <-sent; err != nil {
			return s.error("write", name, err)
		}
		if readErr != nil && !last {
			return readErr
		}
		part, other = next, part[:cap(part)]
	}
	return s.complete(ctx, name, upload, parts, size)
}

// complete combines the parts into an object. If the response is lost, the upload counts as successful if the object exists.
func (s *S3) complete(ctx context.Context, name, upload string, parts []minio.CompletePart, size int64) error {
	_, err := s.client.CompleteMultipartUpload(ctx, s.o.Bucket, s.o.Prefix+name, upload, parts, minio.PutObjectOptions{})
	info, statErr := s.Stat(ctx, name)
	switch {
	case statErr != nil && err != nil:
		return s.error("complete", name, err)
	case statErr != nil:
		return statErr
	case info.Size != size:
		return contract.Errorf(contract.ReasonDamaged, "write %s to %s: %d bytes were sent, but the object has %d bytes", name, s, size, info.Size)
	}
	return nil
}

// resuming reads an object, and reconnects after each broken connection.
type resuming struct {
	ctx     context.Context
	store   *S3
	name    string
	etag    string
	size    int64
	offset  int64
	fails   int
	content io.ReadCloser
}

func (r *resuming) open() error {
	o := minio.GetObjectOptions{}
	if r.offset > 0 {
		if err := o.SetRange(r.offset, 0); err != nil {
			return fmt.Errorf("read %s from offset %d: %w", r.name, r.offset, err)
		}
	}
	if r.etag != "" {
		if err := o.SetMatchETag(r.etag); err != nil {
			return fmt.Errorf("read %s: %w", r.name, err)
		}
	}
	content, info, _, err := r.store.client.GetObject(r.ctx, r.store.o.Bucket, r.store.o.Prefix+r.name, o)
	if err != nil {
		return r.store.error("read", r.name, err)
	}
	if r.etag == "" {
		r.etag, r.size = info.ETag, r.offset+info.Size
	}
	r.content = content
	return nil
}

func (r *resuming) Read(p []byte) (int, error) {
	for {
		n, err := r.content.Read(p)
		r.offset += int64(n)
		if n > 0 {
			r.fails = 0
			return n, nil
		}
		if err == nil {
			continue
		}
		if r.offset >= r.size && errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if r.fails++; r.fails > 5 || r.ctx.Err() != nil {
			return 0, r.store.error("read", r.name, err)
		}
		_ = r.content.Close() // the connection is broken anyway
		if err := r.open(); err != nil {
			r.content = io.NopCloser(bytes.NewReader(nil))
			return 0, err
		}
	}
}

func (r *resuming) Close() error { return r.content.Close() }
