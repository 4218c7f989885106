// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"d3os.com/d3os-operator/internal/contract"
)

// GrowthPolicy is the rule for the growth of volumes.
type GrowthPolicy struct {
	// Limit is the largest size of a claim in bytes.
	Limit int64
	// At is the used part of the file system, in percent, at which the claim grows. By is the amount by which the claim
	// grows, in percent of its size.
	At, By int64
}

// Defaults of a GrowthPolicy, in percent.
const (
	defaultAt = "80%"
	defaultBy = "20%"
)

// NewGrowthPolicy returns the GrowthPolicy of a limit, rounded down to whole mebibytes, and two percentages such as 80%. The defaults of
// empty percentages are 80% and 20%.
func NewGrowthPolicy(limit resource.Quantity, at, by string) *GrowthPolicy {
	return &GrowthPolicy{Limit: limit.Value() / mebibyte * mebibyte, At: percent(cmp.Or(at, defaultAt)), By: percent(cmp.Or(by, defaultBy))}
}

// percent parses a percentage. The CRDs admit no other text.
func percent(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
	return n
}

// ClaimGrowth is the state of a claim. Sizes are in bytes.
type ClaimGrowth struct {
	Request, Capacity int64
	// GrownFrom is the size of the file system before the last growth; 0 if the operator has not enlarged the claim.
	GrownFrom int64
	// NeedsRestart reports that the volume has grown, but its file system grows only when the volume's pod starts
	// again.
	NeedsRestart bool
	// Refused is the message of the volume's driver if the driver cannot grow the volume; empty otherwise.
	Refused string
}

// percentOf returns the used part of a file system in percent, rounded down.
func percentOf(fs contract.Volume) int64 { return int64(float64(fs.Used) * 100 / float64(fs.Capacity)) }

// Growth is the result of Decide.
type Growth struct {
	// To is the next size of the claim in bytes; 0 if the claim does not grow now.
	To int64
	// Obstacle explains why a volume does not grow, although its used part has reached At. It is empty if the volume
	// can grow, or if the last growth is not finished.
	Obstacle string
	// IsFull reports whether the used part of the file system is at least fullFrom.
	IsFull bool
}

const (
	mebibyte = 1 << 20
	fullFrom = 95 // percent
)

// unbounded is a factor: a file system that is larger than the claim by this factor is shared. Storage classes that use
// folders of a node do not enforce the size of a claim.
const unbounded = 2

// Decide returns the next growth of a volume. Each growth must finish before the next one. A volume never shrinks, and never grows beyond the limit.
func (p *GrowthPolicy) Decide(claim ClaimGrowth, fs contract.Volume) Growth {
	d := p.decide(claim, fs)
	d.IsFull = fs.Capacity > 0 && percentOf(fs) >= fullFrom
	return d
}

func (p *GrowthPolicy) decide(claim ClaimGrowth, fs contract.Volume) Growth {
	size := max(claim.Request, claim.Capacity)
	switch {
	case fs.Capacity <= 0 || percentOf(fs) < p.At:
		return Growth{}
	case fs.Capacity/unbounded > size:
		return Growth{Obstacle: fmt.Sprintf("its file system has %s, and the claim has %s: its storage class does not enforce sizes, so a larger claim gets no more space",
			SizeText(fs.Capacity), SizeText(size))}
	case claim.Refused != "":
		return Growth{Obstacle: "its driver cannot grow it to " + SizeText(claim.Request) + ": " + claim.Refused}
	case claim.NeedsRestart:
		return Growth{Obstacle: "its storage class grows file systems only while no pod uses the volume: delete the pod that uses it"}
	case claim.Capacity < claim.Request:
		return Growth{}
	case fs.Capacity <= claim.GrownFrom:
		return Growth{Obstacle: fmt.Sprintf("the claim has %s, and its file system has not grown from %s: see the events of the claim and of its pod", SizeText(claim.Capacity), SizeText(fs.Capacity))}
	case size >= p.Limit:
		return Growth{Obstacle: fmt.Sprintf("it has reached the limit of %s: raise the limit of autoGrow, or delete data", SizeText(p.Limit))}
	}
	return Growth{To: min(p.Limit, nextSize(size, p.By))}
}

// nextSize returns the next size: it is larger by the given percentage, and in whole mebibytes.
func nextSize(size, by int64) int64 {
	grown := size + int64(float64(size)*float64(by)/100)
	return max(grown+mebibyte-1, size+mebibyte) / mebibyte * mebibyte
}

// SizeText returns a size as a quantity in whole mebibytes, such as 12Gi.
func SizeText(bytes int64) string {
	return resource.NewQuantity(bytes/mebibyte*mebibyte, resource.BinarySI).String()
}
