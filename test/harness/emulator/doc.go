// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package emulator is a kubelet for tests that needs neither containers nor root: for each pod that
// the scheduler binds to one of its nodes, it runs real programs as processes of this machine.
// Day-2 logic is thereby tested against real servers on the simulated cluster (test/cluster).
//
// What it emulates:
//
//   - nodes: they report to the control plane by leases; they stop and come back (StopNode, StartNode);
//   - addresses: each pod has a loopback address of its own (127.x.y.z); it has a new one when its node comes back;
//   - containers: init containers in order, then all others at once; command, args, env (values, Secrets, the pod's name,
//     namespace, UID and address, limits), preStop by exec, restarts with back-off;
//   - volumes: emptyDir, Secrets, ConfigMaps, downward API, projected ones and claims. A claim is a folder that
//     goes when the claim goes. Rendered files follow their sources within a second, and pod annotations at once;
//   - probes: startup, readiness and liveness by exec, plain HTTP and TCP;
//   - status: conditions and container statuses as a kubelet writes them; a deleted pod goes after preStop,
//     SIGTERM and, at the end of its grace period, SIGKILL;
//   - jobs: restart policies Never and OnFailure, phases Succeeded and Failed.
//
// What it does not emulate: isolation (processes share the machine's files, network and users), Services and
// DNS (the API server takes no loopback address in an EndpointSlice, so clients use pod addresses; see
// Options.Names for the names of pods), resource limits, security contexts, read-only mounts, hostPath volumes,
// tokens of service accounts (set automountServiceAccountToken to false), image pulls, exec and logs through the API
// server, resizing and ephemeral containers; and what pod.emulated lists, because no chart asks for it. A pod that asks for
// a volume, a variable, a probe or a hook that is not emulated waits, and says so in its status.
//
// A process sees the machine's file system, so a path of the container is not where the program looks. The
// emulator therefore replaces each mountPath, where it stands as a whole path or as the beginning of one, by
// the folder on this machine: in command, args, workingDir, the values of env and the files of ConfigMaps, but
// not in Secrets, whose bytes stay as they are. Image.Executables are replaced likewise. What that does not
// cover is for Image.Rewrite. A program must listen on its pod's address alone (status.podIP), not on
// 0.0.0.0: pods share the machine's ports.
package emulator
