// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/test/harness"
)

// Rule says what happens to some requests.
type Rule struct {
	When  func(harness.Request) bool
	Skip  int // how many of them pass first
	Times int // how many of them meet the rule then; 0: all
	Do    Action

	seen, hits int
}

func (r *Rule) meets(request harness.Request) bool {
	if !r.When(request) {
		return false
	}
	r.seen++
	if r.seen <= r.Skip || r.Times > 0 && r.seen > r.Skip+r.Times {
		return false
	}
	r.hits++
	return true
}

// Action is what happens to a request.
type Action func(*Call) (*http.Response, error)

// Call is a request on its way.
type Call struct {
	harness.Request

	process *Process
	http    *http.Request
	send    func(*http.Request) (*http.Response, error)
	delay   time.Duration // of every piece of a watch
}

func (c *Call) do(rule *Rule) (*http.Response, error) {
	if rule != nil {
		return rule.Do(c)
	}
	return c.send(c.http)
}

// CrashBefore ends the process before the request leaves it.
func CrashBefore(c *Call) (*http.Response, error) {
	c.process.Crash()
	return nil, ErrCrashed
}

// CrashAfter ends the process when the request has taken effect and was answered.
func CrashAfter(c *Call) (*http.Response, error) {
	response, err := c.whole()
	c.process.Crash()
	return response, err
}

// CrashLost ends the process when the request has taken effect; the sender sees an error.
func CrashLost(c *Call) (*http.Response, error) {
	response, err := Lose(c)
	c.process.Crash()
	return response, err
}

// CrashOnEffect is CrashLost for requests that take effect. One that the API server refuses takes none: the sender gets that
// answer, as it would have to get it in its next life, and lives on.
func CrashOnEffect(c *Call) (*http.Response, error) {
	response, err := c.whole()
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		return response, err
	}
	c.process.Crash()
	return nil, ErrLost
}

// Lose lets the request take effect; the sender sees an error and lives on.
func Lose(c *Call) (*http.Response, error) {
	if _, err := c.whole(); err != nil {
		return nil, err
	}
	return nil, ErrLost
}

// TimeOut lets the request take effect; the API server answers that it took too long.
func TimeOut(c *Call) (*http.Response, error) {
	if _, err := c.whole(); err != nil {
		return nil, err
	}
	return Refuse(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)(c)
}

// whole sends the request and waits for all of the answer.
func (c *Call) whole() (*http.Response, error) {
	response, err := c.send(c.http)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, err
}

// Refuse answers in the API server's place.
func Refuse(code int, reason metav1.StatusReason) Action { return RefuseFor(code, reason, 0) }

// RefuseFor answers in the API server's place, and says when to come back.
func RefuseFor(code int, reason metav1.StatusReason, seconds int) Action {
	return func(c *Call) (*http.Response, error) {
		if c.http.Body != nil {
			_ = c.http.Body.Close()
		}
		body, err := json.Marshal(&metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Reason: reason, Code: int32(code), Message: "fault: refused",
			Details: &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)},
		})
		if err != nil {
			return nil, err
		}
		header := http.Header{"Content-Type": {"application/json"}}
		if seconds > 0 {
			header.Set("Retry-After", strconv.Itoa(seconds))
		}
		return &http.Response{
			Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: c.http,
		}, nil
	}
}

// Past answers a list as it was at a resource version; a watch from there on passes. A list that is
// asked for as the start of a watch is refused, so that the sender asks for a plain one.
func Past(version string) Action {
	return func(c *Call) (*http.Response, error) {
		query := c.http.URL.Query()
		if query.Get("sendInitialEvents") != "" {
			return Refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)(c)
		}
		if c.Verb != "list" {
			return c.send(c.http)
		}
		query.Set("resourceVersion", version)
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
		query.Del("limit")
		req := c.http.Clone(c.http.Context())
		req.URL.RawQuery = query.Encode()
		return c.send(req)
	}
}
