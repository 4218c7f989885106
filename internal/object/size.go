// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import "reflect"

// The memory of Go's maps in addition to keys and values: bytes of each map, and bytes of each slot.
const (
	mapHeader = 48
	perSlot   = 2
)

// SizeOfMap estimates the bytes of a map[string]any of n entries, without the values behind pointers.
func SizeOfMap(n int) int { return mapHeader + slots(n)*(16+16+perSlot) }

// SizeOfSlice estimates the bytes of a []any of n items, without the values behind pointers.
func SizeOfSlice(n int) int { return 24 + n*16 }

// SizeOf estimates the bytes of a value with everything that it points to. Shared values count each time, so the estimate tends to be too
// high. The value must not contain itself.
func SizeOf(value any) int {
	if value == nil {
		return 0
	}
	v := reflect.ValueOf(value)
	return int(v.Type().Size()) + beyond(v)
}

// beyond estimates the bytes that a value points to, without the value itself.
func beyond(v reflect.Value) int {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return int(v.Elem().Type().Size()) + beyond(v.Elem())
	case reflect.Struct:
		size := 0
		for i := range v.NumField() {
			size += beyond(v.Field(i))
		}
		return size
	case reflect.Slice, reflect.Array:
		return ofItems(v)
	case reflect.Map:
		return ofMap(v)
	default:
		return 0
	}
}

func ofItems(v reflect.Value) int {
	item := v.Type().Elem()
	size := 0
	if v.Kind() == reflect.Slice {
		size = v.Cap() * int(item.Size())
	}
	switch item.Kind() {
	case reflect.Uint8, reflect.Int32, reflect.Int64, reflect.Bool: // they contain no pointer
	default:
		for i := range v.Len() {
			size += beyond(v.Index(i))
		}
	}
	return size
}

func ofMap(v reflect.Value) int {
	if v.IsNil() {
		return 0
	}
	slot := int(v.Type().Key().Size()+v.Type().Elem().Size()) + perSlot
	size := mapHeader + slots(v.Len())*slot
	for entries := v.MapRange(); entries.Next(); {
		size += beyond(entries.Key()) + beyond(entries.Value())
	}
	return size
}

// slots estimates how many slots a map with n entries has. A small map doubles when seven eighths of its slots are used. A large map
// consists of tables that grow separately, so up to nine sixteenths of its slots are free.
func slots(n int) int {
	if n > 896 {
		return n * 16 / 7
	}
	slots := 8
	for slots*7/8 < n {
		slots *= 2
	}
	return slots
}
