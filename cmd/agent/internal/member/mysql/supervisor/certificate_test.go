// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package supervisor

import (
	"strings"
	"testing"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// A primary whose certificate has expired serves as long as a voter acknowledges, and is killed when no voter does.
func TestExpiredCertificates(t *testing.T) {
	t.Parallel()
	all := pods(t, 2)
	p, voter := all[0], all[1]
	first(p)
	voter.up()
	voter.joins(1, p)
	order := mysqlmember.Order{Epoch: 1, Revision: 2}
	voter.order("/follow", mysqlmember.Request{Order: order, Source: p.source(), Acknowledge: true})
	p.order("/serve", mysqlmember.Request{Order: order, Demands: 1})
	p.exec("INSERT INTO d.t VALUES (4)")
	for _, m := range all {
		m.authority.Expired().Write(t, m.TLS, m.Hosts[m.Ordinal])
	}
	const written = "SELECT written FROM d3os_member.heartbeat"
	rig.Until(t, "the primary writes a row", func() bool { return strings.HasPrefix(p.ask(written), "20") })
	began := p.ask(written)
	rig.Until(t, "it does so for longer than a primary may be without a voter", func() bool {
		return p.ask("SELECT TIMESTAMPDIFF(SECOND, '"+began+"', written) > 15 FROM d3os_member.heartbeat") == "1"
	})
	if log := p.logged(); strings.Contains(log, "killing the server") || !strings.Contains(log, "certificate: the certificate in") {
		t.Error("the primary was killed, or the log does not name the certificate")
	}
	p.exec("INSERT INTO d.t VALUES (5)")
	voter.kill()
	rig.Until(t, "the primary is killed", func() bool {
		return strings.Contains(p.logged(), "killing the server: neither a voter nor the operator has reached the primary")
	})
}
