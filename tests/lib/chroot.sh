# SPDX-License-Identifier: ISC
# shellcheck shell=bash
# For tests that need a machine with nothing on it: a clean Debian 12 in a
# chroot, from the mirror this host's apt uses.

# The sources of this Debian as this host's apt knows them.
chroot_sources() {
	apt-get indextargets --format \
		'$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' \
		'Created-By: Packages' |
		awk '$1 == "Debian" && $2 ~ /^bookworm/ && $3 == "main" {
			print "deb", $4, $2, $3 }' | sort -u
}

# in_memory ROOT: where there is room, it is no folder on a disk: what installs
# packages waits for the disk most of its time. Ends with the namespace.
in_memory() {
	local free
	free=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
	[ "$free" -lt 10 ] || mount -t tmpfs -o mode=755,size=6g tmpfs "$1"
}

# clean_debian ROOT LOG [OPTION...]: make it, with its mounts.
clean_debian() {
	local root=$1 log=$2 list proxy p=""
	shift 2
	list=$(chroot_sources)
	[ -n "$list" ] || {
		apt-get update >"$log" 2>&1
		list=$(chroot_sources)
	}
	[ -n "$list" ] || { echo "apt names no Debian 12 mirror" >"$log"; return 1; }
	proxy=$(apt-config shell p Acquire::http::Proxy)
	eval "$proxy"
	# shellcheck disable=SC2154
	mmdebstrap --quiet --variant=minbase --dpkgopt=force-unsafe-io "$@" \
		${p:+"--aptopt=Acquire::http::Proxy \"$p\""} \
		bookworm "$root" - <<<"$list" >"$log" 2>&1 &&
		mount -t proc proc "$root/proc" &&
		mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
}

# in_root COMMAND...: as root inside $root.
in_root() {
	# shellcheck disable=SC2154
	chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
