#!/bin/sh

# This tutorial shows each feature of mngr. Each block below is a comment, followed by the commands that it explains.
# `sh tutorial.sh` runs all commands from top to bottom in a temporary directory. It needs no account, model or network.

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

# run a command as an agent, in its own worktree and on its own branch; mngr create does not wait for the end of the command
mngr create foo -- sh -c 'echo hello > hello.txt; git add hello.txt; git commit -qm "Say hello"; sleep 1000'

# list the agents
mngr list

# wait until the agent has made its commit, then show its changes
until mngr diff foo --committed --name-only | grep hello.txt; do sleep 0.1; done
mngr diff foo

# show the number of lines that the agent changed in each file
mngr diff foo --stat

# show the agent's screen without attaching to it
mngr capture foo

# run your own command instead of attaching; environment variables contain the agent's name and its work dir
mngr connect foo --connect-command 'echo "the work is in $MNGR_WORK_DIR"'

# run a command in the agent's work dir, with the agent's environment variables; mngr exits with the command's exit code
mngr exec foo -- git log --oneline -1

# merge the agent's work into the current branch
mngr pull foo --merge

# stop the agent's process; mngr keeps its files
mngr stop foo

# start the agent again
mngr start foo

# move the agent to the trash; for a running agent, add --force
mngr destroy --force foo

# list the agents in the trash, and restore one of them
mngr undestroy --list
mngr undestroy foo

##################################################
# Create
##################################################

# create an agent without a name; mngr chooses a name
mngr create --label tutorial=yes -- sleep 1000

# create several agents at the same time: w-1, w-2 and w-3
mngr create w --count 3 --label team=red -- sleep 1000

# start from another commit, and choose the branch's name; mngr replaces * with the agent's name
git tag start
mngr create past --branch 'start:work/*' -- sleep 1000

# work on an existing branch
git branch topic
mngr create taker --branch topic -- sleep 1000

# give the agent its own repository, which shares no files with your repository
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

# set environment variables: a new variable, a variable from your shell, and variables from a file; ps does not show their values
export GREETING=moin
printf 'TOKEN="a secret with $ and spaces"\n' > ../secrets.env
mngr create vars --env MODE=fast --pass-env GREETING --env-file ../secrets.env -- sleep 1000
mngr exec vars -- sh -c 'echo "$MODE, $GREETING, ${#TOKEN} characters"'

# create an agent and attach to it; in this example, a command runs instead of attaching
mngr create seen --connect --connect-command 'echo "$MNGR_AGENT_NAME is there"' -- sleep 1000

# run a second command in another tmux window of the agent
mngr create server -w logs='tail -f /dev/null' -- sleep 1000

# if bubblewrap is installed, run the agent in a sandbox, in which it cannot use your files or the network
if command -v bwrap; then mngr create boxed --sandbox -- sleep 1000; fi

# create an agent that mngr stops after an hour without activity
mngr create idler --idle-timeout 1h -- sleep 1000

# copy the current work of another agent
mngr create second --from apart -- sleep 1000

# copy the repository at a URL
git clone -q --bare . ../elsewhere.git
mngr create remote --from "file://$PWD/../elsewhere.git" -- sleep 1000

# use the existing agent with this name instead of creating one; mngr starts the agent if it is stopped
mngr create foo --reuse -- sleep 1000

# save a set of options as a template, and create an agent with these options
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

# choose the columns of the list, and sort its rows
mngr list --fields name,state,labels,branch --sort -name

# show which agents have uncommitted files, or commits that you have not pulled
mngr list --git

# print the list for other programs: as JSON, in your own format, or with only the ids
mngr list --format json
mngr list --format '{name} is {state} on {branch}'
mngr list --ids

# list the hosts instead of the agents
mngr list --hosts

# print the list, and print each change of it; the command timeout ends this example after one second
timeout 1 mngr list --watch --format '{name} {state}' || test $? -eq 124

##################################################
# Talk
##################################################

# create a scripted agent, which needs no model; it receives messages and carries out the steps of its script
cat > ../steps.json <<'EOF'
[{"reply": "good morning"}, "wait",
 {"write": {"path": "poem.txt", "content": "roses are red\n"}}, {"commit": "Write a poem"}, {"ask": "another one?"},
 {"reply": "as you like"}]
EOF
mngr create poet player -- ../steps.json

# send a message; mngr confirms that the agent has received it
mngr message poet -m 'hello'

# send a message, and wait until the agent has answered
mngr message poet -m 'a poem, please' --wait --timeout 20s

# send the text from standard input to several agents
mngr create other player
echo 'good morning to all' | mngr message poet other --wait --timeout 20s

# send a message to a stopped agent; with --start, mngr starts the agent first
mngr stop other
mngr message other --start -m 'are you there?' --wait --timeout 20s

# create an agent and send it a first message, either from the command line or from a file
mngr create third player -m 'what is your name?'
echo 'and yours?' > ../question.txt
mngr create fourth player --message-file ../question.txt

# show the agent's conversation
mngr transcript poet

# show what the models of all agents cost on each day; scripted agents cost nothing
mngr usage --by day

# show all events of an agent, then only some of them
mngr events poet
mngr events poet --type message --since 10m --format '{at} {type}'

# print new events of all agents as they happen; the command timeout ends this example after one second
timeout 1 mngr events --follow || test $? -eq 124

# explain why the agent has its state
mngr explain poet

# print the name of the agent that has waited for you longest, then attach to this agent
mngr next --print
mngr next --connect-command 'echo "$MNGR_AGENT_NAME waits"'

# see all agents in groups by what they need from you, and answer them; the board needs a terminal, and q leaves it
mngr board || test $? -eq 1

# see and steer all agents in a browser; the command timeout ends this example after one second
timeout 1 mngr web --no-open || test $? -eq 124

# run a command of your own when an agent needs you, with the agent's question as $1; other channels are desktop, ntfy and webhook
mngr config set notify.channels '["command"]'
mngr config set notify.command 'echo "$1" >> "$MNGR_HOME/notifications.txt"'
mngr notify --test

# send notifications as long as this command runs, then list them; the command timeout ends this example after two seconds
timeout 2 mngr notify --follow || test $? -eq 124
mngr notify

# wait until all agents have reached a state, or until the first of them has reached it
mngr wait poet other --state WAITING --timeout 20s
mngr wait poet foo --any --state WAITING,DONE --timeout 20s

##################################################
# Exchange work
##################################################

# fetch the branch of an agent that has its own repository; mngr checks the commits first
mngr pull apart
git log --oneline -1 mngr/apart

# fetch the files that an agent has written to its output directory
mngr create reporter -- sh -c 'echo "all is well" > "$MNGR_OUTPUT_DIR/report.txt"'
mngr wait reporter --state DONE --timeout 20s
mngr pull reporter
cat .mngr/outputs/reporter/report.txt

# copy a file from an agent, and another file to an agent
mngr pull apart:result.txt ..
mngr push ../result.txt foo:results/

# merge your new commits into an agent's branch
git commit -q --allow-empty -m 'Meanwhile'
mngr push apart

# fetch an agent's branch with git fetch
git fetch -q mngr::apart mngr/apart
git log --oneline -1 FETCH_HEAD

# write an ssh configuration that contains each agent as a host, so that ssh, rsync, scp and editors can connect to agents
mngr ssh-config --write
mngr ssh-config --format '{alias}'

# run the command that ssh uses to connect to an agent; without an ssh client, it ends immediately
mngr pipe foo < /dev/null || true

##################################################
# Change, clone and destroy agents
##################################################

# rename an agent; its id, branch and work dir stay the same
mngr rename apart mirror
mngr list --filter 'name == mirror'

# add labels to an agent, and remove one of them
mngr label mirror w-1 team=green urgent=yes
mngr label mirror urgent-

# stop an agent automatically after half an hour without activity, or when it is one day old; then print its limits
mngr limit w-1 --idle 30m --lifetime 1d
mngr limit w-1

# remove the agent's limits
mngr limit w-1 --idle none --lifetime none

# copy an agent with its commits, uncommitted files and conversation
mngr clone poet poet-2
mngr transcript poet-2

# if your ssh configuration contains the host box, move the agent to this host and back, with its files and conversation
if ssh -o BatchMode=yes -o ConnectTimeout=2 box true 2>/dev/null; then mngr migrate poet-2 @box && mngr migrate poet-2 @local; fi

# save the agent's files and conversation as a snapshot
mngr snapshot create poet before
mngr snapshot list

# create an agent from the snapshot, but do not start the agent
mngr snapshot restore before again --no-start

# delete the snapshot
mngr snapshot destroy before

# stop agents by their names, and destroy all agents in a list
mngr stop w-1 w-2
mngr list --ids --label team=red | mngr stop -
mngr list --ids --label team=red --state STOPPED | mngr destroy -

# restore a destroyed agent, and give it another name
mngr destroy --force seen
mngr undestroy seen --as seen-again

# clean up after interrupted commands, and delete old agents from the trash; --dry-run only prints what mngr would do
mngr gc --dry-run
mngr gc

##################################################
# Tests
##################################################

# list the blocks of a tutorial; a tutorial is a script like this one
cat > ../tour.sh <<'EOF'
# see all agents
mngr list

# which mngr is this?
mngr version
EOF
mngr tutorial blocks ../tour.sh

# find blocks that no test cites; in this example, no test cites the second block, so the check fails
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

# update the copy of a block in a test after the block has changed
printf '# see all agents\nmngr list --ids\n' > ../tour.sh
mngr tutorial check ../tour.sh ../tests --fix
mngr tutorial check ../tour.sh ../tests

# let an agent write the missing tests; the rule-based agent needs no model, and writes tests for the output of each block
# (the setting project.pytest is the command that runs the tests; this example sets it to a command that does nothing)
cp ../tour.sh tutorial.sh
mkdir -p tests
git add tutorial.sh
git commit -qm 'A tour'
mngr trust --yes
mngr tutorial sync tutorial.sh tests -S project.pytest=:

# let an agent write a block for a heading that has none, here with a scripted agent; mngr runs the new block
printf '##########\n# Greetings\n##########\n' > blanks.sh
git add blanks.sh
git commit -qm 'A blank'
mngr trust --yes
mngr tutorial fill blanks.sh --program git --agent player -- '[
    {"write": {"path": "blanks.sh", "append": "\n# say hello\necho hello\n"}},
    {"commit": "[FIX_TUTORIAL] Say hello"}
]'

# install a slash command with which Claude Code writes missing tests
mngr tutorial install-command claude

# create a tutorial in a project that has none
git init -q ../other
(cd ../other && mngr tutorial init --program git)

# show which commands of a program appear in its tutorial, and which of them the tests run
mngr tutorial coverage ../tour.sh ../tests --program mngr

##################################################
# Many agents
##################################################

# run mngr's demo with one test of a sample project: an agent repairs the test, and mngr writes a branch, PR.md and a report
mngr demo tests/test_look.py::test_list_sorted --dir ../pantry --no-open

# run one agent for each item of a list; mngr copies the files in each agent's output directory and the agent's commits
mngr map red green blue -- sh -c 'echo "$0 is a colour" > "$MNGR_OUTPUT_DIR/said.txt"' {item}

# send a prompt to each agent, and run two agents at a time; mngr reminds agents that have not written the required file
cat > ../paint.json <<'EOF'
[{"reply": "a moment"}, "wait", {"write": {"path": "$MNGR_OUTPUT_DIR/done.txt", "content": "painted\n"}}]
EOF
mngr map door wall --name paint --agent player -p 'paint the {item}' --output done.txt --max-agents 2 -- ../paint.json

# continue a run after a crash, a reboot or Ctrl-C; mngr skips finished tasks
mngr map --resume paint

# create a project with an outdated test, in which one word is wrong
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

# start a test run with the rule-based agent, which needs no model; mngr re-runs each test that an agent claims to have repaired
cd ../toy
mngr tmr run --name greet

# compare each agent's claim with mngr's own result; then list all runs, and print what happened in the run
mngr tmr status greet
mngr tmr list
mngr tmr attach greet

# write the report as web pages with claims, receipts, diffs and a timeline; then write the same pages to a zip file
mngr tmr report greet
mngr tmr report greet --export ../greet.zip

# list the confirmed changes of the run, then show one change in detail
mngr tmr changes greet
mngr tmr changes greet "$(mngr tmr changes greet --format '{id}')" --diff

# show the commits of the run's branch and the text of its pull request
git log --oneline mngr/greet/integrated
cat .mngr/runs/greet/PR.md

# exclude a change from the branch and record why; then include the change again
mngr tmr integrate greet --without "$(mngr tmr changes greet --format '{id}')" --reason 'the old shop it is'
mngr tmr integrate greet --with "$(mngr tmr changes greet --format '{id}')"

# continue a run; mngr skips finished tasks
mngr tmr resume greet

# give a task to a new agent, and add a hint to its prompt
mngr tmr retry tests/test_greet.py::test_greet -m 'mind the word'

# ask the agent that made a change to revise it; in this example, the command fails, because the agent cannot answer messages
mngr tmr redo "$(mngr tmr changes greet --format '{id}')" -m 'leave out the comma' || test $? -eq 1

# check the tests that a branch changes; in this example, the branch removes a check from a test, so mngr rejects the test
git switch -q -c easier
sed -i '/welcome to the old shop/d' tests/test_greet.py
git commit -qam 'Easier'
git switch -q -
mngr tmr verify easier || test $? -eq 4

# run the tests of a receipt again, and compare the results with the receipt
mngr tmr verify --receipt .mngr/runs/greet/tasks/*/receipt.json

# print the confirmed tests, the flaky tests and the reasons for excluded changes, then delete all these entries
mngr tmr memory list
mngr tmr memory flaky
mngr tmr memory reasons
mngr tmr memory forget

# stop a run and all its agents; the agents keep their work
mngr tmr stop greet

# find tests that pass even if the program does nothing; this example contains such a test, so the command fails
cat > tests/test_polite.py <<'EOF'
from pathlib import Path

from mngr.e2e import E2eSession, expect

GREET = Path(__file__).parents[1] / "greet.sh"


def test_polite(e2e: E2eSession) -> None:
    expect(e2e.run(f"sh {GREET} --politely")).to_succeed()
EOF
mngr trust --yes
mngr e2e audit tests/test_polite.py --program greet.sh || test $? -eq 4

# move the agents of a run to the trash; mngr keeps the run's folder with results, receipts and commits
mngr tmr clean greet --dry-run
mngr tmr clean greet
cd ../shop

##################################################
# Set-up
##################################################

# find the command that prepares a fresh copy of the project, and write it to the project's settings
mngr init --dry-run
mngr init

# read the commands in a project's settings, and allow mngr to run them
mngr trust --show
mngr trust --yes

# list all settings with their values and sources
mngr config list
mngr config path

# set, print and remove a setting
mngr config set stop.grace 1s
mngr config get stop.grace
mngr config unset stop.grace

# change a setting that only you use in this project; the project's shared settings do not change
mngr config set project.setup 'echo set up' --local
mngr config unset project.setup

# change an option's default value
mngr config set commands.list.fields name,state,branch
mngr list
mngr config unset commands.list.fields

# change a setting for one command only
mngr -S stop.grace=0.5s stop poet-2

# check whether this machine has all programs that mngr needs
mngr doctor

# list the installed plugins
mngr plugin list

# start a server that answers like a model, and print its URL for coding agents; the command timeout ends this example after one second
timeout 1 mngr model-server '[{"sh": "echo hi > hi.txt"}, {"text": "done"}]' || test $? -eq 124

# write web pages with the transcripts and recordings of tests
mkdir -p .mngr/e2e
mngr web --e2e .mngr/e2e --export ../pages

# print a script with which your shell completes mngr commands
mngr completion bash > ../mngr.bash

# print the help of mngr, the help of one command and the help of one topic
mngr --help
mngr help create
mngr help states
mngr list --help

# print the version of mngr
mngr version

# destroy all agents and delete the scratch directory
mngr list --ids | mngr destroy --force -
rm -rf "$(dirname "$PWD")"
