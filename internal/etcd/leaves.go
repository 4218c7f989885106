// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"net"
	"slices"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
)

// leaf describes one certificate of a cluster.
type leaf struct {
	suffix  string
	members bool // the authority of members signs the certificate
	database.Leaf
}

// leaves returns the certificates of a cluster.
func leaves(ec *etcdv1.EtcdCluster) []leaf {
	service := []string{ec.Name, ec.Name + "." + ec.Namespace, serverName(ec), serverName(ec) + ".cluster.local", "localhost", "127.0.0.1"}
	service = append(service, names(ec.Spec.TLS.AdditionalNames)...)
	var pods []string
	for ordinal := range membership.MaxReplicas {
		pods = append(pods, podDomain(ec, ordinal), podDomain(ec, ordinal)+".cluster.local")
	}
	return []leaf{
		// A server connects to itself as a client.
		{suffixServer, false, database.Leaf{Name: "server", Hosts: once(append(service, pods...)), Client: true}},
		{suffixPeer, true, database.Leaf{Name: "member", Hosts: pods, Client: true}},
		{suffixClient, false, database.Leaf{Name: "client", Client: true}},
	}
}

// once returns sorted names without duplicates. (A certificate with a duplicate would be renewed in each pass.)
func once(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// names returns the given names in the form in which certificates contain them: IP addresses in their shortest form.
func names(given []string) (found []string) {
	for _, name := range given {
		if ip := net.ParseIP(name); ip != nil {
			name = ip.String()
		}
		found = append(found, name)
	}
	return found
}
