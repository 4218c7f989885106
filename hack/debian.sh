# shellcheck shell=bash
# Unpacks packages of a Debian release, whichever the machine has, without installing them. Needs no root: apt keeps its
# lists and packages in folders of this script's own. To be sourced, after hack/packages.sh.

# unpack RELEASE FOLDER PACKAGE...: adds exactly these packages to FOLDER.
unpack() { debian_unpack download "$@"; }

# unpack_all RELEASE FOLDER PACKAGE...: the same with all that they depend on, the C library included.
unpack_all() { debian_unpack install "$@"; }

debian_unpack() {
	local how=$1 release=$2 folder=$3 work file package
	shift 3
	type -P apt-get dpkg-deb >/dev/null || { echo "${0##*/}: needs apt-get and dpkg-deb, that is a Debian" >&2; return 1; }
	work=$(mktemp -d)
	mkdir -p "$work"/{sources/sources.list.d,state/lists/partial,cache/archives/partial,packages}
	touch "$work/sources/sources.list" "$work/status"
	if [[ $release == sid ]]; then
		# It has no updates and no security of its own, so the list is made of the mirror alone.
		printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s sid main\n' "$(debian_mirror)" >"$work/sources/sources.list"
	else
		for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
			[[ ! -e $file ]] || sed "s/\b$(debian_release)\b/$release/g" "$file" >"$work/sources/${file#/etc/apt/}"
		done
	fi
	debian_apt update
	if [[ $how == install ]]; then
		debian_apt install --download-only --no-install-recommends -y "$@"
		mv "$work"/cache/archives/*.deb "$work/packages"
	else
		(cd "$work/packages" && debian_apt download "$@")
	fi
	mkdir -p "$folder"
	for package in "$work"/packages/*.deb; do
		dpkg-deb --extract "$package" "$folder"
	done
	rm -rf "$work"
}

debian_apt() {
	# A mirror's copy of sid may be past the date until which it calls itself valid.
	apt-get -qq -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3 -o Acquire::Check-Valid-Until=false \
		-o Dir::Etc::SourceList="$work/sources/sources.list" -o Dir::Etc::SourceParts="$work/sources/sources.list.d" \
		-o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" "$@" >>"$work/log" 2>&1 && return
	tail -n 25 "$work/log" >&2
	echo "${0##*/}: apt-get $1 of Debian $release failed" >&2
	rm -rf "$work"
	return 1
}

# debian_mirror: the mirror of Debian that this machine is configured with.
debian_mirror() {
	# shellcheck disable=SC2016
	apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null |
		awk '$1 == "Debian" && $3 !~ /security/ {print $2; exit}' | grep . || echo http://deb.debian.org/debian
}
