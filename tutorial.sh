#!/bin/sh

# mngr, feature by feature. Every block below is a comment and the commands it speaks of, and all of it runs:
# `sh tutorial.sh`, from top to bottom, in a place of its own; no account, model or network needed.

set -eu

# a place to play: a repository with one commit, and a home for mngr apart from yours
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

# run a command in its own worktree, on a branch of its own; it returns when the command really runs
mngr create foo -- sh -c 'echo hello > hello.txt; git add hello.txt; git commit -qm "Say hello"; sleep 1000'

# see it
mngr list

# wait until it has made its commit, then look at what it did
until mngr diff foo --committed --name-only | grep hello.txt; do sleep 0.1; done
mngr diff foo

# only how much it is
mngr diff foo --stat

# its screen, without attaching to it
mngr capture foo

# attach to it with your own terminal program: any command will do, and it finds the agent in its environment
mngr connect foo --connect-command 'echo "the work is in $MNGR_WORK_DIR"'

# run something in its work dir, with its environment; the exit code is the command's
mngr exec foo -- git log --oneline -1

# take its work into the current branch
mngr pull foo --merge

# end its process and keep everything
mngr stop foo

# bring it back
mngr start foo

# destroy it; it runs, so it takes --force
mngr destroy --force foo

# and change your mind
mngr undestroy --list
mngr undestroy foo

##################################################
# Create
##################################################

# without a name, one is made up
mngr create --label tutorial=yes -- sleep 1000

# several at once: w-1, w-2 and w-3
mngr create w --count 3 --label team=red -- sleep 1000

# start from another commit, and choose the branch's name; * stands for the agent's name
git tag start
mngr create past --branch 'start:work/*' -- sleep 1000

# take up a branch that is there already
git branch topic
mngr create taker --branch topic -- sleep 1000

# a repository of its own, which shares nothing with yours
mngr create apart --transfer mirror -- sh -c 'echo done > result.txt; git add .; git commit -qm "Done"'
mngr wait apart --state DONE --timeout 20s

# the files without git
mngr create files --transfer copy -- sleep 1000

# your own directory, which is never deleted
mngr create here --transfer none -- sleep 1000

# uncommitted work stops it, unless it shall come along
echo draft > draft.txt
mngr create drafts --dirty include -- sleep 1000
mngr exec drafts -- cat draft.txt
rm draft.txt

# variables: one given, one of yours passed on, some from a file; none of them is on a command line
export GREETING=moin
printf 'TOKEN="a secret with $ and spaces"\n' > ../secrets.env
mngr create vars --env MODE=fast --pass-env GREETING --env-file ../secrets.env -- sleep 1000
mngr exec vars -- sh -c 'echo "$MODE, $GREETING, ${#TOKEN} characters"'

# attach as soon as it runs, here with a command instead of a terminal
mngr create seen --connect --connect-command 'echo "$MNGR_AGENT_NAME is there"' -- sleep 1000

# one more window beside the agent
mngr create server -w logs='tail -f /dev/null' -- sleep 1000

# in a sandbox, where bubblewrap is installed: the agent sees the system and its own copy, and has no network
if command -v bwrap; then mngr create boxed --sandbox -- sleep 1000; fi

# stopped by itself when it has been idle for an hour
mngr create idler --idle-timeout 1h -- sleep 1000

# from what another agent has
mngr create second --from apart -- sleep 1000

# from a repository elsewhere, by its URL
git clone -q --bare . ../elsewhere.git
mngr create remote --from "file://$PWD/../elsewhere.git" -- sleep 1000

# the agent of that name if there is one, and started if it is stopped
mngr create foo --reuse -- sleep 1000

# options that belong together, as a template
mngr config set templates.quick.transfer copy
mngr config set templates.quick.label team=blue
mngr create blue -t quick -- sleep 1000

##################################################
# List
##################################################

# by state, label, project or host
mngr list --state RUNNING --label team=red
mngr list --host local --project shop --label tutorial

# by a question of your own
mngr list --filter 'labels.team == red and not (state == DONE)'

# the fields you want, in the order you want
mngr list --fields name,state,labels,branch --sort -name

# how much of its work you do not have yet, and whether it has uncommitted work
mngr list --git

# for programs: JSON, a line of your own making, ids
mngr list --format json
mngr list --format '{name} is {state} on {branch}'
mngr list --ids

# the hosts instead of the agents
mngr list --hosts

# stay and show every change; this one ends by itself after a second
timeout 1 mngr list --watch --format '{name} {state}' || test $? -eq 124

##################################################
# Talk
##################################################

# a scripted agent: it needs no model, takes messages, and plays the steps it is given
cat > ../steps.json <<'EOF'
[{"reply": "good morning"}, "wait",
 {"write": {"path": "poem.txt", "content": "roses are red\n"}}, {"commit": "Write a poem"}, {"ask": "another one?"},
 {"reply": "as you like"}]
EOF
mngr create poet player -- ../steps.json

# send a message, and know that it arrived
mngr message poet -m 'hello'

# send one and wait until its turn is over
mngr message poet -m 'a poem, please' --wait --timeout 20s

# from standard input, to several at once
mngr create other player
echo 'good morning to all' | mngr message poet other --wait --timeout 20s

# to one that is stopped: it is started first
mngr stop other
mngr message other --start -m 'are you there?' --wait --timeout 20s

# create and send the first message in one go, from the command line or from a file
mngr create third player -m 'what is your name?'
echo 'and yours?' > ../question.txt
mngr create fourth player --message-file ../question.txt

# the conversation
mngr transcript poet

# what the models of all agents cost, by day; a player has none
mngr usage --by day

# what happened to it, and only some of it
mngr events poet
mngr events poet --type message --since 10m --format '{at} {type}'

# follow what happens to everyone, as it happens; this one ends by itself after a second
timeout 1 mngr events --follow || test $? -eq 124

# why does it have the state it has?
mngr explain poet

# who has waited longest for you, and attach to it
mngr next --print
mngr next --connect-command 'echo "$MNGR_AGENT_NAME waits"'

# wait until agents reach a state: all of them, or the first
mngr wait poet other --state WAITING --timeout 20s
mngr wait poet foo --any --state WAITING,DONE --timeout 20s

##################################################
# Work to and fro
##################################################

# an agent with a repository of its own: bring its branch here, checked
mngr pull apart
git log --oneline -1 mngr/apart

# what it leaves in its output directory comes along
mngr create reporter -- sh -c 'echo "all is well" > "$MNGR_OUTPUT_DIR/report.txt"'
mngr wait reporter --state DONE --timeout 20s
mngr pull reporter
cat .mngr/outputs/reporter/report.txt

# copy a file from an agent, and one to it
mngr pull apart:result.txt ..
mngr push ../result.txt foo:results/

# give an agent the commits you made since
git commit -q --allow-empty -m 'Meanwhile'
mngr push apart

# git itself can fetch from any agent
git fetch -q mngr::apart mngr/apart
git log --oneline -1 FETCH_HEAD

# ssh, rsync, scp and editors reach every agent too: one entry each, in a file that follows the agents
mngr ssh-config --write
mngr ssh-config --format '{alias}'

# what such an entry runs: an sshd for one connection, which listens nowhere; here nobody talks to it, so it hangs up
mngr pipe foo < /dev/null || true

##################################################
# Life
##################################################

# another name; its id, branch and work dir stay
mngr rename apart mirror
mngr list --filter 'name == mirror'

# labels
mngr label mirror w-1 team=green urgent=yes
mngr label mirror urgent-

# stop it when it has been idle for half an hour or is a day old, and see the limits
mngr limit w-1 --idle 30m --lifetime 1d
mngr limit w-1

# no limit any more
mngr limit w-1 --idle none --lifetime none

# a second agent from everything the first one has, uncommitted files and conversation included
mngr clone poet poet-2
mngr transcript poet-2

# move it to another host with its uncommitted work and its conversation, if there is one called box, and back
if ssh -o BatchMode=yes -o ConnectTimeout=2 box true 2>/dev/null; then mngr migrate poet-2 @box && mngr migrate poet-2 @local; fi

# keep the state it has now, under a name
mngr snapshot create poet before
mngr snapshot list

# make an agent from it, without starting it
mngr snapshot restore before again --no-start

# delete the snapshot
mngr snapshot destroy before

# several at once, by name or from a list
mngr stop w-1 w-2
mngr list --ids --label team=red | mngr stop -
mngr list --ids --label team=red --state STOPPED | mngr destroy -

# bring one back under another name
mngr destroy --force seen
mngr undestroy seen --as seen-again

# clean up after interrupted commands and delete expired trash; look first
mngr gc --dry-run
mngr gc

##################################################
# Tests
##################################################

# a tutorial is a script like this one; it is cut into blocks, each known by what it says
cat > ../tour.sh <<'EOF'
# see all agents
mngr list

# which mngr is this?
mngr version
EOF
mngr tutorial blocks ../tour.sh

# which of them does no test cite? one of two, so this is a failure
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

# the script changed, and the citation shall follow
printf '# see all agents\nmngr list --ids\n' > ../tour.sh
mngr tutorial check ../tour.sh ../tests --fix
mngr tutorial check ../tour.sh ../tests

# have an agent write the tests that are missing; the mechanic needs no model: it writes down what a block does each time
# (project.pytest is what loads them in your project; this place has none)
cp ../tour.sh tutorial.sh
mkdir -p tests
git add tutorial.sh
git commit -qm 'A tour'
mngr tutorial sync tutorial.sh tests -S project.pytest=:

# a heading with nothing under it is a blank: an agent proposes blocks for it, and each is tried; here a scripted one does
printf '##########\n# Greetings\n##########\n' > blanks.sh
git add blanks.sh
git commit -qm 'A blank'
mngr tutorial fill blanks.sh --program git --agent player -- '[
    {"write": {"path": "blanks.sh", "append": "\n# say hello\necho hello\n"}},
    {"commit": "[FIX_TUTORIAL] Say hello"}
]'

# a slash command that brings tests up to date, for when you sit with Claude Code yourself
mngr tutorial install-command claude

# begin a tutorial in a project that has none
git init -q ../other
(cd ../other && mngr tutorial init --program git)

# what of a program does its tutorial show, and what do the tests run?
mngr tutorial coverage ../tour.sh ../tests --program mngr

##################################################
# Many at once
##################################################

# all of it on a sample project that mngr brings along: its tests, an agent for each, one branch, PR.md and a report; here for one test
mngr demo tests/test_look.py::test_list_sorted --dir ../pantry --no-open

# an agent for each item; what it leaves in its output directory and what it commits are brought home
mngr map red green blue -- sh -c 'echo "$0 is a colour" > "$MNGR_OUTPUT_DIR/said.txt"' {item}

# agents that are told what to do, two at a time; who owes a file is reminded of it
cat > ../paint.json <<'EOF'
[{"reply": "a moment"}, "wait", {"write": {"path": "$MNGR_OUTPUT_DIR/done.txt", "content": "painted\n"}}]
EOF
mngr map door wall --name paint --agent player -p 'paint the {item}' --output done.txt --max-agents 2 -- ../paint.json

# go on with a run after a crash, a reboot or Ctrl-C: nothing that is settled is done again
mngr map --resume paint

# a project with a test that is out of date by a word
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

# an agent for each test, here one that needs no model: what it claims is run again by us, and only that counts
cd ../toy
mngr tmr run --name greet

# how it stands: what was claimed and what we saw; all runs; what happened, row by row
mngr tmr status greet
mngr tmr list
mngr tmr attach greet

# look at it, or send it to somebody: claims beside receipts, diffs, recordings and a timeline, as pages that open from disk
mngr tmr report greet
mngr tmr report greet --export ../greet.zip

# what there is to merge, in units that are taken or left as a whole: who made it, what we saw, whom it clashes with; and one of them
mngr tmr changes greet
mngr tmr changes greet "$(mngr tmr changes greet --format '{id}')" --diff

# the branch that the run made at its end, and what a reviewer reads: tests and texts in one commit, then each fix in one of its own; all of it was run
git log --oneline mngr/greet/integrated
cat .mngr/runs/greet/PR.md

# leave a change out and say why, which later agents are told; then take it in again: what was run once is not run again
mngr tmr integrate greet --without "$(mngr tmr changes greet --format '{id}')" --reason 'the old shop it is'
mngr tmr integrate greet --with "$(mngr tmr changes greet --format '{id}')"

# go on with a run; nothing that is settled is done again
mngr tmr resume greet

# do a task again, with a hint
mngr tmr retry tests/test_greet.py::test_greet -m 'mind the word'

# tell the agent that made a change what you want otherwise, in the conversation that it has; the one here understands no words
mngr tmr redo "$(mngr tmr changes greet --format '{id}')" -m 'leave out the comma' || test $? -eq 1

# believe nobody: is what a branch does to the tests honest, and do they pass? this one says less than before, and is refuted
git switch -q -c easier
sed -i 's/welcome to the old shop/shop/' tests/test_greet.py
git commit -qam 'Easier'
git switch -q -
mngr tmr verify easier || test $? -eq 4

# a receipt can be made again by anybody, from the commits alone
mngr tmr verify --receipt .mngr/runs/greet/tasks/*/receipt.json

# what the next run knows already, which tests pass only now and then, what people did not want, and how to make it forget
mngr tmr memory list
mngr tmr memory flaky
mngr tmr memory reasons
mngr tmr memory forget

# the emergency stop: the run and all its agents, which keep everything
mngr tmr stop greet

# would a test notice if its program did nothing at all? this one would not, so this is a failure; what nobody misses is named
cat > tests/test_polite.py <<'EOF'
from pathlib import Path

from mngr.e2e import E2eSession, expect

GREET = Path(__file__).parents[1] / "greet.sh"


def test_polite(e2e: E2eSession) -> None:
    expect(e2e.run(f"sh {GREET} --politely")).to_succeed()
EOF
mngr e2e audit tests/test_polite.py --program greet.sh || test $? -eq 4

# put its agents in the trash; results, receipts and commits stay in its folder
mngr tmr clean greet --dry-run
mngr tmr clean greet
cd ../shop

##################################################
# Set-up
##################################################

# look at the project and write its settings: how a fresh copy is made runnable
mngr init --dry-run
mngr init

# somebody else wrote the settings of a project: see which commands they run, and allow them
mngr trust --show
mngr trust --yes

# all settings, and where each comes from
mngr config list
mngr config path

# read, write and remove one
mngr config set stop.grace 1s
mngr config get stop.grace
mngr config unset stop.grace

# for yourself in this project only; what the project says stays as it is
mngr config set project.setup 'echo set up' --local
mngr config unset project.setup

# the default of any option of any command
mngr config set commands.list.fields name,state,branch
mngr list
mngr config unset commands.list.fields

# a setting for this command only
mngr -S stop.grace=0.5s stop poet-2

# what this machine has and what is missing
mngr doctor

# the installed plugins
mngr plugin list

# a scripted model, for tests: point real agents at the URL it prints; this one ends by itself after a second
timeout 1 mngr model-server '[{"sh": "echo hi > hi.txt"}, {"text": "done"}]' || test $? -eq 124

# pages of what tests did, with transcripts and recordings, as files that need nothing else
mkdir -p .mngr/e2e
mngr web --e2e .mngr/e2e --export ../pages

# completion for your shell
mngr completion bash > ../mngr.bash

# help on everything
mngr --help
mngr help create
mngr help states
mngr list --help

# which mngr is this?
mngr version

# put everything away, and the place to play with it
mngr list --ids | mngr destroy --force -
rm -rf "$(dirname "$PWD")"
