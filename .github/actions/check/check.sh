#!/usr/bin/env bash
# Checks recorded runs against a context budget, and against the same runs of another commit. For any CI that has git.
#
#   CHECK_PATHS      session files or folders below the working directory, one a line
#   CHECK_ARGUMENTS  options of `turnscope check`
#   CHECK_BASE       a commit or branch to compare with; empty: nothing is compared
#   CHECK_JUNIT      the JUnit report to write; default: turnscope-junit.xml
#   CHECK_MARKDOWN   the comment to write; default: turnscope-comment.md
#
# Ends with the exit code of `turnscope check`: 1 where a run breaks a limit, 2 where one cannot be read.
set -euo pipefail
junit=${CHECK_JUNIT:-turnscope-junit.xml} markdown=${CHECK_MARKDOWN:-turnscope-comment.md}
mapfile -t paths < <(grep -v '^[[:space:]]*$' <<<"${CHECK_PATHS:?names no path}")
read -ra arguments <<<"${CHECK_ARGUMENTS:-}"

base=()
if [[ -n ${CHECK_BASE:-} ]]; then
  work=$(mktemp -d)
  trap 'git worktree remove --force "$work/base" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
  find_commit() { git rev-parse --quiet --verify --end-of-options "$CHECK_BASE^{commit}"; }
  find_commit >/dev/null || git fetch --quiet --depth 1 -- origin "$CHECK_BASE"
  commit=$(find_commit || git rev-parse FETCH_HEAD)
  git worktree add --quiet --detach "$work/base" "$commit"
  base=(--base "$work/base/$(git rev-parse --show-prefix)")
fi

code=0
turnscope check "${arguments[@]}" --junit "$junit" --markdown "$markdown" "${base[@]}" -- "${paths[@]}" || code=$?
if [[ -n ${GITHUB_STEP_SUMMARY:-} && -s $markdown ]]; then cat "$markdown" >>"$GITHUB_STEP_SUMMARY"; fi
exit "$code"
