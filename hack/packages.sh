# shellcheck shell=bash
# Installs Debian's packages of the commands that a script needs and the machine lacks. Other scripts source this file.

# Commands whose package has another name. Debian 13's buildah requires netavark even if it creates no network.
declare -A packages_of=(
	[/etc/ssl/certs/ca-certificates.crt]=ca-certificates
	[/usr/lib/cni/ptp]=containernetworking-plugins
	[buildah]='buildah netavark'
	[ip]=iproute2
	[pkill]=procps
)

# packages COMMAND...: installs the packages of the commands that are missing. A path stands for a file that must exist.
packages() {
	local command log missing=() sudo=()
	for command; do
		[[ ! -e $command || $command != /* ]] || continue
		# Not `command -v`, which would accept a function of that name in the calling script.
		type -P "$command" >/dev/null && continue
		# shellcheck disable=SC2206
		missing+=(${packages_of[$command]:-$command})
	done
	((${#missing[@]})) || return 0
	type -P apt-get >/dev/null || { echo "${0##*/}: missing: ${missing[*]}" >&2; return 1; }
	((EUID == 0)) || sudo=(sudo --preserve-env)
	printf '  [%3d s] installing %s\n' "$SECONDS" "${missing[*]}" >&2
	log=$(mktemp)
	# apt-get does not wait for another apt-get: `make -j` and parallel suites may call it at the same time.
	(
		flock 9
		"${sudo[@]}" apt-get update -qq &&
			"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
	) 9>"${TMPDIR:-/tmp}/d3os-packages-$EUID.lock" >"$log" 2>&1 || {
		tail -n 25 "$log" >&2
		echo "${0##*/}: cannot install ${missing[*]}" >&2
		return 1
	}
	rm -f "$log"
}

# shellcheck source=/dev/null
debian_release() { (. /etc/os-release && echo "$VERSION_CODENAME"); }

# debian_sources: prints the machine's configured mirrors of this release, whatever their format.
debian_sources() {
	# shellcheck disable=SC2016
	apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		awk -v release="$(debian_release)" '$1 == "Debian" && $3 ~ "^" release && $4 == "main" {print "deb", $2, $3, $4}' | sort -u
}
