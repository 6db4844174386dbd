#!/bin/sh
# Fetches Debian's cloud kernel for the virtual machine, without installing it, and prints its path.
# Usage: kernel.sh [FOLDER], by default belljar/vm in the user's cache.
set -eu
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/belljar/vm}
for kernel in "$dir"/vmlinuz-*; do
	if [ -s "$kernel" ]; then
		echo "$kernel"
		exit
	fi
done
mkdir -p "$dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"

# fetch fetches the package that the current lists name.
fetch() {
	package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
	[ -n "$package" ] && apt-get download -q -o Acquire::Retries=5 "$package" >&2
}

# Lists may be missing, or so old that their packages are gone. Another process may also be fetching them.
tries=0
until fetch; do
	tries=$((tries + 1))
	[ "$tries" -lt 10 ] || exit 1
	apt-get update -qq -o Acquire::Retries=5 >&2 || sleep 5
done
dpkg -x "$package"_*.deb tree
# It gets its final name when it is complete, so two concurrent downloads do no harm.
new=$(mktemp "$dir/.new-XXXXXX")
cp tree/boot/vmlinuz-* "$new"
mv "$new" "$dir/$(basename tree/boot/vmlinuz-*)"
ls "$dir"/vmlinuz-*
