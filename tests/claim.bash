# What tests share that mount nothing: claim NAME command…, which says in a line whether the command succeeds, and if not
# why; and the status to end with. tests/mount/lib.sh has its own, for what may hang.
status=0
claim() {
	local name=$1 out
	shift
	if out=$("$@" 2>&1); then
		echo "ok $name"
	else
		echo "not ok $name: $(tail -n 3 <<<"$out" | tr '\n' ' ')"
		status=1
	fi
}
