// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command olmv1 writes the rights of the account with which OLM v1 installs the operator:
//
//	olmv1 FILE BUNDLE...
//
// The account needs two sets of rights: to write the objects of the bundles, by name, and to grant the rights of the operator and of the
// roles in the bundles. Older bundles are included, because an upgrade removes objects that only these bundles contain.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	// extension is the name of the ClusterExtension. namespace is the namespace in which OLM v1 installs the operator.
	extension = "d3os-operator"
	namespace = "d3os-operator-system"
	// account is the ServiceAccount of config/olmv1 that has the rights.
	account = "d3os-operator-installer"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: olmv1 FILE BUNDLE [BUNDLE]")
	}
	r := newRights()
	for _, folder := range args[1:] {
		b, err := read(folder)
		if err != nil {
			return fmt.Errorf("read the bundle %s: %w", folder, err)
		}
		if err := r.add(b); err != nil {
			return fmt.Errorf("derive the rights for the bundle %s: %w", folder, err)
		}
	}
	out := bytes.NewBufferString("# What OLM v1 needs to install, upgrade and remove the operator, written by make bundle.\n")
	for _, o := range r.objects() {
		text, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("write the rights: %w", err)
		}
		fmt.Fprintf(out, "---\n%s", text)
	}
	return os.WriteFile(args[0], out.Bytes(), 0o644) //nolint:gosec // the caller names the file to write
}

// objects returns the rights as roles, and the bindings of the roles to the account.
func (r *rights) objects() []any {
	meta := metav1.ObjectMeta{Name: account}
	inside := metav1.ObjectMeta{Name: account, Namespace: namespace}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}}
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: name}
	}
	r.give(r.watched())
	everywhere := append(writes(r.cluster, "create", "list", "watch"), r.passedOn()...)
	return []any{
		rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta, Rules: everywhere},
		rbacv1.ClusterRoleBinding{
			TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		},
		rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: inside, Rules: writes(r.namespaced, "create")},
		rbacv1.RoleBinding{
			TypeMeta: kind("RoleBinding"), ObjectMeta: inside, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		},
	}
}
