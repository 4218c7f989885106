// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inject checks that a text in a spec stays a text in the manifests: if two specs differ in one text, their manifests differ only
// in that text.
package inject

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/fields"
)

// Neutral is a text without a special meaning in any format.
const Neutral = "NEUTRAL"

// Set returns a copy of a value in which text replaces each text that equals Neutral.
func Set(value any, text string) any {
	return walk(value, func(old string) (string, bool) { return text, old == Neutral })
}

// Texts counts the texts of a value.
func Texts(value any) int {
	n := 0
	walk(value, func(string) (string, bool) { n++; return "", false })
	return n
}

// At returns a copy of a value in which the n-th text is Neutral.
func At(value any, n int) any {
	return walk(value, func(string) (string, bool) { n--; return Neutral, n == -1 })
}

func walk(value any, each func(string) (string, bool)) any {
	switch v := value.(type) {
	case string:
		if text, replaced := each(v); replaced {
			return text
		}
	case map[string]any:
		copied := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			copied[key] = walk(v[key], each)
		}
		return copied
	case []any:
		copied := make([]any, len(v))
		for i := range v {
			copied[i] = walk(v[i], each)
		}
		return copied
	}
	return value
}

// Same returns an error unless the manifests of two specs are equal, except that the first has text where the second has Neutral.
func Same(with, neutral []*unstructured.Unstructured, text string) error {
	was, is := fields.ByID(neutral), fields.ByID(with)
	for id := range is {
		if was[id] == nil {
			return fmt.Errorf("the text adds an object: %s", id)
		}
	}
	for id := range was {
		if is[id] == nil {
			return fmt.Errorf("the text removes an object: %s", id)
		}
		if err := same(was[id].Object, is[id].Object, forms(text)); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	return nil
}

// forms returns the text as each file format writes it.
func forms(text string) []string {
	found := []string{text}
	if data, err := json.Marshal(text); err == nil {
		found = append(found, inner(string(data)))
	}
	var properties strings.Builder // Java and Go escape some characters differently
	for _, r := range text {
		switch {
		case strings.ContainsRune("\t\n\f\r\\", r) || r >= 0x20 && r < 0x7f:
			properties.WriteString(strings.ReplaceAll(inner(strconv.QuoteToASCII(string(r))), `\"`, `"`))
		default:
			for _, code := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&properties, `\u%04x`, code)
			}
		}
	}
	name := strings.NewReplacer(" ", `\ `, ":", `\:`, "=", `\=`).Replace(properties.String())
	found = append(found, properties.String(), name)
	for _, form := range slices.Clone(found) {
		found = append(found, `\`+form) // the form with an escaped blank at the start
	}
	return append(found, strings.TrimRight(text, "/")) // the form of a URL without the last slash
}

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// same returns an error unless two values are equal, except that one has the text where the other has Neutral.
func same(neutral, with any, forms []string) error {
	switch n := neutral.(type) {
	case string:
		w, ok := with.(string)
		if !ok || !sameText(n, w, forms) {
			return fmt.Errorf("%q is not %q with the text in its place", with, n)
		}
	case map[string]any:
		w, ok := with.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is not %v with the text in its place", with, neutral)
		}
		return sameMap(n, w, forms)
	case []any:
		w, ok := with.([]any)
		if !ok || len(w) != len(n) {
			return fmt.Errorf("%v is not %v with the text in its place", with, neutral)
		}
		for i := range n {
			if err := same(n[i], w[i], forms); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
	default:
		if !reflect.DeepEqual(neutral, with) {
			return fmt.Errorf("%v is not %v", with, neutral)
		}
	}
	return nil
}

func sameMap(neutral, with map[string]any, forms []string) error {
	if forms[0] == "" { // an empty text is the same as none
		neutral = maps.Clone(neutral)
		maps.DeleteFunc(neutral, func(key string, value any) bool { return value == Neutral && with[key] == nil })
	}
	if len(with) != len(neutral) {
		return fmt.Errorf("%v is not %v with the text in its place", with, neutral)
	}
	for key := range neutral {
		if strings.HasPrefix(key, "checksum/") || strings.HasSuffix(key, "/digest") {
			continue // these are digests of the whole object
		}
		value, ok := with[key]
		for _, form := range forms {
			if !ok {
				value, ok = with[strings.ReplaceAll(key, Neutral, form)]
			}
		}
		if !ok {
			return fmt.Errorf("%q is missing", key)
		}
		if err := same(neutral[key], value, forms); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func sameText(neutral, with string, forms []string) bool {
	if neutral == with {
		return true
	}
	for _, form := range forms {
		if with == strings.ReplaceAll(neutral, Neutral, form) || with == base64.StdEncoding.EncodeToString([]byte(form)) {
			return true
		}
	}
	// Compare the values of a YAML file, not its notation.
	n, w := map[string]any{}, map[string]any{}
	return strings.Contains(neutral, "\n") && yaml.Unmarshal([]byte(neutral), &n) == nil && yaml.Unmarshal([]byte(with), &w) == nil &&
		same(n, w, forms) == nil
}
