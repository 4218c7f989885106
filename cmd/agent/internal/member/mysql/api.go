// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"d3os.com/d3os-operator/cmd/agent/contract"
)

// Operator is the DNS name in the certificate of the operator, which may give orders. Whoever else has a certificate of the
// cluster's authority may read the state.
const Operator = "operator"

// maxRequest bounds the body of an order.
const maxRequest = 64 << 10

// Orders is what a Member does on order.
type Orders interface {
	State(ctx context.Context) (State, error)
	Promise(ctx context.Context, epoch int64) error
	Follow(ctx context.Context, o Order, from Source, acknowledge bool) error
	Serve(ctx context.Context, o Order, demands int, cutVoters, cutOthers []int) error
	Heartbeat(ctx context.Context, o Order) error
	Demote(ctx context.Context, o Order) error
}

// Request is the body of an order. Instance and Server must be those of the member that was observed: an order that was meant
// for another start, or for other data, is refused.
type Request struct {
	Order
	Instance    string `json:"instance"`
	Server      string `json:"server"`
	Source      Source `json:"source,omitzero"`
	Acknowledge bool   `json:"acknowledge,omitempty"`
	Demands     int    `json:"demands,omitempty"`
	CutVoters   []int  `json:"cutVoters,omitempty"`
	CutOthers   []int  `json:"cutOthers,omitempty"`
}

// Answer is the body of each answer: the state after the order, or why it was refused.
type Answer struct {
	Instance string          `json:"instance"`
	State    *State          `json:"state,omitempty"`
	Reason   contract.Reason `json:"reason,omitempty"`
	Message  string          `json:"message,omitempty"`
}

// API serves GET /state, and POST /promise, /follow, /serve, /heartbeat and /demote.
type API struct {
	// Instance names this start of the server.
	Instance string
	Orders   Orders
}

// ServeHTTP answers the operator and other members.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/state" {
		a.answer(w, r.Context(), nil)
		return
	}
	act := map[string]func(context.Context, Request) error{
		"/promise": func(ctx context.Context, q Request) error { return a.Orders.Promise(ctx, q.Epoch) },
		"/follow": func(ctx context.Context, q Request) error {
			return a.Orders.Follow(ctx, q.Order, q.Source, q.Acknowledge)
		},
		"/serve": func(ctx context.Context, q Request) error {
			return a.Orders.Serve(ctx, q.Order, q.Demands, q.CutVoters, q.CutOthers)
		},
		"/heartbeat": func(ctx context.Context, q Request) error { return a.Orders.Heartbeat(ctx, q.Order) },
		"/demote":    func(ctx context.Context, q Request) error { return a.Orders.Demote(ctx, q.Order) },
	}[r.URL.Path]
	switch {
	case act == nil:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodPost:
		http.Error(w, "orders are sent by POST", http.StatusMethodNotAllowed)
		return
	case !isOperator(r.TLS):
		http.Error(w, "the certificate is not the operator's", http.StatusForbidden)
		return
	}
	a.answer(w, r.Context(), a.order(w, r, act))
}

// order reads an order, and takes it if it was meant for this start and this data.
func (a *API) order(w http.ResponseWriter, r *http.Request, act func(context.Context, Request) error) error {
	var q Request
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	body.DisallowUnknownFields()
	if err := body.Decode(&q); err != nil {
		return contract.Errorf(contract.ReasonUsage, "read the order %s: %w", r.URL.Path, err)
	}
	if q.Instance != a.Instance {
		return contract.Errorf(contract.ReasonRefused, "the order %s is for start %q, and this is start %q", r.URL.Path, q.Instance, a.Instance)
	}
	s, err := a.Orders.State(r.Context())
	if err != nil {
		return fmt.Errorf("look before the order %s: %w", r.URL.Path, err)
	}
	if q.Server == "" || q.Server != s.Server {
		return contract.Errorf(contract.ReasonRefused, "the order %s is for the data of server %q, and this is server %q", r.URL.Path, q.Server, s.Server)
	}
	return act(r.Context(), q)
}

// answer writes the state, and the error of an order.
func (a *API) answer(w http.ResponseWriter, ctx context.Context, failed error) { //nolint:revive // as handlers are
	answer, code := Answer{Instance: a.Instance}, http.StatusOK
	s, err := a.Orders.State(ctx)
	if err == nil {
		answer.State = &s
	}
	if failed != nil {
		err = failed
	}
	if err != nil {
		answer.Reason, answer.Message, code = contract.ReasonOf(err), err.Error(), http.StatusConflict
		if failed == nil {
			code = http.StatusServiceUnavailable
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // the client has gone
}

func isOperator(state *tls.ConnectionState) bool {
	return state != nil && len(state.VerifiedChains) > 0 && slices.Contains(state.PeerCertificates[0].DNSNames, Operator)
}

// TLS returns the configuration of the API's server. The folder has tls.crt, tls.key and ca.crt, which are read at each
// handshake, so that renewed ones are used.
func TLS(folder string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		certificate, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
		if err != nil {
			return nil, fmt.Errorf("read the certificate in %s: %w", folder, err)
		}
		text, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
		if err != nil {
			return nil, fmt.Errorf("read the authority in %s: %w", folder, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, errors.New("read the authority in " + folder + ": ca.crt has no certificate")
		}
		return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}, nil
	}}
}
