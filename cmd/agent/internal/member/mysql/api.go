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
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// pinged is the parameter of a ping. Its value is the UUID of the server that the voter follows.
const pinged = "server"

// PingPath returns the path of a ping to a server.
func PingPath(server string) string {
	return mysqlmember.PathPing + "?" + url.Values{pinged: {server}}.Encode()
}

// maxRequest bounds the body of a request.
const maxRequest = 64 << 10

// Orders lists the operations of a Member that the operator can request.
type Orders interface {
	State(ctx context.Context) (mysqlmember.State, error)
	Promise(ctx context.Context, epoch int64) error
	Follow(ctx context.Context, o mysqlmember.Order, from mysqlmember.Source, acknowledge bool) error
	Renew(ctx context.Context, o mysqlmember.Order, from mysqlmember.Source) error
	Serve(ctx context.Context, o mysqlmember.Order, demands int, cutVoters, cutOthers []int, servers map[int]string) error
	Heartbeat(ctx context.Context, o mysqlmember.Order) error
	Demote(ctx context.Context, o mysqlmember.Order) error
	Events(ctx context.Context) ([]mysqlmember.Event, error)
}

// API serves GET /state, GET /events, GET /ping, and POST /promise, /follow, /serve, /heartbeat and /demote.
type API struct {
	// Member returns the report and, while a server runs, the Member that executes orders. Report.Instance then identifies the start of this
	// server.
	Member func() (mysqlmember.Report, Orders)
	// Heard is called for each request of the operator, and for each ping of a voter that follows this server.
	Heard func(operator bool)
}

// ServeHTTP answers the operator and the agents of other members.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	operator, ping := isOperator(r.TLS), r.URL.Path == mysqlmember.PathPing
	report, orders := a.Member()
	if operator || ping && isFor(r, report) {
		a.Heard(operator)
	}
	if r.Method == http.MethodGet && (ping || r.URL.Path == mysqlmember.PathState) {
		if ping {
			orders = nil // the answer then has no state of the server
		}
		a.answer(w, r.Context(), report, orders, nil, nil)
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == mysqlmember.PathEvents {
		events, err := eventsOf(r.Context(), orders)
		a.answer(w, r.Context(), report, orders, events, err)
		return
	}
	act := map[string]func(context.Context, mysqlmember.Request) error{
		mysqlmember.PathPromise: func(ctx context.Context, q mysqlmember.Request) error { return orders.Promise(ctx, q.Epoch) },
		mysqlmember.PathFollow: func(ctx context.Context, q mysqlmember.Request) error {
			if q.Renew {
				return orders.Renew(ctx, q.Order, q.Source)
			}
			return orders.Follow(ctx, q.Order, q.Source, q.Acknowledge)
		},
		mysqlmember.PathServe: func(ctx context.Context, q mysqlmember.Request) error {
			return orders.Serve(ctx, q.Order, q.Demands, q.CutVoters, q.CutOthers, q.Servers)
		},
		mysqlmember.PathHeartbeat: func(ctx context.Context, q mysqlmember.Request) error { return orders.Heartbeat(ctx, q.Order) },
		mysqlmember.PathDemote:    func(ctx context.Context, q mysqlmember.Request) error { return orders.Demote(ctx, q.Order) },
	}[r.URL.Path]
	switch {
	case act == nil:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodPost:
		http.Error(w, "orders are sent by POST", http.StatusMethodNotAllowed)
		return
	case !operator:
		http.Error(w, "the certificate is not the operator's", http.StatusForbidden)
		return
	}
	a.answer(w, r.Context(), report, orders, nil, order(w, r, report.Instance, orders, act))
}

// isFor reports whether a ping is for this member's server. A ping for a former server of the pod may reach this agent, because the pod
// has the same name. A ping of an older agent names no server, and counts as a ping for this server.
func isFor(ping *http.Request, report mysqlmember.Report) bool {
	server := ping.URL.Query().Get(pinged)
	return server == "" || server == report.Server
}

// order reads an order, and executes it only if the order names the present Report.Instance and the UUID of this server.
func order(w http.ResponseWriter, r *http.Request, instance string, orders Orders, act func(context.Context, mysqlmember.Request) error) error {
	var q mysqlmember.Request
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	body.DisallowUnknownFields()
	if err := body.Decode(&q); err != nil {
		return contract.Errorf(contract.ReasonUsage, "read the order %s: %w", r.URL.Path, err)
	}
	if q.Instance != instance {
		return contract.Errorf(contract.ReasonRefused, "the order %s is for start %q of this member, but the member's present start is %q", r.URL.Path, q.Instance, instance)
	}
	if orders == nil {
		return contract.Errorf(contract.ReasonServerUnreachable, "the order %s needs a server, but no server runs", r.URL.Path)
	}
	s, err := orders.State(r.Context())
	if err != nil {
		return fmt.Errorf("read the state of the server before the order %s: %w", r.URL.Path, err)
	}
	if q.Server == "" || q.Server != s.Server {
		return contract.Errorf(contract.ReasonRefused, "the order %s is for the data of server %q, but this is server %q", r.URL.Path, q.Server, s.Server)
	}
	return act(r.Context(), q)
}

func eventsOf(ctx context.Context, orders Orders) ([]mysqlmember.Event, error) {
	if orders == nil {
		return nil, contract.Errorf(contract.ReasonServerUnreachable, "list events: no server runs")
	}
	return orders.Events(ctx)
}

// answer writes the report, the state, and the result of a request.
func (a *API) answer(w http.ResponseWriter, ctx context.Context, report mysqlmember.Report, orders Orders, events []mysqlmember.Event, failed error) { //nolint:revive // w comes first, as in http.Handler
	answer, code := mysqlmember.Answer{Report: report, Events: events}, http.StatusOK
	var err error
	if orders != nil {
		var s mysqlmember.State
		if s, err = orders.State(ctx); err == nil {
			answer.State, answer.Promised, answer.Revision = &s, s.Promised, s.Revision
		}
	}
	if failed != nil {
		err, code = failed, http.StatusConflict
	}
	if err != nil {
		answer.Reason, answer.Message = contract.ReasonOf(err), err.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // fails if the client has disconnected
}

func isOperator(state *tls.ConnectionState) bool {
	return state != nil && len(state.VerifiedChains) > 0 && slices.Contains(state.PeerCertificates[0].DNSNames, mysqlmember.Operator)
}

// TLS returns the configuration of the API's server. The folder has tls.crt, tls.key and ca.crt. Each handshake reads the files again, so
// that renewed certificates are used.
func TLS(folder string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		certificate, pool, err := readTLS(folder)
		if err != nil {
			return nil, err
		}
		return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}, nil
	}}
}

// ClientTLS returns the configuration of a client of another member's API, with the current certificates.
func ClientTLS(folder string) (*tls.Config, error) {
	certificate, pool, err := readTLS(folder)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, RootCAs: pool}, nil
}

// CheckTLS returns an error if the other members and the operator would refuse the member's certificate.
func CheckTLS(folder string, now time.Time) error {
	certificate, pool, err := readTLS(folder)
	if err != nil {
		return err
	}
	_, err = certificate.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	switch invalid := (x509.CertificateInvalidError{}); {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the certificate in %s, or its authority, is not valid at this time: it is valid from %s to %s. Members and operator cannot reach one another until the certificate is renewed", folder,
			certificate.Leaf.NotBefore.Format(time.RFC3339), certificate.Leaf.NotAfter.Format(time.RFC3339))
	case err != nil:
		return fmt.Errorf("check the certificate in %s: %w", folder, err)
	}
	return nil
}

func readTLS(folder string) (tls.Certificate, *x509.CertPool, error) {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	if err != nil {
		return certificate, nil, fmt.Errorf("read the certificate in %s: %w", folder, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return certificate, nil, fmt.Errorf("read the authority in %s: %w", folder, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return certificate, nil, errors.New("read the authority in " + folder + ": ca.crt has no certificate")
	}
	return certificate, pool, nil
}
