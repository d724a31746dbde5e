# demo.sh [TEST…]: a small real session on agents of this machine, in a directory of its own that is gone afterwards.
# Needs git, tmux and mngr on the PATH; no account, no model, no network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
only=$* # tests of the sample project; all without
place=$(mktemp -d "${TMPDIR:-/tmp}/mngr-demo.XXXXXX")
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
HOME=$place MNGR_HOME=$place/.mngr
export HOME MNGR_HOME

clean_up() {
    if [ -L "$MNGR_HOME/tmux.socket" ]; then
        socket=$(readlink "$MNGR_HOME/tmux.socket")
        tmux -S "$socket" kill-server 2>/dev/null || true
        rm -f "$socket"
    fi
    rm -rf "$place"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say() { printf '\n# %s\n' "$1"; }
run() {
    printf '$ %s\n' "$1"
    eval "$1"
}

mkdir "$place/shop"
cd "$place/shop"
git init -q .
git config user.name Demo
git config user.email demo@example.invalid
echo 'echo "helo world"' >greet.sh
echo 'test "$(sh greet.sh)" = "hello world"' >test.sh
cat >fix.json <<'EOF'
[
  {"write": {"path": "greet.sh", "content": "echo \"hello world\"\n"}},
  {"commit": "Greet the world, spelt right"},
  {"reply": "greet.sh said helo; it says hello now."}
]
EOF
git add .
git commit -q -m 'A shop with a mistake'

say 'A shop, and in it a test that fails. Three agents look at it, each in its own copy on its own branch.'
run 'mngr create tests -- sh test.sh'
run 'mngr create fixer player --label task=bug -- fix.json'
run 'mngr create counter --transfer mirror -- sh -c "wc -l *.sh > \$MNGR_OUTPUT_DIR/lines.txt; sleep 1000"'

say 'One runs the test, one is a scripted agent that waits for work, one is in a repository of its own.'
run 'mngr wait tests'
run 'mngr list'
run 'mngr explain tests'

say 'Tell the fixer what to do; the command returns when the message has arrived and its turn is over.'
run 'mngr message fixer -m "the test fails, please mend it" --wait --timeout 10s'
run 'mngr transcript fixer'
run 'mngr diff fixer'

say 'Bring the work home and see for ourselves.'
run 'mngr pull fixer --merge'
run 'sh test.sh && echo the test passes'
run 'mngr pull counter'
run 'cat .mngr/outputs/counter/lines.txt'

say 'Clean up. Nothing is lost: what is destroyed lies in the graveyard, conversation included.'
run 'mngr destroy --force tests fixer counter'
run 'mngr list'
run 'mngr undestroy fixer'
run 'mngr message fixer -m "are you still there?" --start --wait --timeout 10s'
run 'mngr transcript fixer --format "{role}: {text}"'
run 'mngr list --fields name,state,branch,labels'

say 'And now many at once: a small program with a tutorial, a test for every block of it, and a dozen seeded troubles.'
cp -R "$here/../src/mngr/sample" "$place/pantry"
cd "$place/pantry"
git init -q .
git config user.name Demo
git config user.email demo@example.invalid
git add .
git commit -q -m 'A pantry'
run 'mngr tutorial check || true'
say 'Each test is run untouched, then gets an agent, here one that needs no model. What it claims is run again by us.'
run "mngr tmr run $only --runs 1 --name demo || test \$? -eq 4"
run 'mngr tmr status demo --format "{outcome}\t{verdict}\t{task}" | sort'
say 'One of them: what the agent claims, what we saw, and its commit.'
run 'cat .mngr/runs/demo/tasks/test-list-sorted-*/result.json'
run 'head -n 5 .mngr/runs/demo/tasks/test-list-sorted-*/receipt.json'
run 'git -C .mngr/runs/demo/repo.git show --stat --format=%s "$(git -C .mngr/runs/demo/repo.git for-each-ref --format="%(refname)" "refs/mngr/runs/demo/test-list-sorted-*")"'

say "That was a real session; $place is gone now. Next: README.md, tutorial.sh, mngr --help"
