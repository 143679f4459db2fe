#!/bin/bash
# Shell idioms that hold prompt open while they read: none may deadlock, and each reads the previous answer.
. "$(dirname "$0")/lib.sh"
mounted
loaded
first=$(ask "What is the capital of France?")

translate() {
	for shell in bash dash; do
		ask "What is the capital of France?" >/dev/null
		was=$(cat output)
		timeout $limit $shell -c '{ echo Translate:; cat output; } > prompt' || fail "$shell: $?"
		cat output >/dev/null
		same "$(cat prompt)" "Translate:
$was" $shell
	done
}
claim "{ echo Translate:; cat output; } > prompt" translate

tees() {
	was=$(cat output)
	timeout $limit tee prompt <output >/dev/null || fail "$?"
	cat output >/dev/null
	same "$(cat prompt)" "$was"
}
claim "tee prompt < output" tees

cats() {
	was=$(cat output)
	timeout $limit cat output > prompt || fail "$?"
	cat output >/dev/null
	same "$(cat prompt)" "$was"
}
claim "cat output > prompt" cats

held() {
	for shell in bash dash; do
		was=$(cat output)
		timeout $limit $shell -c "exec 3>prompt; echo 'What is 2 plus 2?' >&3; cat output; cat status; exec 3>&-; cat output >/dev/null" \
			>"$work/held" || fail "$shell: $?"
		same "$(cat "$work/held")" "$was
done" $shell
		same "$(cat prompt)" "What is 2 plus 2?" $shell
	done
}
claim "exec 3>prompt; echo q >&3; cat output" held

noisy() {
	was=$(cat output)
	timeout $limit bash -c '{ echo a; echo b >&2; cat output; echo c; } > prompt' 2>/dev/null || fail "$?"
	cat output >/dev/null
	same "$(cat prompt)" "a
$was
c"
}
claim "{ echo a; echo b >&2; cat output; } > prompt" noisy

piped() {
	was=$(cat output)
	timeout $limit bash -c 'echo x | { cat; cat output status; } > prompt' || fail "$?"
	cat output >/dev/null
	same "$(cat prompt)" "x
$was
done"
}
claim "echo x | { cat; cat output status; } > prompt" piped

waits() {
	timeout $limit bash -c '{ echo x; cat wait; cat stats >/dev/null; cat log >/dev/null; } > prompt' || fail "$?"
	cat output >/dev/null
	same "$(cat prompt)" "x
done"
}
claim "wait, stats and log do not wait for their own reader" waits

substituted() {
	timeout $limit bash -c 'echo "Say it again: $(cat output)" > prompt; cat output >/dev/null' || fail "$?"
	timeout $limit bash -c 'echo q > prompt; read -r line < output; [ -n "$line" ]' || fail read
	timeout $limit bash -c 'echo q > prompt; mapfile -t lines < output; [ ${#lines[@]} -ge 1 ]' || fail mapfile
	timeout $limit bash -c 'echo q > prompt; x=$(< output); [ -n "$x" ]' || fail '$(<)'
	timeout $limit bash -c 'cat > prompt <<< "here"; cat output | cat >/dev/null' || fail here
}
claim "substitution, read, mapfile and here-strings" substituted

states() {
	for i in $(seq 20); do
		echo "What is 3 plus 3?" > prompt
		s=$(cat status)
		case $s in done) [ "$(cat stats | awk '$1 == "output_tokens" {print $2}')" -gt 0 ] || fail "stale status" ;;
		loading | queued | prompting | generating) ;;
		*) fail "status $s just after a prompt" ;;
		esac
		same "$(cat wait)" done
	done
}
claim "status and wait just after a prompt speak of its turn" states
finish
