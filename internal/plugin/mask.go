// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// masked replaces a value that may be confidential.
const masked = "***"

// confidential matches a part of a name: if a name contains such a part, its value is confidential.
const confidential = `(?:password|passwd|passphrase|pwd|token|secret|api[_-]?key|access[_-]?key|private[_-]?key|encryption[_-]?key|credential|authorization)`

var (
	confidentialName = regexp.MustCompile(`(?i)` + confidential)
	// reference matches the names of fields that refer to a Secret, a key of a Secret or a file.
	reference = regexp.MustCompile(`(?i)(name|ref|file|path|revision|version)$`)
	// kept matches text that the other patterns must not change.
	kept     = regexp.MustCompile(`using password: (YES|NO)\b`)
	patterns = []struct {
		match *regexp.Regexp
		with  string
	}{
		{regexp.MustCompile(`(?s)-----BEGIN [^-]*PRIVATE KEY-----.*?(-----END [^-]*PRIVATE KEY-----|$)`), masked},
		{regexp.MustCompile(`AGE-SECRET-KEY-\S+`), masked},
		{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*`), masked},
		{regexp.MustCompile(`://[^\s"'<>]*@`), "://" + masked + "@"},
		{regexp.MustCompile(`[^\s:/"']+:[^\s"']*@(tcp|unix)\(`), masked + "@$1("},
		{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"']+`), "$1 " + masked},
		{regexp.MustCompile(`(?i)(identified\s+(?:with\s+\S+\s+)?(?:by|as)\s+|\brequirepass\s+|\bmasterauth\s+|--?[\w-]*` + confidential + `[\w-]*\s+)("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\S+)`), "${1}" + masked},
		{regexp.MustCompile(`\b(AUTH\s+)\S+(?: \S+)?`), "${1}" + masked},
		{regexp.MustCompile(`(?i)([\w.-]*` + confidential + `[\w.-]*\\*["']?[ \t]*[:=][ \t]*)("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|(?:(?:bearer|basic)\s+)?\S+)`), "${1}" + masked},
	}
)

// Mask masks confidential values in objects and texts. It remembers the confidential values of fields, and Text also masks these values.
type Mask struct {
	known []string
}

// minKnown is the minimum length of a remembered value that is masked in all texts. Shorter values may be parts of other words.
const minKnown = 6

// Text masks confidential values in a text, such as a log or a message.
func (m *Mask) Text(text string) string {
	text = m.Known(text)
	begin := 0
	var b strings.Builder
	for _, at := range kept.FindAllStringIndex(text, -1) {
		b.WriteString(byPattern(text[begin:at[0]]) + text[at[0]:at[1]])
		begin = at[1]
	}
	return b.String() + byPattern(text[begin:])
}

// Known masks the remembered values in a text.
func (m *Mask) Known(text string) string {
	for _, value := range m.known {
		text = strings.ReplaceAll(text, value, masked)
	}
	return text
}

func byPattern(text string) string {
	for _, p := range patterns {
		text = p.match.ReplaceAllString(text, p.with)
	}
	return text
}

// Object masks an object in place. For a Secret, it removes all data.
func (m *Mask) Object(o map[string]any) {
	metadata, _ := o["metadata"].(map[string]any)
	delete(metadata, "managedFields")
	if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations[lastApplied] != nil {
		annotations[lastApplied] = masked
	}
	switch o["kind"] {
	case "Secret":
		delete(o, "data")
		delete(o, "stringData")
	case "ConfigMap":
		delete(o, "binaryData")
		data, _ := o["data"].(map[string]any)
		for key, value := range data {
			if text, ok := value.(string); ok && !strings.Contains(strings.TrimSpace(text), "\n") {
				data[key] = m.value(key, text) // a variable
			}
		}
	}
	for key, value := range o {
		o[key] = m.field(key, value)
	}
}

// lastApplied is the annotation in which kubectl apply stores the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// field returns the masked value of a field.
func (m *Mask) field(name string, value any) any {
	switch value := value.(type) {
	case string:
		if confidentialName.MatchString(name) && !reference.MatchString(name) {
			return m.value(name, value)
		}
		return byPattern(value)
	case map[string]any:
		variable, isVariable := value["name"].(string)
		for key, inner := range value {
			text, isText := inner.(string)
			switch {
			case isText && (name == "env" || name == "custom"):
				value[key] = m.value(key, text)
			case isText && isVariable && key == "value":
				value[key] = m.value(variable, text)
			default:
				value[key] = m.field(key, inner)
			}
		}
	case []any:
		for i, inner := range value {
			if _, ok := inner.(map[string]any); ok {
				value[i] = m.field("", inner) // without the name: if env is a list, the fields of its items are not variables
			} else {
				value[i] = m.field(name, inner)
			}
		}
		maskArguments(value)
	}
	return value
}

// maskArguments masks the items of a command line that follow a flag with a confidential name.
func maskArguments(items []any) {
	for i := 1; i < len(items); i++ {
		flag, ok := items[i-1].(string)
		if _, isText := items[i].(string); ok && isText && strings.HasPrefix(flag, "-") && !strings.Contains(flag, "=") && confidentialName.MatchString(flag) {
			items[i] = masked
		}
	}
}

// value returns the mask for a value, or an empty text unchanged. If the name is confidential, it also remembers the value, so that Known
// masks the value in other texts.
func (m *Mask) value(name, text string) string {
	if text == "" || text == masked {
		return text
	}
	if len(text) >= minKnown && confidentialName.MatchString(name) && !slices.Contains(m.known, text) {
		m.known = append(m.known, text)
		slices.SortFunc(m.known, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	}
	return masked
}
