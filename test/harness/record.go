// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"d3os.com/d3os-operator/internal/object"
)

// Sent is one request that an operator sent.
type Sent struct {
	Request

	At   time.Time
	Code int // of the answer; 0 for none
}

func (s Sent) String() string { return fmt.Sprintf("%s -> %d", s.Request, s.Code) }

// Record remembers the requests that were sent.
type Record struct {
	News // of every request and answer

	mu   sync.Mutex
	sent []Sent
}

// Before returns a transport that records what it hands on.
func (r *Record) Before(next http.RoundTripper) http.RoundTripper {
	return Transport(func(req *http.Request) (*http.Response, error) {
		answered := r.Add(Parse(req.Method, req.URL, req.Header.Get("Content-Type")))
		response, err := next.RoundTrip(req)
		if response != nil {
			answered(response.StatusCode)
		}
		return response, err
	})
}

// Add records a request; what it returns records the answer.
func (r *Record) Add(request Request) (answered func(code int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.sent)
	r.sent = append(r.sent, Sent{Request: request, At: time.Now()})
	r.Raise()
	return func(code int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sent[i].Code = code
		r.Raise()
	}
}

// Mark is a place in the record: now.
func (r *Record) Mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sent)
}

// Since returns the requests after a mark that are as asked for.
func (r *Record) Since(mark int, is func(Sent) bool) []Sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Sent
	for _, s := range r.sent[mark:] {
		if is(s) {
			found = append(found, s)
		}
	}
	return found
}

// Objects returns kind and name of what requests are about, sorted, each once.
func Objects(sent []Sent) []string {
	kinds := map[string]string{}
	for _, gvk := range object.Kinds {
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		kinds[resource.Resource] = gvk.Kind
	}
	var found []string
	for _, s := range sent {
		found = append(found, kinds[s.Resource]+"/"+s.Name)
	}
	slices.Sort(found)
	return slices.Compact(found)
}
