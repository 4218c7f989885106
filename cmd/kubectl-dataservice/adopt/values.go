// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/contract"
)

// setting names the property of a shared value in the original operator's ConfigMaps.
type setting struct {
	what, key string // key in the planned Secret
	at        map[string]string
}

var settings = []setting{
	{"the JWT secret", "jwt-secret", map[string]string{"auth": "jwt.token.secret", "proxy": "jwt.token.secret"}},
	{"the gateway's password", "gateway-password", map[string]string{
		"api-manager": "gateway.password", "gateway-web": "spring.security.user.password", "gateway-master": "spring.security.user.password"}},
	{"the gateway's user name", "gateway-username", map[string]string{
		"api-manager": "gateway.userName", "gateway-web": "spring.security.user.name", "gateway-master": "spring.security.user.name"}},
}

// valuesInUse returns the shared values in the original operator's ConfigMaps, by the keys of this operator's Secret. It fails if two
// components have different values. configMap returns a ConfigMap, or nil.
func valuesInUse(configMap func(name string) *unstructured.Unstructured) (map[string]string, error) {
	found := map[string]string{}
	for _, s := range settings {
		where := map[string][]string{}
		for name, key := range s.at {
			if value := valueIn(configMap(name), key); value != "" {
				where[value] = append(where[value], name)
			}
		}
		if len(where) > 1 {
			var names []string
			for _, in := range where {
				names = append(names, in...)
			}
			slices.Sort(names)
			return nil, fmt.Errorf("%s is not the same in the ConfigMaps %s: write the same value into these ConfigMaps and restart their pods", s.what, strings.Join(names, ", "))
		}
		for value := range where {
			found[s.key] = value
		}
	}
	return found, nil
}

// valueIn returns the value of a property in the files of a ConfigMap (Java properties or YAML); "" if no file has the property.
func valueIn(configMap *unstructured.Unstructured, key string) string {
	if configMap == nil {
		return ""
	}
	files, _, _ := unstructured.NestedStringMap(configMap.Object, "data")
	for name, text := range files {
		if strings.HasSuffix(name, ".properties") {
			for line := range strings.Lines(text) {
				if k, v, ok := strings.Cut(line, "="); ok && strings.TrimSpace(k) == key {
					return strings.TrimSpace(v)
				}
			}
			continue
		}
		var tree any
		if yaml.Unmarshal([]byte(text), &tree) == nil {
			if value := walk(tree, key); value != "" {
				return value
			}
		}
	}
	return ""
}

// walk finds a property in a tree. Keys of any level may be dotted names.
func walk(tree any, key string) string {
	fields, isMap := tree.(map[string]any)
	if !isMap {
		if key == "" && tree != nil {
			return fmt.Sprint(tree)
		}
		return ""
	}
	for name, value := range fields {
		if name == key {
			return walk(value, "")
		}
		if rest, ok := strings.CutPrefix(key, name+"."); ok {
			if found := walk(value, rest); found != "" {
				return found
			}
		}
	}
	return ""
}

// rootPassword returns root's password from the original operator's StatefulSet.
func rootPassword(set *unstructured.Unstructured) (string, error) {
	containers, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		container, _ := c.(map[string]any)
		env, _, _ := unstructured.NestedSlice(container, "env")
		for _, e := range env {
			if variable, _ := e.(map[string]any); variable["name"] == "MYSQL_ROOT_PASSWORD" {
				value, _ := variable["value"].(string)
				if clean, err := contract.CleanSecret([]byte(value)); err == nil && clean == value && value != "" {
					return value, nil
				}
			}
		}
	}
	return "", fmt.Errorf("StatefulSet %s has no value of MYSQL_ROOT_PASSWORD that a Secret can hold: set spec.mysql to kind ThirdParty with the address and the account of the database first", set.GetName())
}
