#!/usr/bin/env bash
# The end of tests/run.sh's output: each skipped test with its reason, one line each, before the count. It runs over a tree of
# programs that only print.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d "${TMPDIR:-/tmp}/moefs-suite.XXXXXX")
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/build "$tree"/tests/{bench,mount}
cp "$here/run.sh" "$tree/tests/"

# A tree's unit tests: each group is a script of its name.
units() { # TREE
	printf '#!/bin/sh\ncd "${0%%unit}" && [ $# = 1 ] && exec "./group_$1"\nls | sed -n "s/^group_//p"\n' >"$tree/$1/unit"
	chmod +x "$tree/$1/unit"
}
prints() { # PROGRAM: what stands on the input
	{
		echo '#!/bin/sh'
		echo "cat <<'END'"
		cat
		echo END
	} >"$tree/$1"
	chmod +x "$tree/$1"
}
units build
prints build/group_some <<'END'
[==========] Running 3 test(s).
[ RUN      ] one_that_holds
a remark
[       OK ] one_that_holds
[ RUN      ] one_that_cannot_be_tried
a remark
nothing to try it with
[  SKIPPED ] one_that_cannot_be_tried
[ RUN      ] another
[       OK ] another
[==========] 3 test(s) run.
[  PASSED  ] 2 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] one_that_cannot_be_tried

 1 SKIPPED TEST(S)
END
prints tests/bench/smoke.sh <<<'ok bench # skip moefs-bench is not built'
prints tests/mount/some.sh <<'END'
ok it mounts
ok a full disk # skip: none may be mounted here
END

failed=0
result() { # NAME, and the status of what was tried
	if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1"; failed=1; fi
}
suite() { # [full] → $tree/out, $tree/status
	CHECK=${1:-} "$tree/tests/run.sh" >"$tree/out" 2>&1
	echo $? >"$tree/status"
}
says() { grep -qxF "$1" "$tree/out"; }

suite
result "a suite that skipped has passed" "$(cat "$tree/status")"
says "skipped: build/unit some: one_that_cannot_be_tried: nothing to try it with"
result "a unit test's reason is the line that it printed last" $?
says "skipped: tests/bench/smoke.sh: bench: moefs-bench is not built"
result "a script's reason is named" $?
if [ -c /dev/fuse ] && command -v fusermount3 >/dev/null; then
	says "skipped: tests/mount/some.sh: a full disk: none may be mounted here"
	result "a mount test's reason is named" $?
	[ "$(tail -n 1 "$tree/out")" = "3 passed, 0 failed, 3 skipped" ]
else
	says "skipped: tests/mount: FUSE is missing; install fuse3 and load the fuse module"
	result "without FUSE, that is named" $?
	[ "$(tail -n 1 "$tree/out")" = "2 passed, 0 failed, 3 skipped" ]
fi
result "the last line is the count" $?
skips=$(grep -c '^skipped: ' "$tree/out")
tail -n 1 "$tree/out" | grep -q ", $skips skipped\$" &&
	[ "$(tail -n $((skips + 1)) "$tree/out" | grep -c '^skipped: ')" = "$skips" ]
result "what was skipped stands before it, one line each" $?

mkdir -p "$tree"/build/asan "$tree"/build/tsan
units build/asan
cp "$tree"/build/group_some "$tree"/build/asan/
suite full
says "skipped: build/asan/unit some: one_that_cannot_be_tried: nothing to try it with"
result "with CHECK=full the sanitizers' trees are tested" $?
if [ -c /dev/fuse ] && command -v fusermount3 >/dev/null; then
	says "skipped: build/tsan/moefs: it is not built; run make tsan"
	result "with CHECK=full a build that is missing is named" $?
fi

prints build/group_silent <<'END'
[ RUN      ] one_that_says_nothing
[  SKIPPED ] one_that_says_nothing
END
suite
[ "$(cat "$tree/status")" = 1 ] &&
	says "failed: build/unit silent: one_that_says_nothing: skipped without a reason"
result "a test that is skipped without a reason has failed" $?

# A test that says why, and then much else.
{
	echo 'not ok something: a is not b'
	seq 200
} | prints tests/mount/last.sh
prints build/group_wordy <<'END'
[ RUN      ] one_that_fails
[  ERROR   ] --- 1 != 2
[   LINE   ] --- test_wordy.c:7: error: Failure!
[  FAILED  ] one_that_fails
END
suite
tail -n 60 "$tree/out" | grep -qF '[  ERROR   ] --- 1 != 2'
result "the last 60 lines say why a test failed" $?
if [ -c /dev/fuse ] && command -v fusermount3 >/dev/null; then
	tail -n 60 "$tree/out" | grep -q '^    not ok something: a is not b'
	result "however much it printed afterwards" $?
fi
# The order is the seed's.
for n in 1 2 3 4 5 6; do prints "tests/mount/of_$n.sh" <<<"ok $n"; done
sed -i 's/^lanes=.*/lanes=1/' "$tree/tests/run.sh"
in_order() { # SEED
	SEED=$1 "$tree/tests/run.sh" 2>&1 | grep -E '^SEED|^tests/|^build/' | sed 's/ .*//'
}
[ "$(in_order 5)" = "$(in_order 5)" ] && [ "$(in_order 5 | head -n 1)" = SEED=5 ]
result "the order is told, and the same for the same seed" $?
[ "$(in_order 5 | sed 1d)" != "$(in_order 6 | sed 1d)" ]
result "another seed, another order" $?
exit $failed
