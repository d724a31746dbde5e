# demo.sh [TEST…]: run a small, real session with local agents in a temporary directory. At the end only the last project remains,
# with its branch, pull request and report. If the demo fails, nothing remains.
# It needs git, tmux and mngr on the PATH, but no account, model or network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
only=$* # tests of the sample project; all tests if empty
place=$(mktemp -d "${TMPDIR:-/tmp}/mngr-demo.XXXXXX")
kept=
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
HOME=$place/home MNGR_HOME=$place/home/.mngr
mkdir "$HOME"
export HOME MNGR_HOME

clean_up() {
    if [ -L "$MNGR_HOME/tmux.socket" ]; then
        socket=$(readlink "$MNGR_HOME/tmux.socket")
        tmux -S "$socket" kill-server 2>/dev/null || true
        rm -f "$socket"
    fi
    rm -rf "$HOME" "$place/shop"
    [ -n "$kept" ] || rm -rf "$place"
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
  {"commit": "Correct the spelling of the greeting"},
  {"reply": "greet.sh printed helo. It prints hello now."}
]
EOF
git add .
git commit -q -m 'A shop with a bug'

say 'This project has a test that fails. Three agents work on it, each in its own copy on its own branch.'
run 'mngr create tests -- sh test.sh'
run 'mngr create fixer player --label task=bug -- fix.json'
run 'mngr create counter --transfer mirror -- sh -c "wc -l *.sh > \$MNGR_OUTPUT_DIR/lines.txt; sleep 1000"'

say 'The first agent runs the test, the second is a scripted agent that waits for a message, the third has its own repository.'
run 'mngr wait tests'
run 'mngr list'
run 'mngr explain tests'

say 'Tell the scripted agent what to do. The command returns when the agent has received the message and finished its turn.'
run 'mngr message fixer -m "the test fails, please repair it" --wait --timeout 10s'
run 'mngr transcript fixer'
run 'mngr diff fixer'

say 'Merge the work of the agent, and run the test here.'
run 'mngr pull fixer --merge'
run 'sh test.sh && echo the test passes'
run 'mngr pull counter'
run 'cat .mngr/outputs/counter/lines.txt'

say 'Destroy the agents. They go to the trash with their conversations, and mngr can restore them.'
run 'mngr destroy --force tests fixer counter'
run 'mngr list'
run 'mngr undestroy fixer'
run 'mngr message fixer -m "are you still there?" --start --wait --timeout 10s'
run 'mngr transcript fixer --format "{role}: {text}"'
run 'mngr list --fields name,state,branch,labels'

say 'Now a test run with many agents: a small program with a tutorial, a test for each block, and a dozen seeded problems.'
cp -R "$here/../src/mngr/testkit/sample" "$place/pantry"
cd "$place/pantry"
git init -q .
git config user.name Demo
git config user.email demo@example.invalid
git add .
git commit -q -m 'A pantry'
run 'mngr trust --yes'
run 'mngr tutorial check || true'
isolation=
if ! mngr doctor --format '{name} {status}' | grep -qx 'sandbox ok'; then
    isolation='--isolation off '
    say 'There is no sandbox for the tests on this machine. mngr doctor says why. These tests are part of mngr, so they run without a sandbox.'
fi
say 'mngr runs each unchanged test, and starts one agent per task. These agents need no model. mngr re-runs everything they claim.'
run "mngr tmr run $only ${isolation}--runs 1 --name demo || test \$? -eq 4"
run 'mngr tmr status demo --format "{outcome}\t{verdict}\t{task}" | sort'
say 'One task in detail: the claim of the agent, what mngr saw, and the commit.'
run 'cat .mngr/runs/demo/tasks/test-list-sorted-*/result.json && echo'
run 'head -n 5 .mngr/runs/demo/tasks/test-list-sorted-*/receipt.json'
run 'git -C .mngr/runs/demo/repo.git show --stat --format=%s "$(git -C .mngr/runs/demo/repo.git for-each-ref --format="%(refname)" "refs/mngr/runs/demo/test-list-sorted-*")"'

cause=$(ls .mngr/runs/demo/tasks | grep '^cause-' | head -n 1) || true
if [ -n "$cause" ]; then
    cat >"$HOME/answer.json" <<'EOF'
[
  {"edit": {"path": "src/pantry/amounts.py", "old": "return int(text)", "new": "return float(text) if '.' in text else int(text)"}},
  {"commit": "[FIX_IMPL] An amount may have a fraction"},
  {"result": {"outcome": "fixed", "before": "fail", "after": "pass", "summary": "`parse` accepted only whole numbers."}}
]
EOF
    say 'Several tests fail because of one bug. The rule-based agent cannot repair it. A scripted agent that knows the answer does.'
    run "mngr tmr retry $cause --agent player --agent-arg ~/answer.json || test \$? -eq 4"
fi

say 'All confirmed changes are on one branch, and mngr has run all tests on it. Your own branch has not changed.'
run 'git status --short --branch'
run 'git log --stat --format="%n%h %s" "$(git rev-parse HEAD)"..mngr/demo/integrated'
say 'The first lines of the pull request text:'
run 'sed -n 1,40p .mngr/runs/demo/PR.md'

kept=$place/pantry
say "That was a real session. All its agents are gone. The project with its branch is in $kept:
  cd $kept && git log --stat mngr/demo/integrated
  $kept/.mngr/runs/demo/PR.md
  $kept/.mngr/runs/demo/report/index.html (open it in a browser)
  rm -r $place (removes everything)
To keep such a project in a directory of your choice, run: mngr demo. Next: README.md, tutorial.sh, mngr --help"
