#!/usr/bin/env bash
# Writes each student's points beside the commit that was graded, as a commit status.
set -euo pipefail

.venv/bin/python -m grader.report.github grades --statuses |
  while IFS=$'\t' read -r name state words; do
    commit=$(git -C "submissions/$name" rev-parse HEAD)
    gh api --silent "repos/$OWNER/$name/statuses/$commit" \
      -f state="$state" -f context=points -f description="$words" < /dev/null
  done
