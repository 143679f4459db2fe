# Sourced after mount/lib.sh: packages of npm's registry, at the versions fixed here, each set installed once into
# build/clients. Where the registry is missing the test is over, with a sentence.
official=(openai@7.57.0 @anthropic-ai/sdk@1.12.0)
browser=(playwright-core@1.65.1)
suites=(compatcanary@0.2.2)
agents=(opencode-ai@1.18.33 @openai/codex@0.169.0 zod@4.1.8)
clients=$root/tests/clients

# registry PACKAGE@VERSION…: $modules is then the node_modules that they are in.
registry() {
	local program set part
	for program in node npm; do
		command -v $program >/dev/null || skip_all "$program is missing"
	done
	set=$root/build/clients/$(printf '%s ' "$@" | cksum | cut -d ' ' -f 1)
	if [ ! -d "$set" ]; then
		mkdir -p "$root/build/clients"
		part=$(mktemp -d "$root/build/clients/part.XXXXXX") || exit 1
		if ! timeout $limit npm install --prefix "$part" --no-audit --no-fund --loglevel=error "$@" >"$work/npm" 2>&1; then
			rm -rf "$part"
			skip_all "these packages cannot be had from npm's registry: $*: $(tail -n 1 "$work/npm")"
		fi
		mv -T "$part" "$set" || rm -rf "$part" # another run was faster
	fi
	modules=$set/node_modules
}
