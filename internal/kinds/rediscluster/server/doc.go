// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server speaks with the Redis servers of a cluster: it reads what each
// of them says (Read) and takes one step (Take). Package topology decides, and
// this package is the only one that knows the Redis protocol.
//
// Each pod has a connection of its own, by its address. Nothing here follows a
// redirection or finds nodes by asking other nodes: only addresses are dialled
// that Kubernetes gives for the pods of a RedisCluster.
//
// A step is refused unless the pod is still the one that was decided about (UID
// and address), the password is accepted, and the node at that address has the id
// that was decided about. Id and effect go through one connection, which is not
// made anew in between: so another server that takes over the address in the
// middle of a step gets no command.
package server
