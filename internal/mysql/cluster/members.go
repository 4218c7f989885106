// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
	"d3os.com/d3os-operator/internal/mysql/client"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/internal/workers"
)

// Ports of each pod: of MySQL, and of the agent's API.
const (
	serverPort = 3306
	agentPort  = mysqlmember.Port
)

// Members queries the agents of a database's members, and sends them orders.
type Members interface {
	Look(ctx context.Context, ordinal int) (mysqlmember.Answer, error)
	Order(ctx context.Context, s replication.Step) error
}

// Reach holds the data with which the operator connects to the agents of a database.
type Reach struct {
	// TLS contains the operator's certificate and the CA of the members. It is nil until both exist.
	TLS *tls.Config
	// Host returns the DNS name of a member's pod. The member's certificate is valid for this name.
	Host func(ordinal int) string
	// IPs are the addresses of the pods, by ordinal.
	IPs map[int]string
}

// Connect returns the members that Reach describes. It sends no request.
type Connect func(Reach) Members

var (
	errNoAddress     = errors.New("its pod has no address")
	errNoCertificate = errors.New("the operator has no certificate yet")
)

// Dial connects to pods by their addresses. The host name in the URL is used only to check the certificate. So the
// operator connects to no address from a resource.
func Dial(r Reach) Members {
	dialer := &net.Dialer{}
	transport := &http.Transport{
		TLSClientConfig: r.TLS, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			for ordinal, ip := range r.IPs {
				if address == net.JoinHostPort(r.Host(ordinal), strconv.Itoa(agentPort)) && ip != "" {
					return dialer.DialContext(ctx, network, net.JoinHostPort(ip, strconv.Itoa(agentPort)))
				}
			}
			return nil, fmt.Errorf("connect to %s: %w", address, errNoAddress)
		},
	}
	return &client.Client{
		HTTP: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		URL: func(ordinal int) string {
			return "https://" + net.JoinHostPort(r.Host(ordinal), strconv.Itoa(agentPort))
		},
		Source: func(ordinal int) (string, int) { return r.Host(ordinal), serverPort },
	}
}

// lookAt queries the agents of all other pods in parallel, and then the primary's agent. So if another answer contains a
// transaction that the primary's answer lacks, the primary really lacks it: the transaction was not written between the
// two queries. limit returns the time limit of a query of a member.
func lookAt(ctx context.Context, members Members, r Reach, pods []client.Pod, primary int, limit func(ordinal int) time.Duration) []client.Look {
	looks := make([]client.Look, len(pods))
	look := func(i int, limit time.Duration) {
		switch ordinal := pods[i].Ordinal; {
		case r.IPs[ordinal] == "":
			looks[i].Err = errNoAddress
		case r.TLS == nil:
			looks[i].Err = errNoCertificate
		default:
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			looks[i].Answer, looks[i].Err = members.Look(ctx, ordinal)
		}
	}
	var others workers.Group
	for i := range pods {
		looks[i].Pod = pods[i]
		if limit := limit(pods[i].Ordinal); pods[i].Ordinal != primary {
			others.Go(func() { look(i, limit) })
		}
	}
	others.Wait()
	for i := range pods {
		if pods[i].Ordinal == primary {
			look(i, limit(primary))
		}
	}
	return looks
}
