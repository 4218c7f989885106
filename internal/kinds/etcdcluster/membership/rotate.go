// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import "slices"

// AuthorityPhase is how far the replacement of the certificate authorities is.
type AuthorityPhase string

// The phases. In each, what members of the phase before and after it show is accepted by all.
const (
	AuthoritiesAtRest AuthorityPhase = "AtRest" // one of each kind is trusted, and signs
	AuthoritiesTrust  AuthorityPhase = "Trust"  // the new ones are trusted as well
	AuthoritiesSign   AuthorityPhase = "Sign"   // the new ones sign, and the former ones are trusted still
)

// Authorities are those that the operator makes, as the Secrets of pods have them.
type Authorities struct {
	Phase AuthorityPhase
	// Wanted reports whether others are wanted in their place.
	Wanted bool
	// Held reports whether clients have had the time to read their Secret since the phase began.
	Held bool
}

// Trust is what a member shows of certificates when somebody connects.
type Trust struct {
	Latest bool // it accepts the authorities that its Secrets have now, and no others
	Signed bool // its certificates are of the authorities that sign now
}

// trustsFormer reports whether a member started with other authorities than its Secrets have: etcd reads them at its start alone.
func (s *seat) trustsFormer() bool {
	return s.answer != nil && s.answer.Trust != nil && !s.answer.Trust.Latest
}

// rotate replaces the certificate authorities. Each phase begins when all members show that they are through with the one before:
// they accept the authorities of their Secrets, for which roll has replaced their pods, and show certificates of those that sign.
func (c *cluster) rotate() []Step {
	a := c.Authorities
	if a == nil || a.Phase == AuthoritiesAtRest && !a.Wanted {
		return nil
	}
	c.rotating = true
	lags := func(s *seat) bool {
		return s.ordinal < 0 || s.Learner || s.answer == nil || s.answer.Trust == nil || !s.answer.Trust.Latest || !s.answer.Trust.Signed
	}
	switch {
	case !c.allWell() || c.Lagging || slices.ContainsFunc(c.members, lags):
		c.note("the certificate authorities are being replaced: the next step needs all members, with the latest Secrets")
		return nil
	case a.Phase != AuthoritiesAtRest && !a.Held:
		c.rotating = false
		c.note("the certificate authorities are being replaced: clients have the time to read their Secret again")
		return nil
	}
	step := Step{Action: ActionRotate, Authorities: a.Phase, Via: c.via(nil), Expect: c.list, Healthy: places(c.members)}
	text := map[AuthorityPhase]string{
		AuthoritiesAtRest: "make new certificate authorities, and let all trust the former and the new ones",
		AuthoritiesTrust:  "let the new certificate authorities sign: all members trust them",
		AuthoritiesSign:   "drop the former certificate authorities: no member shows a certificate of theirs",
	}
	return c.do(PhaseUpgrading, step, "%s", text[a.Phase])
}
