// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package growth decides when a volume grows, from the size of its claim and the use of its file system. It is pure.
package growth

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"d3os.com/d3os-operator/internal/contract"
)

// Policy is the rule for the growth of volumes.
type Policy struct {
	// Limit is the largest size of a claim in bytes.
	Limit int64
	// At is the used part of the file system, in percent, from which the claim grows. By is the amount by which the
	// claim grows, in percent of its size.
	At, By int64
}

// Defaults of a Policy, in percent.
const (
	defaultAt = "80%"
	defaultBy = "20%"
)

// New returns the Policy of a limit, rounded down to whole mebibytes, and two percentages such as 80%. The defaults of
// empty percentages are 80% and 20%.
func New(limit resource.Quantity, at, by string) *Policy {
	return &Policy{Limit: limit.Value() / mebibyte * mebibyte, At: percent(cmp.Or(at, defaultAt)), By: percent(cmp.Or(by, defaultBy))}
}

// percent parses a percentage. The CRDs admit no other text.
func percent(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
	return n
}

// Claim is the state of a claim. Sizes are in bytes.
type Claim struct {
	Request, Capacity int64
	// GrownFrom is the size of the file system at the last growth; 0 without one.
	GrownFrom int64
	// NeedsRestart reports that the volume has grown, but its file system grows only when the volume's pod starts
	// again.
	NeedsRestart bool
	// Refused is the reason why the volume's driver cannot grow it; empty for none.
	Refused string
}

// percentOf returns the used part of a file system in percent, rounded down.
func percentOf(fs contract.Volume) int64 { return int64(float64(fs.Used) * 100 / float64(fs.Capacity)) }

// Decision is the result of Decide.
type Decision struct {
	// To is the next size of the claim in bytes; 0 for none.
	To int64
	// Obstacle explains why a volume that is full enough does not grow. It is empty if the volume can grow, or if the
	// last growth is not finished.
	Obstacle string
	// IsFull reports whether a server can hardly write any more.
	IsFull bool
}

const (
	mebibyte = 1 << 20
	full     = 95 // percent
)

// unbounded is a factor: a file system that is larger than the claim by this factor is shared. Storage classes that use
// folders of a node do not enforce the size of a claim.
const unbounded = 2

// Decide returns the next growth of a volume. A volume takes one step at a time, never shrinks, and does not exceed the limit.
func (p *Policy) Decide(claim Claim, fs contract.Volume) Decision {
	d := p.decide(claim, fs)
	d.IsFull = fs.Capacity > 0 && percentOf(fs) >= full
	return d
}

func (p *Policy) decide(claim Claim, fs contract.Volume) Decision {
	size := max(claim.Request, claim.Capacity)
	switch {
	case fs.Capacity <= 0 || percentOf(fs) < p.At:
		return Decision{}
	case fs.Capacity/unbounded > size:
		return Decision{Obstacle: fmt.Sprintf("its file system has %s, and the claim has %s: its storage class does not enforce sizes, so a larger claim gets no more space",
			Text(fs.Capacity), Text(size))}
	case claim.Refused != "":
		return Decision{Obstacle: "its driver cannot grow it to " + Text(claim.Request) + ": " + claim.Refused}
	case claim.NeedsRestart:
		return Decision{Obstacle: "its storage class grows file systems only while no pod uses the volume: delete the pod that uses it"}
	case claim.Capacity < claim.Request:
		return Decision{}
	case fs.Capacity <= claim.GrownFrom:
		return Decision{Obstacle: fmt.Sprintf("the claim has %s, and its file system has not grown from %s", Text(claim.Capacity), Text(fs.Capacity))}
	case size >= p.Limit:
		return Decision{Obstacle: fmt.Sprintf("it has reached the limit of %s: raise the limit of autoGrow, or delete data", Text(p.Limit))}
	}
	return Decision{To: min(p.Limit, next(size, p.By))}
}

// next returns the next size: it is larger by the given percentage, and in whole mebibytes.
func next(size, by int64) int64 {
	grown := size + int64(float64(size)*float64(by)/100)
	return max(grown+mebibyte-1, size+mebibyte) / mebibyte * mebibyte
}

// Text returns a size as a quantity in whole mebibytes, such as 12Gi.
func Text(bytes int64) string {
	return resource.NewQuantity(bytes/mebibyte*mebibyte, resource.BinarySI).String()
}
