// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package member decides whether a member of a replicated database may start on the volume of its pod, and as which
// member. It runs as the first process of the server's container and then becomes the server (exec). A second process
// runs next to the server: it adds the IDs of new data to the mark, and ends the server when a ticket requires
// another start (see Agent.Watch).
//
// The reason: if a server with an empty volume starts under the name of a member that voted before, it may vote again without the entries
// that the member acknowledged. Kubernetes creates empty volumes and starts pods even without the operator. Therefore the agent makes the
// last decision.
//
// # Inputs of the agent
//
//   - The mark, a file next to the data (see Mark). It names the pod, the cluster
//     and the member to which the data belongs.
//   - The data itself. The server's own files also name the cluster and the member.
//   - The ticket, an annotation that the operator writes on the pod. The downward
//     API shows it as a file (see Ticket).
//   - The member lists of the running members.
//
// # Actions of the agent
//
//	data with the mark of this pod       start the server on the data
//	own data, but the running members    wait for a ticket with another id
//	have removed the member
//	no data, or an interrupted start     wait for a ticket: seed or join
//	a mark whose data is missing         wait for join with another id
//	foreign data, or data without        wait for a decision of the user
//	a mark
//	own data, damaged                    wait: the server would refuse to start, or start
//	                                     without acknowledged entries
//	own data, and its log ends before    wait: the storage restored an earlier state of the
//	a known position of the member       volume. The operator's record and a note of this pod
//	                                     (Situation.Known) have the position, outside of the volume
//	a mark of this pod, unreadable data  start the server: it reports the damage
//
// # Tickets
//
// A ticket allows one start of one pod. Before the server starts, the agent stores the ticket's text in an emptyDir of the pod and, with
// the pod's UID, in the mark. A ticket whose text is in the emptyDir or in the mark counts as used. For another start, delete the pod or
// write another text.
//
//	seed            create a new cluster, on an empty volume only. The cluster's id depends on
//	seed:TOKEN      TOKEN, or else on the pod's UID. If the volume has a restored backup (see
//	                Restored), the cluster begins with that data
//	join:ID         join as the member with that id (hexadecimal), which the running members
//	                must list as a learner that has never been started
//	force:TOKEN     with data only: become the only member. Works once for each TOKEN and volume
//	none            no ticket
//
// # Report
//
// While the agent waits, it answers GET /state on the metrics port with a Report in JSON. It answers /livez with 200, and /readyz and
// /health with 503: the pod is alive and not ready. The agent logs each new report.
package member
