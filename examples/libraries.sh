#!/usr/bin/env bash
# libraries.sh LIBRARY…: whether these are there, by their names for pkg-config, and new enough to build with; says
# of each that is not what to do. Status 1 if any is not.
set -u

# The version that first had what the code calls. Those that are not named have had it for long.
declare -A least=([fuse3]=3.14 [liburing]=2.2 [libpcre2-8]=10.40 [libmicrohttpd]=0.9.71 [json-c]=0.15)

if ! command -v pkg-config >/dev/null; then
	echo "pkg-config, which finds the libraries, is missing: examples/packages.sh installs what is needed" >&2
	exit 1
fi
status=0
for name; do
	version=${least[$name]:-0}
	pkg-config --atleast-version="$version" "$name" 2>/dev/null && continue
	status=1
	if found=$(pkg-config --modversion "$name" 2>/dev/null); then
		echo "$name $found is too old: moefs needs $version or later, as in Debian 12 and Ubuntu 23.10"
	else
		echo "$name is missing: examples/packages.sh installs what is needed"
	fi >&2
done
exit $status
