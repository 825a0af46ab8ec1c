#!/usr/bin/env bash
# What HEAD leaves dead that BASE did not, as Markdown on standard output. Without BASE it begins
# where the pull request does: at the first parent of the commit that GitHub merges it by, or where
# its branch left the branch that it goes to.
set -euo pipefail
cd "$FOLDER"

if [ -z "$BASE" ]; then
    if [[ "${GITHUB_REF-}" == refs/pull/*/merge ]] && git rev-parse --quiet --verify "$HEAD^2" > /dev/null; then
        BASE="$HEAD^1"
    elif [ -n "$BEGINS" ] && BASE=$(git merge-base "$BEGINS" "$HEAD"); then
        :
    else
        echo "::error title=deltafix::where the pull request begins is not in this checkout:" \
            "use actions/checkout with fetch-depth: 0, or give \`base\`" >&2
        exit 2
    fi
fi
read -ra options <<< "$OPTIONS"
deltafix churn . "$BASE..$HEAD" --quiet --sample 0 --format markdown "${options[@]}"
