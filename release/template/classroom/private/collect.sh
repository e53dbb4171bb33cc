#!/usr/bin/env bash
# Fetches the repositories of an assignment into submissions/, each at its last commit before a time.
#
#     bash collect.sh ASSIGNMENT [UNTIL]        with OWNER and GH_TOKEN in the environment
set -euo pipefail
assignment=$1
until=${2:-}

mkdir -p submissions
gh api --paginate "orgs/$OWNER/repos?per_page=100" --jq '.[].name' |
  { grep "^$assignment-" || true; } > repositories.txt
if [ ! -s repositories.txt ]; then
  echo "::error::$OWNER has no repository whose name begins with $assignment-"
  exit 1
fi
while read -r name; do
  gh repo clone "$OWNER/$name" "submissions/$name" -- --quiet < /dev/null
  if [ -n "$until" ]; then
    commit=$(git -C "submissions/$name" rev-list -1 --before="$until" HEAD)
    if [ -z "$commit" ]; then
      echo "::warning::$name has no commit before $until"
      rm -rf "submissions/${name:?}"
      continue
    fi
    git -C "submissions/$name" checkout --quiet --detach "$commit"
  fi
done < repositories.txt
