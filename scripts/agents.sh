# agents.sh NAME[@VERSION]…: install the real coding agents for the tests, at their pinned version or at VERSION.
# Each goes to .agents/NAME or .agents/NAME@VERSION, nothing is installed globally. An agent that is already installed is skipped.
set -eu
cd "$(dirname "$0")/.."

package() {
    case $1 in
    claude) echo @anthropic-ai/claude-code@2.1.325 ;;
    codex) echo @openai/codex@0.166.0 ;;
    opencode) echo opencode-ai@1.18.33 ;;
    gemini) echo @google/gemini-cli@0.61.0 ;;
    pi) echo @mariozechner/pi-coding-agent@0.73.1 ;;
    aider) echo aider-chat==0.86.2 ;;
    *)
        printf 'Error: no version of %s is pinned\n' "$1" >&2
        exit 1
        ;;
    esac
}

for one; do
    name=${one%%@*}
    wanted=$(package "$name")
    case $one in *@*) wanted=${wanted%"${wanted##*[@=]}"}${one#*@} ;; esac
    place=.agents/$one
    if [ "$(cat "$place/version" 2>/dev/null)" = "$wanted" ]; then continue; fi
    echo "installing $wanted"
    rm -rf "$place"
    mkdir -p "$place/node_modules/.bin"
    if [ "$name" = aider ]; then
        .venv/bin/python -m venv "$place/venv"
        "$place/venv/bin/python" -m pip install -q --disable-pip-version-check "$wanted"
        ln -s ../../venv/bin/aider "$place/node_modules/.bin/aider"
    else
        # The packages require newer versions of node than they need, so show only errors of npm.
        npm install --prefix "$place" --no-audit --no-fund --loglevel=error "$wanted" >/dev/null
    fi
    "$place/node_modules/.bin/$name" --version >/dev/null
    printf '%s\n' "$wanted" >"$place/version"
done
