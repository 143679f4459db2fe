#!/usr/bin/env bash
# REQUESTS (10000) requests through moefs-http, of CLIENTS (8) at once: tests/soak/requests.py has the table of them. A tenth of them
# run first, so that everything that is allocated once is there. After the others neither the gateway nor the daemon may hold more
# than 5 % and 1 MiB above that, or more open files, and no session may be left. Under a sanitizer sizes are printed, not judged.
#
#     REQUESTS=10000 CLIENTS=8 SEED=1 MOEFS=build/asan/moefs tests/soak/gateway.sh
. "$(dirname "$0")/../mount/lib.sh"
requests=${REQUESTS:-10000} clients=${CLIENTS:-8} seed=${SEED:-$(date +%s)}
mounted -o context_budget=64M
loaded
complete
judged=yes
grep -qaE '__(asan|tsan)_init' "$MOEFS" && judged=
gateway

ask_all() { # COUNT SEED
	PYTHONDONTWRITEBYTECODE=1 timeout $((limit * 20)) python3 "$root/tests/soak/requests.py" "$url" "$(basename "$MODEL")" "$1" "$clients" "$2" \
		>"$work/report"
	local status=$?
	sed 's/^/# /' "$work/report"
	return $status
}
of() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }
files() { ls "/proc/$1/fd" | wc -l; }
# Waits until the sizes stay: the daemon returns freed memory after an idle second, the gateway gradually.
settled() {
	local i before=
	for i in $(seq 60); do
		[ "$(of "$daemon") $(of "$served") $(files "$served")" = "$before" ] && [ "$i" -gt 6 ] && return
		before="$(of "$daemon") $(of "$served") $(files "$served")"
		sleep 0.5
	done
}
sizes() { echo "$(of "$daemon") $(of "$served") $(files "$daemon") $(files "$served")"; }
bounded() { # WHAT BEFORE AFTER
	[ -z "$judged" ] || [ $(($3 * 100)) -le $(($2 * 105 + 102400)) ] || fail "$1: $2 to $3 KiB"
}

echo "# seed $seed, $requests requests of $clients clients"
claim "all that is made once is made" ask_all $((requests / 10)) "$seed"
settled
read -r daemon_before http_before daemon_files http_files < <(sizes)
claim "each request is answered as it should be" ask_all $((requests - requests / 10)) $((seed + 1))
settled
read -r daemon_after http_after daemon_files_after http_files_after < <(sizes)
echo "# the daemon $daemon_before to $daemon_after KiB, moefs-http $http_before to $http_after KiB"
claim "the daemon's resident size is bounded" bounded daemon "$daemon_before" "$daemon_after"
claim "the gateway's resident size is bounded" bounded moefs-http "$http_before" "$http_after"
claim "no open file is left" same "$daemon_files_after $http_files_after" "$daemon_files $http_files"
none_left() { same "$(ls sessions | grep -c '^http-')" 0; }
claim "no session is left" none_left
gateway_over
finish
