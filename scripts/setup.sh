# setup.sh [PROGRAM=PACKAGE]…: install the programs mngr needs and the named ones, create .venv with pinned packages and mngr.
# Completed steps are skipped, so a second run is quick.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin # servers such as sshd are there, also for ordinary users

fail() {
    printf 'Error: %s\nHint: %s\n' "$1" "$2" >&2
    exit 1
}

# Install packages as root. Other users get the command to run.
install() {
    if ! command -v apt-get >/dev/null 2>&1; then
        fail "missing: $*" "install them with your package manager, for example: brew install $*"
    fi
    if [ "$(id -u)" != 0 ]; then
        fail "missing: $*" "run: sudo apt-get install -y $*"
    fi
    echo "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && return
    apt-get update -qq >/dev/null
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Print the path of the interpreter itself. A version manager's shim can add 100 ms to each start.
find_python() {
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        found=$("$name" -c 'import sys; print(sys._base_executable if sys.version_info >= (3, 11) else "")' 2>/dev/null) || continue
        [ -n "$found" ] && [ -x "$found" ] || continue
        echo "$found"
        return
    done
}

missing=
for pair in git=git tmux=tmux tar=tar flock=util-linux pkill=procps awk=mawk "$@"; do
    command -v "${pair%%=*}" >/dev/null 2>&1 && continue
    case "$missing " in *" ${pair#*=} "*) ;; *) missing="$missing ${pair#*=}" ;; esac
done
[ -z "$missing" ] || install $missing

stamp=$({ pwd; cat requirements.txt pyproject.toml; } | cksum)
if ! { [ -f .venv/stamp ] && [ "$(cat .venv/stamp)" = "$stamp" ] && .venv/bin/python -c pass; } 2>/dev/null; then
    python=$(find_python)
    [ -n "$python" ] || fail "there is no Python 3.11 or newer" "install one: apt-get install python3"
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        install "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    fi
    echo "making .venv with $python"
    "$python" -m venv --clear .venv
    .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.txt
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
    printf '%s\n' "$stamp" >.venv/stamp
fi

# Download the player for recordings from the npm registry. Without npm, pages show recordings as text.
player=asciinema-player@3.17.0
static=src/mngr/web/static
if [ "$(cat .venv/player 2>/dev/null)" != "$player" ] || ! [ -f "$static/asciinema-player.css" ]; then
    if command -v npm >/dev/null 2>&1; then
        new=$(mktemp -d)
        (cd "$new" && npm pack --silent "$player" >/dev/null 2>&1)
        echo "d03ef67fc2f32a7aa5177c0b64650c7c8fd234ef2d3e4b34886632bb3dd58c5c  $new/asciinema-player-3.17.0.tgz" | sha256sum -c --quiet
        tar -xzf "$new"/*.tgz -C "$new"
        cp "$new/package/dist/bundle/asciinema-player.min.js" "$new/package/dist/bundle/asciinema-player.css" "$static/"
        rm -rf "$new"
        printf '%s\n' "$player" >.venv/player
    else
        echo "npm is not installed: recordings will be shown as text"
    fi
fi
.venv/bin/python -m compileall -q src
