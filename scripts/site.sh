# site.sh [DIRECTORY]: build the documentation site in DIRECTORY (default: build/site) with pinned versions of mkdocs and its theme.
set -eu
cd "$(dirname "$0")/.."
output=${1:-$PWD/build/site}

stamp=$(cksum <docs/requirements.txt)
if [ "$(cat .venv/site/stamp 2>/dev/null)" != "$stamp" ]; then
    .venv/bin/python -m venv --clear .venv/site
    .venv/site/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r docs/requirements.txt
    printf '%s\n' "$stamp" >.venv/site/stamp
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The variable silences an advertisement of the theme. With --quiet, --strict would not count warnings.
if ! NO_MKDOCS_2_WARNING=1 .venv/site/bin/mkdocs build --strict --site-dir "$output" >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
echo "$output/index.html"
