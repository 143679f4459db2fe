# A small Debian in a folder or archive, from the system's mirror by the way that apt goes there.
debian_make() { # MMDEBSTRAP'S OPTIONS AND OPERANDS
	local proxies=() line
	while read -r line; do proxies+=(--aptopt="$line"); done < <(apt-config dump 2>/dev/null | grep -i '^Acquire::https\?::Proxy ')
	mmdebstrap --quiet --variant=minbase "${proxies[@]}" "$@"
}
