// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server communicates with the Redis servers of a cluster. Read queries each of them, and Take runs one step. Package topology
// decides. Only this package uses the Redis protocol.
//
// Each pod has a separate connection, by its address. This package follows no redirections and discovers no nodes through other nodes: it
// connects only to the addresses of pods of the RedisCluster, as Kubernetes reports them.
//
// A step is refused unless the pod still has the UID and address of the decision, and the node at that address still has its id. The server
// must also accept the password. The check of the id and the effect use one connection, which is never reopened. So another server that
// takes over the address during a step gets no command.
//
// guard.go limits the size of a server's answers. Users choose the image of a RedisCluster, so any program may answer the operator. The
// client library allocates the announced length of an answer before it arrives: a length of 2^62 would crash the operator for all
// resources.
package server
