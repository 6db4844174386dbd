#!/bin/sh
# Fetches Debian's cloud kernel for the virtual machine, without installing it, and prints where it is.
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
package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
apt-get download -q "$package" >&2
dpkg -x "$package"_*.deb tree
# Under its final name only when it is whole.
cp tree/boot/vmlinuz-* "$dir/new"
mv "$dir/new" "$dir/$(basename tree/boot/vmlinuz-*)"
ls "$dir"/vmlinuz-*
