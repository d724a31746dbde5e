# pictures.sh [session|report|board]: make the pictures of the documentation again, from a real session and a real run on this machine.
# It needs Chromium, bubblewrap and Claude Code, which `make pictures` installs. The model is scripted, so no account is needed.
set -eu
cd "$(dirname "$0")/.."
images=$PWD/docs/images
root=$PWD
place=$(mktemp -d "${TMPDIR:-/tmp}/mngr-pictures.XXXXXX")
server=

clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    if [ -L "$place/home/.mngr/tmux.socket" ]; then
        tmux -S "$(readlink "$place/home/.mngr/tmux.socket")" kill-server 2>/dev/null || true
    fi
    rm -rf "$place"
}
trap clean_up EXIT
mkdir -p "$images" "$place/home" "$place/shop"
export HOME="$place/home" MNGR_HOME="$place/home/.mngr" PATH="$root/.venv/bin:$root/.agents/claude/node_modules/.bin:$PATH"
git config --global user.name Ann
git config --global user.email ann@example.invalid
git config --global init.defaultBranch main

picture_session() {
    cd "$place/shop"
    git init -q .
    echo 'echo "total: $(( $(echo "$@" | tr " " -) ))"' >cart.sh
    printf '%s\n' 'test "$(sh cart.sh 3 4)" = "total: 7" && echo "1 passed"' >test.sh
    git add .
    git commit -q -m 'A shop whose cart is wrong'

    cat >"$place/script.json" <<'END'
{"sessions": {"docs": [{"delay": 60, "text": "Done."}], "fix": [
 {"delay": 1.5, "text": "The cart subtracts prices. I will add them.", "sh": "sed -i 's/ -) ))/ +) ))/' cart.sh && git commit -qam 'Add prices instead of subtracting them'"},
 {"text": "The tests pass now."},
 {"delay": 0.5, "text": "A test for the empty cart.", "sh": "echo 'test \"$(sh cart.sh 0)\" = \"total: 0\" && echo \"2 passed\"' >> test.sh && git commit -qam 'Test the empty cart'"},
 {"text": "Done: test.sh checks the empty cart, too."}]}}
END
    mngr model-server "$place/script.json" >"$place/url" &
    server=$!
    mngr -q config set commands.create.connect false
    until [ -s "$place/url" ]; do sleep 0.1; done
    export ANTHROPIC_AUTH_TOKEN=any MODEL="$(head -n 1 "$place/url")"

    timeout 120 python -m asciinema rec --quiet --overwrite --cols 88 --rows 24 -c "sh $root/scripts/session.sh" "$place/session.cast"
    sed "s|$place/home|/home/ann|g" "$place/session.cast" >"$place/shown.cast"
    python "$root/scripts/cast_to_svg.py" "$place/shown.cast" "$images/session.svg"
}

picture_report() {
    cd "$place"
    mngr demo --dir "$place/pantry" --no-open >/dev/null
    PYTHONPATH="$root" python "$root/scripts/photograph_report.py" "$place/pantry/.mngr/runs/"*/report "$images"
}

picture_board() {
    python "$root/scripts/photograph_board.py" "$images/board.svg"
}

case ${1:-all} in
session) picture_session ;;
report) picture_report ;;
board) picture_board ;;
all)
    picture_session
    picture_report
    picture_board
    ;;
esac
ls -l "$images"
