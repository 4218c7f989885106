// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// place maps a path of a container to its path on this machine.
type place struct{ inside, here string }

// Paths maps the paths of a container to those of this machine.
type Paths struct {
	places []place // longest first
}

// Add maps a path and all paths below it.
func (p *Paths) Add(inside, here string) {
	p.places = append(p.places, place{inside, here})
	slices.SortStableFunc(p.places, func(a, b place) int { return len(b.inside) - len(a.inside) })
}

// Translate replaces the container's paths in a text by paths on this machine.
func (p *Paths) Translate(text string) string {
	var out strings.Builder
next:
	for i := 0; i < len(text); {
		if begins(text[:i]) {
			for _, at := range p.places {
				if rest, ok := strings.CutPrefix(text[i:], at.inside); ok && ends(rest) {
					out.WriteString(at.here)
					i += len(at.inside)
					continue next
				}
			}
		}
		out.WriteByte(text[i])
		i++
	}
	return out.String()
}

// begins reports whether a path can begin after this text: true for 'dir=', false for '/srv'.
func begins(before string) bool {
	return before == "" || strings.HasSuffix(before, "://") || !strings.ContainsAny(before[len(before)-1:], nameBytes+"/")
}

// ends reports whether a path can end before this text: true for '/file', false for '2/file'.
func ends(after string) bool {
	return after == "" || !strings.ContainsAny(after[:1], nameBytes)
}

const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."

var reference = regexp.MustCompile(`\$\$|\$\(([^()]*)\)`)

// Expand replaces $(NAME) by the value of the variable. $$ becomes a dollar sign. An unknown name stays unchanged.
func Expand(text string, env []corev1.EnvVar) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		for _, variable := range slices.Backward(env) {
			if variable.Name == found[2:len(found)-1] {
				return variable.Value
			}
		}
		return found
	})
}
