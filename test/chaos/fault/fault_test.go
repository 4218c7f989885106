// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"d3os.com/d3os-operator/test/harness"
)

// server records the requests that reach it, and sends each line of lines to a watch.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	got   []string
	lines chan string
}

func serve(t *testing.T) *server {
	s := &server{lines: make(chan string, 16)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.got = append(s.got, r.Method+" "+r.URL.RequestURI())
		s.mu.Unlock()
		if r.URL.Query().Get("watch") == "" {
			if strings.HasSuffix(r.URL.Path, invalid) {
				w.WriteHeader(http.StatusUnprocessableEntity)
			}
			fmt.Fprint(w, "answer")
			return
		}
		w.(http.Flusher).Flush()
		for {
			select {
			case line := <-s.lines:
				fmt.Fprintln(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(s.CloseClientConnections)
	return s
}

const (
	path    = "/api/v1/namespaces/ns/configmaps"
	invalid = "/invalid" // end of the paths that the server refuses
)

// reply is an answer. Its body has been read to the end unless the request is a watch.
type reply struct {
	code   int
	header http.Header
	stream io.ReadCloser
}

func (s *server) do(t *testing.T, p *Process, method, uri string) (string, reply, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+uri, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := p.Wrap(http.DefaultTransport).RoundTrip(req)
	if err != nil {
		return "", reply{}, err
	}
	r := reply{code: response.StatusCode, header: response.Header, stream: response.Body}
	if strings.Contains(uri, "watch=") && r.code == http.StatusOK {
		return "", r, nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), r, err
}

func (s *server) reached() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

func isWrite(r harness.Request) bool { return r.Writes() }

func TestCrashes(t *testing.T) {
	for name, c := range map[string]struct {
		do      Action
		reaches int
		answer  string
		err     error
	}{
		"before": {CrashBefore, 1, "", ErrCrashed},
		"after":  {CrashAfter, 2, "answer", nil},
		"lost":   {CrashLost, 2, "", ErrLost},
		"effect": {CrashOnEffect, 2, "", ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := serve(t), New()
			rule := &Rule{When: isWrite, Skip: 1, Times: 1, Do: c.do}
			p.Rule(rule)
			if body, _, err := s.do(t, p, http.MethodPost, path); body != "answer" || err != nil {
				t.Fatalf("the first write: %q, %v", body, err)
			}
			body, _, err := s.do(t, p, http.MethodPut, path+"/x")
			if body != c.answer || !errors.Is(err, c.err) || s.reached() != c.reaches || p.Hits(rule) != 1 {
				t.Errorf("the crash: %q, %v, %d requests reached the server, %d hits", body, err, s.reached(), p.Hits(rule))
			}
			<-p.Crashed()
			if _, _, err := s.do(t, p, http.MethodGet, path); !errors.Is(err, ErrCrashed) || s.reached() != c.reaches {
				t.Errorf("after the crash: %v, %d requests reached the server", err, s.reached())
			}
		})
	}
}

// CrashOnEffect does not crash at a request that the server refuses.
func TestCrashOnEffect(t *testing.T) {
	s, p := serve(t), New()
	p.Rule(&Rule{When: isWrite, Do: CrashOnEffect})
	if body, r, err := s.do(t, p, http.MethodPut, path+invalid); err != nil || r.code != http.StatusUnprocessableEntity || body != "answer" {
		t.Errorf("a refused request: %q, %v", body, err)
	}
	if _, _, err := s.do(t, p, http.MethodPut, path); !errors.Is(err, ErrLost) || s.reached() != 2 {
		t.Errorf("an accepted request: %v, %d requests reached the server", err, s.reached())
	}
	<-p.Crashed()
}

func TestAnswers(t *testing.T) {
	s, p := serve(t), New()
	p.Rule(&Rule{When: isWrite, Times: 1, Do: Lose}, &Rule{When: isWrite, Skip: 0, Times: 1, Do: TimeOut},
		&Rule{When: isWrite, Times: 1, Do: RefuseFor(http.StatusTooManyRequests, "TooManyRequests", 3)})
	if _, _, err := s.do(t, p, http.MethodPost, path); !errors.Is(err, ErrLost) || s.reached() != 1 {
		t.Errorf("lost: %v", err)
	}
	if body, r, err := s.do(t, p, http.MethodPost, path); err != nil || r.code != http.StatusGatewayTimeout || !strings.Contains(body, "Timeout") || s.reached() != 2 {
		t.Errorf("the request that times out: %s %v", body, err)
	}
	if _, r, err := s.do(t, p, http.MethodPost, path); err != nil || r.code != http.StatusTooManyRequests || r.header.Get("Retry-After") != "3" || s.reached() != 2 {
		t.Errorf("refused: %v", err)
	}
	if body, _, err := s.do(t, p, http.MethodPost, path); err != nil || body != "answer" || s.reached() != 3 {
		t.Errorf("the request after the timeout: %q, %v", body, err)
	}
	if codes := fmt.Sprint(p.Since(0, func(r harness.Sent) bool { return r.Code == http.StatusOK })); strings.Count(codes, "create") != 3 {
		t.Errorf("recorded: %s", codes)
	}
}

func TestPast(t *testing.T) {
	s, p := serve(t), New()
	p.Rule(&Rule{When: func(harness.Request) bool { return true }, Do: Past("42")})
	if _, r, err := s.do(t, p, http.MethodGet, path+"?watch=true&sendInitialEvents=true"); err != nil || r.code != http.StatusUnprocessableEntity {
		t.Errorf("a watch that starts with a list: %v", err)
	}
	if _, _, err := s.do(t, p, http.MethodGet, path+"?limit=500"); err != nil || len(s.got) != 1 || s.got[0] != "GET "+path+"?resourceVersion=42&resourceVersionMatch=Exact" {
		t.Errorf("%v, %v", s.got, err)
	}
}

func TestWatches(t *testing.T) {
	s, p := serve(t), New()
	_, watch, err := s.do(t, p, http.MethodGet, path+"?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	events, ended := make(chan string), make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(watch.stream)
		for lines.Scan() {
			events <- lines.Text()
		}
		ended <- lines.Err()
	}()
	s.lines <- "one"
	if got := <-events; got != "one" || p.Watching("configmaps") != 1 {
		t.Fatalf("%s, %d watches", got, p.Watching("configmaps"))
	}
	p.Hold("configmaps")
	s.lines <- "two"
	select {
	case got := <-events:
		t.Errorf("a held watch delivered %s", got)
	case <-time.After(100 * time.Millisecond): // slow machines pass, too: only Release delivers the event
	}
	p.Release()
	if got := <-events; got != "two" {
		t.Error(got)
	}
	p.Hold("configmaps")
	s.lines <- "three"
	p.Break("configmaps")
	if err := <-ended; !errors.Is(err, io.ErrUnexpectedEOF) || p.Watching("configmaps") != 0 {
		t.Errorf("broken: %v, %d watches", err, p.Watching("configmaps"))
	}
}
