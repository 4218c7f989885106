// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// bundle is the input from which the rights are derived.
type bundle struct {
	csv    csv
	others []manifest
}

// manifest is an object of a bundle. Rules is set for a role.
type manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Rules []rbacv1.PolicyRule `json:"rules"`
}

// csv is the part of a ClusterServiceVersion that lists the installed objects.
type csv struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Install struct {
			Spec struct {
				ClusterPermissions []permission `json:"clusterPermissions"`
				Permissions        []permission `json:"permissions"`
				Deployments        []struct {
					Name string `json:"name"`
				} `json:"deployments"`
			} `json:"spec"`
		} `json:"install"`
	} `json:"spec"`
}

// permission declares its fields in the order that the derivation of a role's name requires.
type permission struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

func read(folder string) (*bundle, error) {
	files, err := filepath.Glob(filepath.Join(folder, "manifests", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there are no manifests: %w", err)
	}
	b := &bundle{}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // the caller names the bundle to read
		if err != nil {
			return nil, err
		}
		var m manifest
		if err := yaml.Unmarshal(text, &m); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if m.Kind != "ClusterServiceVersion" {
			b.others = append(b.others, m)
			continue
		}
		if err := yaml.Unmarshal(text, &b.csv); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return b, nil
}

// permissions returns sets of rights. OLM v1 creates a ClusterRole from each set. An installation for all namespaces converts rights in a
// namespace to rights in the cluster. Some releases of OLM then add a rule for the resource namespaces, which changes the role's name, so
// the result contains both sets.
func (b *bundle) permissions() []permission {
	spec := b.csv.Spec.Install.Spec
	all := slices.Concat(spec.ClusterPermissions, spec.Permissions)
	for _, p := range spec.Permissions {
		namespaces := rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"namespaces"}}
		all = append(all, permission{ServiceAccountName: p.ServiceAccountName, Rules: append(slices.Clone(p.Rules), namespaces)})
	}
	return all
}

// roleName returns the name that OLM v1 gives to the ClusterRole of a permission and to the role's binding: the names of version and
// account, cut to leave room for a digest of the permission.
func (b *bundle) roleName(p permission) (string, error) {
	const longest = 63
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("derive the name of the role of %s: %w", p.ServiceAccountName, err)
	}
	sum := sha256.Sum224(append(text, '\n'))
	digest := new(big.Int).SetBytes(sum[:]).Text(36)
	name := b.csv.Metadata.Name + "-" + p.ServiceAccountName
	return name[:min(len(name), longest-len(digest)-1)] + "-" + digest, nil
}
