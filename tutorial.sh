#!/bin/sh

# mngr, feature by feature. Each block below is a comment, followed by the commands that it explains.
# `sh tutorial.sh` runs everything from top to bottom in a temporary directory. It needs no account, model or network.

set -eu

# create a scratch repository with one commit, and a separate home for mngr
cd "$(mktemp -d)"
export MNGR_HOME="$PWD/home"
git init -q shop
cd shop
echo 'a shop' > README.md
git add README.md
git commit -qm 'Open the shop'

##################################################
# The first agent
##################################################

# run a command as an agent, in its own worktree and on its own branch; create returns as soon as the command runs
mngr create foo -- sh -c 'echo hello > hello.txt; git add hello.txt; git commit -qm "Say hello"; sleep 1000'

# list the agents
mngr list

# wait until the agent has made its commit, then show its changes
until mngr diff foo --committed --name-only | grep hello.txt; do sleep 0.1; done
mngr diff foo

# show only how much the agent changed
mngr diff foo --stat

# show the agent's screen without attaching to it
mngr capture foo

# attach with your own terminal program: mngr runs any command and passes the agent in environment variables
mngr connect foo --connect-command 'echo "the work is in $MNGR_WORK_DIR"'

# run a command in the agent's work dir, with the agent's environment; mngr exits with the command's exit code
mngr exec foo -- git log --oneline -1

# merge the agent's work into the current branch
mngr pull foo --merge

# stop the agent's process and keep everything else
mngr stop foo

# start the agent again
mngr start foo

# destroy the agent; a running agent needs --force
mngr destroy --force foo

# list the destroyed agents and restore one
mngr undestroy --list
mngr undestroy foo

##################################################
# Create
##################################################

# create an agent without a name: mngr chooses one
mngr create --label tutorial=yes -- sleep 1000

# create several agents at the same time: w-1, w-2 and w-3
mngr create w --count 3 --label team=red -- sleep 1000

# start from another commit and choose the name of the branch; * stands for the agent's name
git tag start
mngr create past --branch 'start:work/*' -- sleep 1000

# work on an existing branch
git branch topic
mngr create taker --branch topic -- sleep 1000

# give the agent its own repository, which shares nothing with yours
mngr create apart --transfer mirror -- sh -c 'echo done > result.txt; git add .; git commit -qm "Done"'
mngr wait apart --state DONE --timeout 20s

# give the agent a copy of the files without git
mngr create files --transfer copy -- sleep 1000

# let the agent work in your own directory, which mngr never deletes
mngr create here --transfer none -- sleep 1000

# mngr refuses to create an agent while you have uncommitted files; --dirty include copies them to the agent
echo draft > draft.txt
mngr create drafts --dirty include -- sleep 1000
mngr exec drafts -- cat draft.txt
rm draft.txt

# set environment variables: a new one, one of yours, and some from a file; no value appears on the agent's command line
export GREETING=moin
printf 'TOKEN="a secret with $ and spaces"\n' > ../secrets.env
mngr create vars --env MODE=fast --pass-env GREETING --env-file ../secrets.env -- sleep 1000
mngr exec vars -- sh -c 'echo "$MODE, $GREETING, ${#TOKEN} characters"'

# attach as soon as the agent runs, here with a command instead of a terminal
mngr create seen --connect --connect-command 'echo "$MNGR_AGENT_NAME is there"' -- sleep 1000

# open another tmux window beside the agent
mngr create server -w logs='tail -f /dev/null' -- sleep 1000

# run the agent in a sandbox, if bubblewrap is installed: it sees the system and its own copy, and has no network
if command -v bwrap; then mngr create boxed --sandbox -- sleep 1000; fi

# let mngr stop the agent after an hour without activity
mngr create idler --idle-timeout 1h -- sleep 1000

# start from the work of another agent
mngr create second --from apart -- sleep 1000

# start from the URL of a repository
git clone -q --bare . ../elsewhere.git
mngr create remote --from "file://$PWD/../elsewhere.git" -- sleep 1000

# use the existing agent with this name, and start it if it is stopped
mngr create foo --reuse -- sleep 1000

# save a set of options as a template and use it
mngr config set templates.quick.transfer copy
mngr config set templates.quick.label team=blue
mngr create blue -t quick -- sleep 1000

##################################################
# List
##################################################

# list agents by state, label, project or host
mngr list --state RUNNING --label team=red
mngr list --host local --project shop --label tutorial

# list agents that match an expression
mngr list --filter 'labels.team == red and not (state == DONE)'

# choose the columns and the order of the rows
mngr list --fields name,state,labels,branch --sort -name

# show which agents have commits that you have not pulled, or uncommitted files
mngr list --git

# print the list for other programs: as JSON, in your own format, or only the ids
mngr list --format json
mngr list --format '{name} is {state} on {branch}'
mngr list --ids

# list the hosts instead of the agents
mngr list --hosts

# watch the list and print every change; timeout ends this example after a second
timeout 1 mngr list --watch --format '{name} {state}' || test $? -eq 124

##################################################
# Talk
##################################################

# create a scripted agent: it needs no model, accepts messages and plays the given steps
cat > ../steps.json <<'EOF'
[{"reply": "good morning"}, "wait",
 {"write": {"path": "poem.txt", "content": "roses are red\n"}}, {"commit": "Write a poem"}, {"ask": "another one?"},
 {"reply": "as you like"}]
EOF
mngr create poet player -- ../steps.json

# send a message; mngr proves that it arrived
mngr message poet -m 'hello'

# send a message and wait until the agent's turn ends
mngr message poet -m 'a poem, please' --wait --timeout 20s

# send a message from standard input to several agents
mngr create other player
echo 'good morning to all' | mngr message poet other --wait --timeout 20s

# send a message to a stopped agent: --start starts it first
mngr stop other
mngr message other --start -m 'are you there?' --wait --timeout 20s

# create an agent and send its first message, from the command line or from a file
mngr create third player -m 'what is your name?'
echo 'and yours?' > ../question.txt
mngr create fourth player --message-file ../question.txt

# show the agent's conversation
mngr transcript poet

# show the model costs of all agents by day; the scripted agent has no model
mngr usage --by day

# show everything that happened to an agent, then only some events
mngr events poet
mngr events poet --type message --since 10m --format '{at} {type}'

# follow the events of all agents; timeout ends this example after a second
timeout 1 mngr events --follow || test $? -eq 124

# explain why the agent has its state
mngr explain poet

# show the agent that has waited longest for you, then attach to it
mngr next --print
mngr next --connect-command 'echo "$MNGR_AGENT_NAME waits"'

# wait until all agents reach a state, or until the first one does
mngr wait poet other --state WAITING --timeout 20s
mngr wait poet foo --any --state WAITING,DONE --timeout 20s

##################################################
# Exchange work
##################################################

# fetch the branch of an agent that has its own repository; mngr checks what arrives
mngr pull apart
git log --oneline -1 mngr/apart

# pull also fetches the files in the agent's output directory
mngr create reporter -- sh -c 'echo "all is well" > "$MNGR_OUTPUT_DIR/report.txt"'
mngr wait reporter --state DONE --timeout 20s
mngr pull reporter
cat .mngr/outputs/reporter/report.txt

# copy a file from an agent, and another one to an agent
mngr pull apart:result.txt ..
mngr push ../result.txt foo:results/

# merge your new commits into an agent's branch
git commit -q --allow-empty -m 'Meanwhile'
mngr push apart

# fetch from an agent with git itself
git fetch -q mngr::apart mngr/apart
git log --oneline -1 FETCH_HEAD

# let ssh, rsync, scp and editors reach every agent: mngr writes one ssh entry per agent and keeps the file up to date
mngr ssh-config --write
mngr ssh-config --format '{alias}'

# run the command of such an entry: an sshd for one connection that listens on no port; without a client it ends at once
mngr pipe foo < /dev/null || true

##################################################
# Change, clone and destroy agents
##################################################

# rename an agent; its id, branch and work dir stay the same
mngr rename apart mirror
mngr list --filter 'name == mirror'

# add labels, and remove one
mngr label mirror w-1 team=green urgent=yes
mngr label mirror urgent-

# stop an agent after half an hour without activity or after a day, and show its limits
mngr limit w-1 --idle 30m --lifetime 1d
mngr limit w-1

# remove the limits
mngr limit w-1 --idle none --lifetime none

# clone an agent with everything it has, uncommitted files and conversation included
mngr clone poet poet-2
mngr transcript poet-2

# if ssh knows a host called box, move the agent there with its uncommitted files and its conversation, and back
if ssh -o BatchMode=yes -o ConnectTimeout=2 box true 2>/dev/null; then mngr migrate poet-2 @box && mngr migrate poet-2 @local; fi

# save the agent's state under a name
mngr snapshot create poet before
mngr snapshot list

# create an agent from the snapshot without starting it
mngr snapshot restore before again --no-start

# delete the snapshot
mngr snapshot destroy before

# stop or destroy several agents, by name or from a list
mngr stop w-1 w-2
mngr list --ids --label team=red | mngr stop -
mngr list --ids --label team=red --state STOPPED | mngr destroy -

# restore a destroyed agent under another name
mngr destroy --force seen
mngr undestroy seen --as seen-again

# clean up after interrupted commands and delete expired trash; --dry-run only shows what gc would do
mngr gc --dry-run
mngr gc

##################################################
# Tests
##################################################

# show the blocks of a tutorial, which is a script like this one; each block is known by its text
cat > ../tour.sh <<'EOF'
# see all agents
mngr list

# which mngr is this?
mngr version
EOF
mngr tutorial blocks ../tour.sh

# find blocks that no test cites; here it is one of two, so the check fails
mkdir ../tests
cat > ../tests/test_tour.py <<'EOF'
def test_list_shows_agents(e2e):
    e2e.write_tutorial_block("""
        # see all agents
        mngr list
    """)
    assert e2e.run("mngr list").exit_code == 0
EOF
mngr tutorial check ../tour.sh ../tests || test $? -eq 1

# update the citation after the script has changed
printf '# see all agents\nmngr list --ids\n' > ../tour.sh
mngr tutorial check ../tour.sh ../tests --fix
mngr tutorial check ../tour.sh ../tests

# let an agent write the missing tests; the agent kind mechanic needs no model: it runs each block and records its output
# (project.pytest is the command that loads the tests; this directory has none)
cp ../tour.sh tutorial.sh
mkdir -p tests
git add tutorial.sh
git commit -qm 'A tour'
mngr tutorial sync tutorial.sh tests -S project.pytest=:

# let an agent propose blocks for a heading without commands; mngr tries each block; here a scripted agent does the work
printf '##########\n# Greetings\n##########\n' > blanks.sh
git add blanks.sh
git commit -qm 'A blank'
mngr tutorial fill blanks.sh --program git --agent player -- '[
    {"write": {"path": "blanks.sh", "append": "\n# say hello\necho hello\n"}},
    {"commit": "[FIX_TUTORIAL] Say hello"}
]'

# install a slash command for Claude Code that updates the tests
mngr tutorial install-command claude

# start a tutorial in a project that has none
git init -q ../other
(cd ../other && mngr tutorial init --program git)

# show which part of a program its tutorial shows and its tests run
mngr tutorial coverage ../tour.sh ../tests --program mngr

##################################################
# Many agents
##################################################

# try the whole test map-reduce on a bundled sample project: one agent per test, one branch, PR.md and a report; here for one test
mngr demo tests/test_look.py::test_list_sorted --dir ../pantry --no-open

# run one agent per item; mngr collects the files in its output directory and its commits
mngr map red green blue -- sh -c 'echo "$0 is a colour" > "$MNGR_OUTPUT_DIR/said.txt"' {item}

# send each agent a prompt, two agents at a time; mngr reminds an agent that has not written the required file
cat > ../paint.json <<'EOF'
[{"reply": "a moment"}, "wait", {"write": {"path": "$MNGR_OUTPUT_DIR/done.txt", "content": "painted\n"}}]
EOF
mngr map door wall --name paint --agent player -p 'paint the {item}' --output done.txt --max-agents 2 -- ../paint.json

# continue a run after a crash, a reboot or Ctrl-C; mngr does not repeat finished tasks
mngr map --resume paint

# create a project with an outdated test: one word is wrong
mkdir -p ../toy/tests
echo "echo 'welcome to the new shop'" > ../toy/greet.sh
cat > ../toy/tests/test_greet.py <<'EOF'
from pathlib import Path

from mngr.e2e import E2eSession, expect

GREET = Path(__file__).parents[1] / "greet.sh"


def test_greet(e2e: E2eSession) -> None:
    result = e2e.run(f"sh {GREET}")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("welcome to the old shop")
EOF
git -C ../toy init -q
git -C ../toy add .
git -C ../toy commit -qm 'A toy'

# run one agent per test, here one that needs no model; mngr re-runs every claim, and only that result counts
cd ../toy
mngr tmr run --name greet

# show the claims and what mngr saw; list all runs; show everything that happened in a run
mngr tmr status greet
mngr tmr list
mngr tmr attach greet

# write the report as pages that open from disk, with claims, receipts, diffs, recordings and a timeline; then export it as a zip file
mngr tmr report greet
mngr tmr report greet --export ../greet.zip

# list the changes, each with its author, its verdict and its conflicts; then show one of them
mngr tmr changes greet
mngr tmr changes greet "$(mngr tmr changes greet --format '{id}')" --diff

# show the branch of the run and its pull request text; tests and documents are one commit, and each fix is its own commit
git log --oneline mngr/greet/integrated
cat .mngr/runs/greet/PR.md

# exclude a change and say why; later agents get the reason; then include the change again: mngr does not repeat runs that it knows
mngr tmr integrate greet --without "$(mngr tmr changes greet --format '{id}')" --reason 'the old shop it is'
mngr tmr integrate greet --with "$(mngr tmr changes greet --format '{id}')"

# continue a run; mngr does not repeat finished tasks
mngr tmr resume greet

# give a task to a new agent, with a hint
mngr tmr retry tests/test_greet.py::test_greet -m 'mind the word'

# ask the author of a change to revise it, in its own conversation; the agent here cannot answer messages, so this fails
mngr tmr redo "$(mngr tmr changes greet --format '{id}')" -m 'leave out the comma' || test $? -eq 1

# re-run the tests of a branch and detect weakened ones; this branch removes a check, so mngr refutes the test
git switch -q -c easier
sed -i '/welcome to the old shop/d' tests/test_greet.py
git commit -qam 'Easier'
git switch -q -
mngr tmr verify easier || test $? -eq 4

# repeat the verification behind a receipt and compare the results
mngr tmr verify --receipt .mngr/runs/greet/tasks/*/receipt.json

# show what the next run already knows, the flaky tests and the reasons for exclusions, then forget the results
mngr tmr memory list
mngr tmr memory flaky
mngr tmr memory reasons
mngr tmr memory forget

# stop the run and all its agents at once; they keep everything
mngr tmr stop greet

# check whether a test notices when its program does nothing; the test here does not, so the audit fails and names the gap
cat > tests/test_polite.py <<'EOF'
from pathlib import Path

from mngr.e2e import E2eSession, expect

GREET = Path(__file__).parents[1] / "greet.sh"


def test_polite(e2e: E2eSession) -> None:
    expect(e2e.run(f"sh {GREET} --politely")).to_succeed()
EOF
mngr e2e audit tests/test_polite.py --program greet.sh || test $? -eq 4

# move the agents of a run to the trash; results, receipts and commits stay in the folder of the run
mngr tmr clean greet --dry-run
mngr tmr clean greet
cd ../shop

##################################################
# Set-up
##################################################

# inspect the project and write its settings: how to make a fresh copy runnable
mngr init --dry-run
mngr init

# review the commands in the settings of a project that somebody else wrote, and allow them
mngr trust --show
mngr trust --yes

# list all settings and their sources
mngr config list
mngr config path

# write, read and remove a setting
mngr config set stop.grace 1s
mngr config get stop.grace
mngr config unset stop.grace

# change a setting only for yourself in this project; the project's own settings stay the same
mngr config set project.setup 'echo set up' --local
mngr config unset project.setup

# change the default of an option of any command
mngr config set commands.list.fields name,state,branch
mngr list
mngr config unset commands.list.fields

# change a setting for one command only
mngr -S stop.grace=0.5s stop poet-2

# check what this machine has and what is missing
mngr doctor

# list the installed plugins
mngr plugin list

# start a scripted model for tests and point coding agents at the URL that it prints; timeout ends this example after a second
timeout 1 mngr model-server '[{"sh": "echo hi > hi.txt"}, {"text": "done"}]' || test $? -eq 124

# export pages with the transcripts and recordings of tests
mkdir -p .mngr/e2e
mngr web --e2e .mngr/e2e --export ../pages

# write a completion script for your shell
mngr completion bash > ../mngr.bash

# show the help of mngr, of a command and of a topic
mngr --help
mngr help create
mngr help states
mngr list --help

# print the version of mngr
mngr version

# destroy all agents and delete the scratch directory
mngr list --ids | mngr destroy --force -
rm -rf "$(dirname "$PWD")"
