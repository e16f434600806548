# SPDX-License-Identifier: ISC
# shellcheck shell=bash
# For tests/suites, from the top of the tree: run pytest, count, and sum up.
#
#	. tests/lib/pytest.sh
#	run_pytest [ARGUMENT...]	# adds to $passed and $failed; what was said
#					# is in the file $pytest_log
#	end_suite			# the last line, and the exit status
#
# What was skipped is named by lines "SKIP test: reason". Where the machine is
# shared, a test's peer may be late: up to AGAIN_MAX tests of a run that failed
# are asked once more, and those that pass then are named by lines
# "FLAKY test: ..." (docs/decisions/0094). With --full nothing is asked twice.
AGAIN_MAX=3
passed=0 failed=0
pytest_log=$(mktemp) || exit 1
trap 'rm -f "$pytest_log"' EXIT

pytest_once() {
	/usr/bin/python3 -B -m pytest -q --tb=short -rsfE -p no:cacheprovider \
		--durations=8 --durations-min=5 "$@" 2>&1 | tee "$pytest_log"
	rc=${PIPESTATUS[0]}
	last=$(tail -n 1 "$pytest_log")
	f=$(grep -oE '[0-9]+ (failed|error)' <<<"$last" |
		awk '{ n += $1 } END { print n + 0 }')
	[ "$rc" -eq 0 ] || [ "$f" -gt 0 ] || f=1
}

# How many things went wrong: a fixture that fails takes all tests of its file.
causes() {
	{
		grep -E '^FAILED tests' "$pytest_log"
		sed -nE 's/^ERROR (tests[^:]*)::.*/\1/p' "$pytest_log" | sort -u
	} | wc -l
}

run_pytest() {
	local rc last f p again=() first test
	pytest_once "$@"
	sed -nE 's/^SKIPPED \[[0-9]+\] ([^ ]*): (.*)/SKIP \1: \2/p' \
		"$pytest_log"
	p=$(grep -oE '[0-9]+ passed' <<<"$last" | grep -oE '[0-9]+')
	p=${p:-0}
	mapfile -t again < <(sed -nE \
		'/^(FAILED|ERROR) tests/ { s/^[A-Z]+ //; s/ - .*//; p }' "$pytest_log")
	if [ "${POSTERN_FULL:-0}" = 0 ] && [ "$f" = "${#again[@]}" ] &&
	    [ "$f" -gt 0 ] && [ "$(causes)" -le $AGAIN_MAX ]; then
		first=$(grep -E '^(FAILED|ERROR) tests' "$pytest_log")
		pytest_once "${again[@]}"
		p=$((p + ${#again[@]} - f))
		for test in "${again[@]}"; do
			grep -qF " $test" <(grep -E '^(FAILED|ERROR) ' \
				"$pytest_log") ||
				grep -F " $test" <<<"$first" | head -n 1 |
				sed -E 's/^[A-Z]+ (.*)/FLAKY \1; passed when asked again/'
		done
	fi
	passed=$((passed + p)) failed=$((failed + f))
}

end_suite() {
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
	exit
}
