#!/usr/bin/env bash
# Scores the operator's manifests and the manifests of every sample. Ignored checks are listed here with their reasons. Every other critical
# result is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=${TOOLS:-$PWD/bin/tools}

everywhere=(
	# The amount that a platform writes outside of its volumes is unknown here. A LimitRange of the namespace can limit it.
	container-ephemeral-storage-request-and-limit
	# The images set the user. test/security checks that the user is not root.
	container-security-context-user-group-id
	# spec.networkPolicy enables network policies; the operator's policy depends on the address of the API server.
	pod-networkpolicy
)
operator=(
	# make deploy and make bundle replace controller:latest by the image of the version.
	container-image-tag
	# Images have versions, and versions do not change.
	container-image-pull-policy
)
platform=(
	container-image-pull-policy
	# test/security lists the images that write to their root filesystem, and allows no other.
	container-security-context-readonlyrootfilesystem
	# The product's services have a single health endpoint. The liveness probe tolerates more failures than the readiness probe.
	pod-probes-identical
	# The author of the resource defines these objects: sidecars, cron jobs, services and the objects that publish them.
	container-resources cronjob-has-deadline service-type pod-probes
	# A service without `replica` has no number of pods, so that an autoscaler may set it. kube-score takes that for several pods.
	deployment-has-poddisruptionbudget statefulset-has-poddisruptionbudget
	# Clients do not use this Service of the StatefulSet to address single pods.
	statefulset-has-servicename
)

# score(what, ignored...): scores the manifests on standard input.
score() {
	local what=$1 out ignored=()
	shift
	for check in "${everywhere[@]}" "$@"; do ignored+=(--ignore-test "$check"); done
	if ! out=$("$tools/kube-score" score --kubernetes-version v1.36 --output-format ci "${ignored[@]}" -); then
		grep '^\[CRITICAL\]' <<<"$out" >&2 || echo "$out" >&2
		echo "kube-score: $what" >&2
		return 1
	fi
	echo "ok  kube-score $what"
}

"$tools/kustomize" build config/default | score config/default "${operator[@]}"
for sample in config/samples/*.yaml; do
	[[ $sample != */kustomization.yaml ]] || continue
	# Outside of a pod, render does not know the agent's image.
	go run . render -f "$sample" | sed 's|image: unknown$|image: registry.example/agent:v1|' | score "$sample" "${platform[@]}"
done
