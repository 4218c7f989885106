// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proof is what steps on database servers prove before their effects: that a pod is still the one which
// the step was decided for. It imports the standard library alone.
package proof

import (
	"errors"
	"fmt"
)

// Pod is a pod as it is now. The zero value is none.
type Pod struct {
	UID, IP     string
	Terminating bool
}

// ErrRefused says that a step was not taken because the world is not what the step was decided for.
var ErrRefused = errors.New("refused")

// Refuse returns an error that wraps ErrRefused.
func Refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Is returns nil if the pod is the one with that UID at that address and stays, and else an error that wraps ErrRefused.
func (p Pod) Is(name, uid, ip string) error {
	switch {
	case p.UID == "":
		return Refuse("pod %s is gone", name)
	case p.UID != uid:
		return Refuse("pod %s has been replaced: its UID is %s, the step is for %s", name, p.UID, uid)
	case p.IP != ip:
		return Refuse("pod %s has address %q, the step is for %s", name, p.IP, ip)
	case p.Terminating:
		return Refuse("pod %s is being deleted", name)
	}
	return nil
}
