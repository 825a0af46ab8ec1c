#!/usr/bin/env bash
# Check the machine-checked proofs: `scripts/proofs.sh [SOURCES [BUILD]]`, by default proofs/ and
# build/proofs/. Installs Coq where it is missing (root on Debian or Ubuntu); else says what to install.
#
# Fails if a file does not compile, if anything is admitted, or if a theorem that Main.v names rests on
# an axiom. Compiled files lie in BUILD; what has not changed since is not checked again.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sources=${1:-$root/proofs}
build=${2:-$root/build/proofs}

if ! command -v coqc >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "No coqc on PATH: installing Coq (Debian package coq, 250 MB) …"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends coq >/dev/null
    else
        echo "The proofs need Coq 8.16 or newer, and there is no coqc on PATH." >&2
        echo "Install it: apt-get install --no-install-recommends coq (Debian, as root)," >&2
        echo "brew install coq (macOS), or see https://coq.inria.fr/download." >&2
        exit 1
    fi
fi

if admitted=$(grep -nE '\<Admitted\.|^ *(Axiom|Parameter|Conjecture)\>' "$sources"/*.v); then
    printf 'Not proved:\n%s\n' "$admitted" >&2
    exit 1
fi

mapfile -t files < <(grep '\.v$' "$sources/_CoqProject")
mkdir -p "$build"
if [ -e "$build/Main.out" ] && [ -z "$(find "$sources" "$0" -newer "$build/Main.out")" ]; then
    echo "The proofs are as they were when they were checked."
else
    rm -f "$build/Main.out"
    cp "$sources"/*.v "$build"
    for file in "${files[@]}"; do
        (cd "$build" && coqc -Q . Deltafix "$file" >"${file%.v}.log")
    done
    mv "$build/Main.log" "$build/Main.out"
fi

theorems=$(grep -c '^Print Assumptions' "$sources/Main.v")
closed=$(grep -c '^Closed under the global context$' "$build/Main.out") || true
if [ "$closed" != "$theorems" ]; then
    echo "Of $theorems theorems, $((theorems - closed)) rest on axioms:" >&2
    cat "$build/Main.out" >&2
    rm "$build/Main.out"
    exit 1
fi
echo "$theorems theorems, no axioms."
