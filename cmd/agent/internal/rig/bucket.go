// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"io"
	"log"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

// Bucket is a bucket on an S3 server in this process. Tests can make its requests fail.
type Bucket struct {
	*httptest.Server
	Backend gofakes3.Backend

	// Refuses makes the bucket refuse some requests, as some stores do. It returns the status and the code of the refusal, or 0. Set it
	// before the first request.
	Refuses func(*http.Request) (status int, code string)

	mu     sync.Mutex
	faults func(*http.Request) Fault
}

// Fault is a kind of failure of a request.
type Fault int

// The faults.
const (
	None       Fault = iota
	Cut              // the connection breaks while the request is being read
	LostAnswer       // the request takes effect, but the connection breaks before the answer
	Busy             // 503 SlowDown
	NoRoom           // 507, for requests that write
	Denied           // 403
	Down             // the connection breaks immediately
)

// NewBucket starts the server, with the bucket "backups".
func NewBucket(t testing.TB) *Bucket {
	t.Helper()
	b := &Bucket{Backend: s3mem.New()}
	assert.NilError(t, b.Backend.CreateBucket("backups"))
	server := gofakes3.New(b.Backend, gofakes3.WithLogger(gofakes3.DiscardLog()), gofakes3.WithoutVersioning()).Server()
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.serve(server, w, r) }))
	b.Config.ErrorLog = log.New(io.Discard, "", 0) // tests break connections on purpose
	b.Start()
	t.Cleanup(b.CloseClientConnections)
	t.Cleanup(b.Close)
	return b
}

// Break sets the faults of all later requests; nil for none.
func (b *Bucket) Break(faults func(*http.Request) Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = faults
}

func (b *Bucket) fault(r *http.Request) Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := None
	if b.faults != nil {
		f = b.faults(r)
	}
	if f == NoRoom && r.Method == http.MethodGet || f == NoRoom && r.Method == http.MethodDelete || f == NoRoom && r.Method == http.MethodHead {
		f = None
	}
	return f
}

func (b *Bucket) serve(server http.Handler, w http.ResponseWriter, r *http.Request) {
	switch b.fault(r) {
	case Cut:
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		panic(http.ErrAbortHandler)
	case Down:
		panic(http.ErrAbortHandler)
	case LostAnswer:
		server.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case Busy:
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
	case NoRoom:
		_, _ = io.Copy(io.Discard, r.Body)
		refuse(w, http.StatusInsufficientStorage, "XMinioStorageFull")
	case Denied:
		_, _ = io.Copy(io.Discard, r.Body)
		refuse(w, http.StatusForbidden, "AccessDenied")
	default:
		if b.Refuses != nil {
			if status, code := b.Refuses(r); status != 0 {
				_, _ = io.Copy(io.Discard, r.Body)
				refuse(w, status, code)
				return
			}
		}
		server.ServeHTTP(w, r)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.Copy(w, strings.NewReader("<Error><Code>"+code+"</Code><Message>made by the test</Message></Error>"))
}

// Options returns the options for a connection to the bucket.
func (b *Bucket) Options() store.S3Options {
	return store.S3Options{Endpoint: b.URL, Bucket: "backups", Prefix: "platform/mysql", Region: "us-east-1", PathStyle: true, AccessKey: "key", SecretKey: "secret", PartSize: 5 << 20}
}

// Open returns the bucket as a store.
func (b *Bucket) Open(t testing.TB) *store.S3 {
	t.Helper()
	s, err := store.NewS3(t.Context(), b.Options())
	assert.NilError(t, err)
	return s
}

// Damage changes a byte of an object.
func (b *Bucket) Damage(t testing.TB, name string) {
	t.Helper()
	object, err := b.Backend.GetObject("backups", name, nil)
	assert.NilError(t, err)
	content, err := io.ReadAll(object.Contents)
	assert.NilError(t, err)
	content[len(content)/2] ^= 1
	if _, err := b.Backend.PutObject("backups", name, map[string]string{}, bytes.NewReader(content), int64(len(content)), nil); err != nil {
		t.Fatal(err)
	}
}

// Sometimes returns a function that selects one of the faults for a request with this probability, and otherwise None.
func Sometimes(random *rand.Rand, probability float64, faults ...Fault) func(*http.Request) Fault {
	return func(*http.Request) Fault {
		if random.Float64() < probability {
			return faults[random.Intn(len(faults))]
		}
		return None
	}
}
