// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package seal converts a stream to its stored form: compressed with zstd, then encrypted with age for public keys. Without this program,
// `age -d -i KEY FILE | zstd -d` reads the stored form.
package seal

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/internal/contract"
)

// Suffix returns the suffix of the names of sealed objects.
func Suffix(recipients []age.Recipient) string {
	if len(recipients) == 0 {
		return ".zst"
	}
	return ".zst.age"
}

// ParseRecipients parses public keys such as age1..., one per element.
func ParseRecipients(keys []string) ([]age.Recipient, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	recipients, err := age.ParseRecipients(strings.NewReader(strings.Join(keys, "\n")))
	if err != nil {
		return nil, contract.Errorf(contract.ReasonUsage, "read the public keys to encrypt to: %w", err)
	}
	return recipients, nil
}

// ParseIdentities parses private keys such as AGE-SECRET-KEY-1..., one per line.
func ParseIdentities(text string) ([]age.Identity, error) {
	identities, err := age.ParseIdentities(strings.NewReader(text))
	if err != nil {
		// The library's error may quote the line.
		return nil, contract.Errorf(contract.ReasonUsage, "the file of private keys has a line that is no key such as 'AGE-SECRET-KEY-1...'")
	}
	return identities, nil
}

// Writer seals the written content. Its fields are complete after Close.
type Writer struct {
	zstd   io.WriteCloser
	age    io.WriteCloser // nil without encryption
	stored *counter
	plain  counter
}

// NewWriter returns a Writer that writes to w. concurrency is the number of goroutines that compress.
func NewWriter(w io.Writer, recipients []age.Recipient, concurrency int) (*Writer, error) {
	s, next, err := newWriter(w, recipients)
	if err != nil {
		return nil, err
	}
	s.zstd, err = zstd.NewWriter(next, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(concurrency), zstd.WithWindowSize(4<<20))
	return s, err
}

// newWriter returns a Writer without a compressor, and the writer for the compressor's output.
func newWriter(w io.Writer, recipients []age.Recipient) (s *Writer, next io.Writer, err error) {
	s = &Writer{stored: newCounter(w), plain: *newCounter(nil)}
	if len(recipients) == 0 {
		return s, s.stored, nil
	}
	if s.age, err = age.Encrypt(s.stored, recipients...); err != nil {
		return nil, nil, fmt.Errorf("begin to encrypt: %w", err)
	}
	return s, s.age, nil
}

// Write seals a part of the content.
func (s *Writer) Write(p []byte) (int, error) {
	n, err := s.zstd.Write(p)
	_, _ = s.plain.Write(p[:n]) // cannot fail
	return n, err
}

// Close writes the end of the output. It does not close the underlying writer.
func (s *Writer) Close() error {
	err := s.zstd.Close()
	if s.age != nil && err == nil {
		err = s.age.Close()
	}
	return err
}

// Stored returns the number of output bytes so far.
func (s *Writer) Stored() int64 { return s.stored.n }

// Object returns the manifest entry of the output under a given name.
func (s *Writer) Object(name string) manifest.Object {
	return manifest.Object{Name: name, Bytes: s.stored.n, SHA256: s.stored.sum(), PlainBytes: s.plain.n, PlainSHA256: s.plain.sum()}
}

// Reader opens the output of a Writer and compares it with the manifest entry. The comparison is complete only after the whole object was
// read.
type Reader struct {
	object manifest.Object
	stored *counter
	plain  counter
	below  io.Reader
	zstd   *zstd.Decoder
	err    error
}

// NewReader opens an object with this manifest entry.
func NewReader(r io.Reader, object manifest.Object, identities []age.Identity) (*Reader, error) {
	s := &Reader{object: object, stored: newCounter(nil), plain: *newCounter(nil)}
	s.below = io.TeeReader(r, s.stored)
	opened := s.below
	if strings.HasSuffix(object.Name, ".age") {
		if len(identities) == 0 {
			return nil, contract.Errorf(contract.ReasonWrongKey, "%s is encrypted: give the file with the private key", object.Name)
		}
		var err error
		if opened, err = age.Decrypt(s.below, identities...); err != nil {
			var none *age.NoIdentityMatchError
			if errors.As(err, &none) {
				return nil, contract.Errorf(contract.ReasonWrongKey, "the given private key does not open %s: it is encrypted to other keys", object.Name)
			}
			return nil, s.broken(err)
		}
	}
	var err error
	s.zstd, err = zstd.NewReader(opened, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxWindow(64<<20))
	return s, err
}

func (s *Reader) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.zstd.Read(p)
	_, _ = s.plain.Write(p[:n]) // cannot fail
	if errors.Is(err, io.EOF) {
		if err = s.check(); err == nil {
			err = io.EOF
		}
	} else if err != nil {
		err = s.broken(err)
	}
	s.err = err
	return n, err
}

// check compares sizes and hashes after the last byte.
func (s *Reader) check() error {
	if _, err := io.Copy(io.Discard, s.below); err != nil {
		return s.broken(err)
	}
	o := s.object
	if s.stored.n != o.Bytes || s.stored.sum() != o.SHA256 || s.plain.n != o.PlainBytes || s.plain.sum() != o.PlainSHA256 {
		return contract.Errorf(contract.ReasonDamaged, "%s differs from its entry in the manifest, in a size or in a SHA-256: it has %d bytes, and the entry has %d", o.Name, s.stored.n, o.Bytes)
	}
	return nil
}

func (s *Reader) broken(err error) error {
	var known *contract.Error
	if errors.As(err, &known) {
		return err // an error of the store
	}
	return contract.Errorf(contract.ReasonDamaged, "%s differs from the written object: %w", s.object.Name, err)
}

// Close frees the memory of the decoder.
func (s *Reader) Close() { s.zstd.Close() }

type counter struct {
	w io.Writer
	h hash.Hash
	n int64
}

func newCounter(w io.Writer) *counter { return &counter{w: w, h: sha256.New()} }

func (c *counter) Write(p []byte) (n int, err error) {
	n = len(p)
	if c.w != nil {
		n, err = c.w.Write(p)
	}
	_, _ = c.h.Write(p[:n]) // cannot fail
	c.n += int64(n)
	return n, err
}

func (c *counter) sum() string { return hex.EncodeToString(c.h.Sum(nil)) }
