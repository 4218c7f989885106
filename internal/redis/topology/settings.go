// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// Unset returns the names of settings that a reached node has not applied yet or does not support.
func Unset(wanted map[string]string, nodes []Node) map[string]bool {
	unset := map[string]bool{}
	for _, n := range nodes {
		for name, want := range wanted {
			if has, reported := n.Settings[name]; n.Reached && (!reported || !sameValue(name, has, want)) {
				unset[name] = true
			}
		}
	}
	return unset
}

// settings changes those settings of running nodes that differ from the spec. If a node does not report a setting, its
// version of redis does not support that setting: the setting is not set, and the model's Reason names the setting.
func (c *cluster) settings() []Step {
	var batch []Step
	for _, n := range c.members {
		for _, name := range sortedKeys(c.wanted.Settings) {
			if _, reported := n.Settings[name]; !reported && c.refused == "" {
				c.refused = fmt.Sprintf("spec.config: redis %s does not know the setting %q, which is therefore not used: remove the setting", n.Version, name)
			}
		}
	}
	for _, n := range c.members {
		differ := map[string]string{}
		for name, want := range c.wanted.Settings {
			if has, reported := n.Settings[name]; reported && !sameValue(name, has, want) {
				differ[name] = want
			}
		}
		if len(differ) > 0 {
			batch = append(batch, Step{Action: ActionConfigure, Node: n.place(), Settings: differ,
				Message: fmt.Sprintf("set %s on %s", strings.Join(sortedKeys(differ), ", "), n.Pod)})
		}
	}
	return together(ActionConfigure, "change settings", batch)
}

// sameValue reports whether two values of a named setting have the same meaning for redis. Redis reports the output buffer limits of all
// classes; only the wanted classes are compared.
func sameValue(name, has, want string) bool {
	if name != "client-output-buffer-limit" {
		return sameSetting(has, want)
	}
	limits := func(text string) map[string]string {
		classes := map[string]string{}
		for words := strings.Fields(text); len(words) >= 4; words = words[4:] {
			hard, _ := bytesOf(words[1])
			soft, _ := bytesOf(words[2])
			classes[strings.Replace(strings.ToLower(words[0]), "slave", "replica", 1)] = fmt.Sprint(hard, soft, words[3])
		}
		return classes
	}
	present := limits(has)
	for class, limit := range limits(want) {
		if present[class] != limit {
			return false
		}
	}
	return true
}

// sameSetting reports whether two values have the same meaning for redis. Redis answers in its own format: 1gb is 1073741824.
func sameSetting(a, b string) bool {
	if strings.EqualFold(a, b) || strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ") {
		return true
	}
	x, okX := bytesOf(a)
	y, okY := bytesOf(b)
	return okX && okY && x == y
}

func bytesOf(text string) (int64, bool) {
	text = strings.ToLower(text)
	digits := strings.TrimRight(text, "kmgb")
	units := map[string]int64{"": 1, "b": 1, "k": 1e3, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30}
	unit, known := units[text[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	return n * unit, known && err == nil
}
