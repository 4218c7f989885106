// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"reflect"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The limits of a status. A status contains texts from specs, pods and the API server's answers, and these texts may be
// long. If a status is too large for the CRD or for etcd, it can never be written.
const (
	textLimit   = 4096 // bytes of a text, and of all texts in a list whose items are not shortened
	itemLimit   = 1024 // bytes of a text in an item of a longer list
	listLimit   = 100  // texts in a list of texts
	reasonLimit = 128  // bytes of the reason of a condition or an event
	reasonNone  = "Unknown"
)

// reasonPattern is the API's pattern for the reasons of conditions.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

var (
	timeType      = reflect.TypeFor[metav1.Time]()
	conditionType = reflect.TypeFor[metav1.Condition]()
)

// boundStatus shortens the texts and lists in the status of a resource of any kind, replaces control characters, and
// makes the reasons of conditions valid.
func boundStatus(resource any) {
	bound(reflect.ValueOf(resource).Elem().FieldByName("Status"), textLimit)
}

func bound(v reflect.Value, limit int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(cut(v.String(), limit))
	case reflect.Pointer:
		if !v.IsNil() && v.Type().Elem() != timeType {
			bound(v.Elem(), limit)
		}
	case reflect.Struct:
		switch v.Type() {
		case timeType:
			return
		case conditionType:
			limit = textLimit
			reason := v.FieldByName("Reason")
			reason.SetString(reasonOf(reason.String()))
		}
		for i := range v.NumField() {
			bound(v.Field(i), limit)
		}
	case reflect.Slice:
		limit = itemLimit
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(v.Slice(0, min(v.Len(), listLimit)))
			limit = limitOf(v)
		}
		for i := range v.Len() {
			bound(v.Index(i), limit)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if value := v.MapIndex(key); value.Kind() == reflect.String {
				v.SetMapIndex(key, reflect.ValueOf(cut(value.String(), itemLimit)).Convert(value.Type()))
			}
		}
	default: // numbers and truth values
	}
}

// limitOf returns the number of bytes of each text in a list. Texts are not shortened if all of them together are as short as one text may be,
// such as the warnings of a backup.
func limitOf(texts reflect.Value) int {
	sum := 0
	for i := range texts.Len() {
		sum += texts.Index(i).Len()
	}
	if sum <= textLimit {
		return textLimit
	}
	return itemLimit
}

// reasonOf removes the characters that the API does not allow in a reason.
func reasonOf(reason string) string {
	if len(reason) <= reasonLimit && reasonPattern.MatchString(reason) {
		return reason
	}
	reason = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return -1
	}, reason)
	reason = strings.TrimLeft(reason, "0123456789_")
	if len(reason) > reasonLimit {
		reason = reason[:reasonLimit]
	}
	if reason == "" {
		return reasonNone
	}
	return reason
}
