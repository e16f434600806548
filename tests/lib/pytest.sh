# SPDX-License-Identifier: ISC
# shellcheck shell=bash
# For tests/suites, from the top of the tree: run pytest, count, and sum up.
#
#	. tests/lib/pytest.sh
#	run_pytest [ARGUMENT...]	# adds to $passed and $failed; what was said
#					# is in the file $pytest_log
#	end_suite			# the last line, and the exit status
#
# What was skipped is named by lines "SKIP test: reason".
passed=0 failed=0
pytest_log=$(mktemp) || exit 1
trap 'rm -f "$pytest_log"' EXIT

run_pytest() {
	local rc last p f
	/usr/bin/python3 -B -m pytest -q --tb=short -rs -p no:cacheprovider \
		"$@" 2>&1 | tee "$pytest_log"
	rc=${PIPESTATUS[0]}
	sed -nE 's/^SKIPPED \[[0-9]+\] ([^ ]*): (.*)/SKIP \1: \2/p' \
		"$pytest_log"
	last=$(tail -n 1 "$pytest_log")
	p=$(grep -oE '[0-9]+ passed' <<<"$last" | grep -oE '[0-9]+')
	f=$(grep -oE '[0-9]+ (failed|error)' <<<"$last" |
		awk '{ n += $1 } END { print n + 0 }')
	[ "$rc" -eq 0 ] || [ "$f" -gt 0 ] || f=1
	passed=$((passed + ${p:-0})) failed=$((failed + f))
}

end_suite() {
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
	exit
}
