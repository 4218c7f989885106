// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package steps helps packages that take steps on database servers. refuse.go checks preconditions before a step changes
// anything, for example that a pod has not been replaced since the decision. failures.go delays steps that keep failing.
// unanswered.go detects servers that close a connection before they send anything. A mesh with strict mTLS does that to
// the operator's connections. The package imports only the standard library.
package steps

import (
	"errors"
	"fmt"
)

// Pod is the present state of a pod. The zero value means no pod.
type Pod struct {
	UID, IP     string
	Terminating bool
}

// ErrRefused reports that a step was not taken because its preconditions have changed.
var ErrRefused = errors.New("refused")

// Refuse returns an error that wraps ErrRefused.
func Refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Is returns nil if the pod has the UID and address and is not being deleted. Otherwise it returns an error that wraps ErrRefused.
func (p Pod) Is(name, uid, ip string) error {
	switch {
	case p.UID == "":
		return Refuse("pod %s is gone", name)
	case p.UID != uid:
		return Refuse("pod %s has been replaced: its UID is %s, but the step was decided for %s", name, p.UID, uid)
	case p.IP != ip:
		return Refuse("pod %s has address %q, but the step was decided for %s", name, p.IP, ip)
	case p.Terminating:
		return Refuse("pod %s is being deleted", name)
	}
	return nil
}
