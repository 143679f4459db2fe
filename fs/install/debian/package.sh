#!/usr/bin/env bash
# package.sh PROGRAM_BUILD VERSION OUT: a Debian package of what `make install` puts in place, by dpkg-deb alone: no
# network, no debhelper. It needs dpkg-dev only to name the libraries' packages, and says so where that is missing.
set -euo pipefail
build=$1 version=$2 out=$3
here=$(dirname "$0")
for program in dpkg-deb dpkg-shlibdeps strip gzip; do
	command -v $program >/dev/null || {
		echo "make deb needs $program; on Debian and Ubuntu: sudo apt install dpkg-dev binutils" >&2
		exit 1
	}
done
work=$(mktemp -d "${TMPDIR:-/tmp}/moefs-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
umask 022
root=$work/root
documents=$root/usr/share/doc/moefs
architecture=$(dpkg --print-architecture)
# Reproducible: all files have the time of the last commit, or of the newest source where there is no git.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Makefile)}"
export SOURCE_DATE_EPOCH

${MAKE:-make} -s -o all install BUILD="$build" DESTDIR="$root" PREFIX=/usr ZSH_FUNCTIONS=share/zsh/vendor-completions \
	HELPERS=/usr/sbin
ln -sf ../bin/moefs "$root/usr/sbin/mount.moefs"
strip --remove-section=.comment --remove-section=.note "$root/usr/bin/moefs" "$root/usr/bin/moefs-http"
gzip -9n "$root"/usr/share/man/man?/*

mkdir -p "$documents/examples"
cp fs/install/systemd/srv-models.* "$documents/examples/"
cp -r README.md docs "$documents/"
# All examples but those that serve the build; the demonstration and its model are where `moefs demo` finds them.
find examples -maxdepth 1 -type f ! -name packages.sh ! -name libraries.sh ! -name demo.sh ! -name README.md \
	-exec cp {} "$documents/examples/" \;
grep -v '^| `packages.sh`' examples/README.md >"$documents/examples/README.md"
ln -s ../../../moefs/demo.sh ../../../moefs/models "$documents/examples/"
cp "$here/copyright" "$documents/"
sed 's/^$/./; s/^/ /' LICENSE >>"$documents/copyright"
printf 'moefs (%s) unstable; urgency=medium\n\n  * As the sources of this version are.\n\n -- %s  %s\n' "$version" \
	"$(sed -n 's/^Maintainer: //p' "$here/control.in")" "$(date -uRd "@$SOURCE_DATE_EPOCH")" |
	gzip -9n >"$documents/changelog.gz"

# The libraries' packages, with the versions that first had what is called.
mkdir -p "$work/debian" "$root/DEBIAN"
printf 'Source: moefs\n\nPackage: moefs\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/moefs root/usr/bin/moefs-http 2>"$work/said" | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { cat "$work/said" >&2; exit 1; }
sed "s/@version@/$version/; s/@architecture@/$architecture/; s/@depends@/$depends/
	s/@size@/$(du -k -s --apparent-size "$root/usr" | cut -f 1)/" "$here/control.in" >"$root/DEBIAN/control"
install -m755 "$here/prerm" "$root/DEBIAN/"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

file=$out/moefs_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$file" >/dev/null
echo "$file"
