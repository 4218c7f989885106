// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import "slices"

// AuthorityPhase is a phase in the replacement of the certificate authorities.
type AuthorityPhase string

// The phases. In each phase, all members accept the certificates of the phase before and of the phase after it.
const (
	AuthoritiesAtRest AuthorityPhase = "AtRest" // one authority of each kind is trusted, and signs
	AuthoritiesTrust  AuthorityPhase = "Trust"  // the new authorities are trusted as well
	AuthoritiesSign   AuthorityPhase = "Sign"   // the new authorities sign, and the former ones are still trusted
)

// Authorities describes the certificate authorities of the operator, as stored in the Secrets of the pods.
type Authorities struct {
	Phase AuthorityPhase
	// Wanted reports whether the authorities should be replaced.
	Wanted bool
	// Held reports whether clients have had enough time to read their Secret since the phase began.
	Held bool
	// Fingerprint identifies the authorities that sign in the next phase, or that sign now if no replacement is in progress.
	Fingerprint Fingerprint
}

// Trust is the result of TLS handshakes with a member.
type Trust struct {
	Latest bool // the member accepts exactly the authorities in its Secrets
	Signed bool // its certificates are signed by the present signing authorities
	// Refuses reports whether the member rejects the certificates in the cluster's Secrets, because it does not trust their authorities.
	Refuses bool
}

// trustsFormer reports whether the Secrets of a member got other authorities after the member started. etcd reads authorities only when it starts.
func (s *memberState) trustsFormer() bool {
	return s.answer != nil && s.answer.Trust != nil && !s.answer.Trust.Latest
}

// refuses reports whether a member refuses certificates of the authorities in the Secrets. Such a member would also
// refuse a new pod, because these authorities have signed the new pod's certificate.
func (s *memberState) refuses() bool {
	return s.answer != nil && s.answer.Trust != nil && s.answer.Trust.Refuses
}

// lacksTrust reports whether a member has not proven that it uses the authorities and certificates in its Secrets.
func (s *memberState) lacksTrust() bool {
	return s.ordinal < 0 || s.Learner || s.answer == nil || s.answer.Trust == nil || !s.answer.Trust.Latest || !s.answer.Trust.Signed
}

// shareAuthority reports whether all members use the authorities and certificates of their Secrets.
func (c *cluster) shareAuthority() bool {
	return c.allWell() && !c.Lagging && !slices.ContainsFunc(c.members, (*memberState).lacksTrust)
}

// noteAuthority records the authorities whose certificates all members accept, and clears that record when no pod is
// left. It records the next authorities before they sign. So all members accept certificates of the recorded
// authorities at any time. The step is not shown to users.
func (c *cluster) noteAuthority(verdict Verdict) []Step {
	step, record := Step{Action: ActionRecord, Quiet: true, Was: c.Record}, c.Record
	switch a := c.Authorities; {
	case len(c.Pods) == 0 && c.Live == 0 && !c.Lagging:
		record.Authority = Fingerprint{}
	case verdict == Complete && a != nil && (a.Phase == AuthoritiesAtRest || a.Held) && c.shareAuthority():
		record.Authority = a.Fingerprint
		step.Via, step.Expect, step.Healthy = c.requestTarget(nil), c.list, places(c.members)
	}
	if record == c.Record {
		return nil
	}
	step.Record, step.Message = &record, "record which certificate authorities all members accept"
	return []Step{step}
}

// rotate replaces the certificate authorities, phase by phase. The next phase begins when all members accept the
// authorities in their Secrets (roll has replaced their pods), and show certificates of the signing authorities.
func (c *cluster) rotate() []Step {
	a := c.Authorities
	if a == nil || a.Phase == AuthoritiesAtRest && !a.Wanted {
		return nil
	}
	c.rotating = true
	switch {
	case !c.shareAuthority():
		c.note("the certificate authorities are being replaced: the next step begins when all members use the latest Secrets")
		return nil
	case a.Phase != AuthoritiesAtRest && !a.Held:
		c.rotating = false
		c.note("the certificate authorities are being replaced: clients have time to read their Secret again before the next step")
		return nil
	case a.Phase == AuthoritiesTrust && a.Fingerprint != c.Record.Authority:
		return nil // noteAuthority must run first
	}
	step := Step{Action: ActionRotate, Authorities: a.Phase, Via: c.requestTarget(nil), Expect: c.list, Healthy: places(c.members)}
	text := map[AuthorityPhase]string{
		AuthoritiesAtRest: "make new certificate authorities: members and clients trust the former and the new authorities",
		AuthoritiesTrust:  "sign with the new certificate authorities: all members trust them",
		AuthoritiesSign:   "remove the former certificate authorities: no member shows a certificate that they signed",
	}
	return c.do(PhaseUpgrading, step, "%s", text[a.Phase])
}
