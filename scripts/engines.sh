# engines.sh NAME[@VERSION]…: install the engines' real libraries for the tests, at the versions pinned in engines/.
# Each goes to its own virtual environment .engines/NAME[@VERSION]. An engine that is already installed is skipped.
set -eu
cd "$(dirname "$0")/.."

for one; do
    pins=engines/$one.txt
    if ! [ -f "$pins" ]; then
        printf 'Error: there is no %s\nHint: known: %s\n' "$pins" "$(cd engines && echo *.txt)" >&2
        exit 1
    fi
    place=.engines/$one
    stamp=$({ pwd; cat "$pins"; } | cksum)
    if [ "$(cat "$place/stamp" 2>/dev/null)" = "$stamp" ] && "$place/bin/python" -c pass 2>/dev/null; then continue; fi
    echo "installing $one into $place"
    .venv/bin/python -m venv --clear --without-pip "$place"
    .venv/bin/python -m pip --python "$place/bin/python" install -q --disable-pip-version-check --require-hashes -r "$pins"
    printf '%s\n' "$stamp" >"$place/stamp"
done
