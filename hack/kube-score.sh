#!/usr/bin/env bash
# Scores the operator's manifests and those of every sample. What kube-score is told to overlook is said
# here, and why; all else that it calls critical fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=${TOOLS:-$PWD/bin/tools}

everywhere=(
	# The amount that a platform writes outside of its volumes is not known here; a namespace's LimitRange can say it.
	container-ephemeral-storage-request-and-limit
	# The images set the user; test/security checks that it is not root.
	container-security-context-user-group-id
	# Network policies are asked for (spec.networkPolicy); the operator's depends on where the API server is.
	pod-networkpolicy
)
operator=(
	# make deploy and make bundle put the image of the version in the place of controller:latest.
	container-image-tag
	# Images have versions, and versions do not change.
	container-image-pull-policy
)
platform=(
	container-image-pull-policy
	# test/security lists the images that write to their root filesystem, and allows no other.
	container-security-context-readonlyrootfilesystem
	# The product's services have one answer to "how are you". A liveness probe is the more patient one.
	pod-probes-identical
	# An author's: sidecars, cron jobs, services and what publishes them.
	container-resources cronjob-has-deadline service-type pod-probes
	# One of the Services of a set, by which no client addresses single pods.
	statefulset-has-servicename
)

# score(what, ignored...): the manifests come from standard input
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
	# Outside of a pod, render does not know the image of the agent.
	go run . render -f "$sample" | sed 's|image: unknown$|image: registry.example/agent:v1|' | score "$sample" "${platform[@]}"
done
