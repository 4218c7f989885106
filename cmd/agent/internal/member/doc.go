// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package member decides whether a member of a replicated database may start on
// the volume of its pod, and as which member. It runs as the first process of
// the server's container and then becomes the server (exec). A second process
// runs next to the server: it completes the mark, and ends the server when a
// ticket asks for another start (see Agent.Watch).
//
// Why: a server with an empty volume, started under the name of a member that
// voted before, may vote again without the entries that the member acknowledged.
// Kubernetes makes empty volumes and starts pods even without the operator, so
// the agent decides last.
//
// # What the agent looks at
//
//   - The mark, a file next to the data (see Mark): of which pod, cluster and
//     member the data is.
//   - The data itself: the server's own files name cluster and member, too.
//   - The ticket, an annotation on the pod that the operator writes and the
//     downward API shows (see Ticket).
//   - The member lists of the running members.
//
// # What it does
//
//	data with the mark of this pod       start the server on the data
//	own data, but the running members    wait for a ticket with another id
//	have removed the member
//	nothing, or a start that broke off   wait for a ticket: seed or join
//	a mark whose data is missing         wait for join with another id
//	foreign data, or data without        wait; a person has to decide
//	a mark
//	own data, damaged                    wait: the server would refuse to start, or start
//	                                     without acknowledged entries
//	own data, and its log ends before    wait: the storage put the volume back to an earlier
//	a known position of the member       state. The operator's record and a note of this pod
//	                                     (Situation.Known) have the position, outside of the volume
//	a mark of this pod, unreadable data  start the server: it reports the damage
//
// # Tickets
//
// A ticket is for one start of one pod: its text is noted in an emptyDir of the
// pod and, with the pod's UID, in the mark before the server starts. A text that
// is in the emptyDir or in the mark is used. For another start, delete the pod or
// write another text.
//
//	seed            make a new cluster, on an empty volume only. The cluster's id depends on
//	seed:TOKEN      TOKEN, or else on the pod's UID. If a backup was restored next to it (see
//	                Restored), the cluster begins with it
//	join:ID         join as the member with that id (hexadecimal), which the running members
//	                must list as a learner that has never been started
//	force:TOKEN     with data: become the only member. Once for each TOKEN and volume
//	none            no ticket
//
// # Report
//
// While the agent waits it answers GET /state on the port of the metrics with a
// Report, as JSON. It answers /livez with 200, and /readyz and /health with 503,
// so that the pod is alive and not ready. Each new report is a line of the log.
package member
