// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"filippo.io/age"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/seal"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

// flush writes the received events as a segment.
func (a *archive) flush(ctx context.Context) error {
	if a.buffer.Len() == 0 {
		return nil
	}
	return a.write(ctx)
}

func (a *archive) write(ctx context.Context) error {
	s := &a.segment
	s.Source, s.Recipients = a.Source, a.Keys
	if err := a.conn.Limit(time.Now().Add(30 * time.Second)); err == nil {
		// NotAfter is a time after which no received event was committed. If the server does not answer, the segment has no NotAfter.
		s.NotAfter, _ = a.conn.Now()
	}
	if err := Put(ctx, a.Store, a.Recipients, s, a.buffer.Bytes()); err != nil {
		return err
	}
	end := s.End()
	a.last = &end
	a.buffer.Reset()
	return nil
}

// Put writes a segment and its manifest. It sets the manifest's object and time.
func Put(ctx context.Context, to store.Store, recipients []age.Recipient, s *manifest.Segment, content []byte) error {
	var sealed bytes.Buffer
	w, err := seal.NewWriter(&sealed, recipients, 1)
	if err != nil {
		return err
	}
	if _, err = w.Write(content); err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("seal a segment: %w", err)
	}
	stem := manifest.Stem(s.File, s.From, s.To)
	s.Object = w.Object(stem[strings.LastIndex(stem, "/")+1:] + seal.Suffix(recipients))
	folder := manifest.TimelineFolder(s.Timeline) + s.File + "/"
	if err := to.Put(ctx, folder+s.Object.Name, &sealed); err != nil {
		return err
	}
	s.Archived = time.Now().UTC()
	text, err := manifest.Encode(s)
	if err != nil {
		return err
	}
	// A killed agent may have written this segment before: the same content, encrypted differently.
	return to.Replace(ctx, s.Name(), text)
}
