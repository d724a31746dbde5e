"""The ways to create an agent."""

from __future__ import annotations

from pathlib import Path

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import agents, run_all, work

APART = """mngr create apart --transfer mirror -- sh -c 'echo done > result.txt; git add .; git commit -qm "Done"'"""


def test_create_without_a_name_makes_one_up(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # create an agent without a name; mngr chooses a name
    mngr create --label tutorial=yes -- sleep 1000
    """)
    result = e2e.run("mngr create --label tutorial=yes -- sleep 1000", comment="mngr chooses a name")
    expect(result).to_succeed().to_match_lines("<made_up> runs in <work_dir> on mngr/<made_up>")
    agent = agents(e2e)[e2e.names["made_up"]]
    assert (agent["state"], agent["labels"]) == ("RUNNING", {"tutorial": "yes"})
    expect(e2e.run("mngr create --label tutorial -- sleep 1000")).to_fail(2).to_match_lines("""
        Error: --label: 'tutorial' is not NAME=VALUE
        Hint: for example: --label team=red
    """)
    assert len(agents(e2e)) == 1


def test_create_several_agents_at_once(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # create several agents at the same time: w-1, w-2 and w-3
    mngr create w --count 3 --label team=red -- sleep 1000
    """)
    result = e2e.run("mngr create w --count 3 --label team=red -- sleep 1000", comment="create several agents")
    expect(result).to_succeed().to_match_lines("w-... runs in ... on mngr/w-... (3)")
    created = agents(e2e)
    assert {name: (agent["state"], agent["branch"], agent["labels"]) for name, agent in created.items()} == {
        f"w-{n}": ("RUNNING", f"mngr/w-{n}", {"team": "red"}) for n in (1, 2, 3)
    }
    result = e2e.run("mngr create w --count 4 -- sleep 1000", comment="all agents are created, or none")
    expect(result).to_fail(1).to_match_lines("""
        Error: there is already an agent called 'w-1'
        Hint: choose another name, or destroy that agent: mngr destroy w-1
    """)
    assert agents(e2e).keys() == created.keys()


def test_create_from_another_commit(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # start from another commit, and choose the branch's name; mngr replaces * with the agent's name
    git tag start
    mngr create past --branch 'start:work/*' -- sleep 1000
    """)
    run_all(e2e, "git tag start && echo news > news.txt && git add . && git commit -qm News")
    result = e2e.run("mngr create past --branch 'start:work/*' -- sleep 1000", comment="start from another commit")
    expect(result).to_succeed().to_match_lines("past runs in <work_dir> on work/past")
    expect(work(e2e, "past")).to_match_tree({"README.md": "a shop\n", "news.txt": None})
    expect(e2e.run("git log --format=%s work/past")).to_equal("Open the shop")
    result = e2e.run("mngr create future --branch 'end:work/*' -- sleep 1000")
    expect(result).to_fail(1).to_match_lines("""
        Error: there is no commit 'end'
        Hint: give a branch, a tag or a commit as BASE; see the branches: git branch -a
    """)


def test_create_on_an_existing_branch(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # work on an existing branch
    git branch topic
    mngr create taker --branch topic -- sleep 1000
    """)
    run_all(e2e, "git branch topic")
    result = e2e.run("mngr create taker --branch topic -- sleep 1000", comment="work on an existing branch")
    expect(result).to_succeed().to_match_lines("taker runs in <work_dir> on topic")
    expect(e2e.run("git branch --format='%(refname:short)'")).to_match_lines("""
        main
        topic
    """)
    result = e2e.run(
        "mngr create other --branch topic -- sleep 1000", comment="two agents cannot work on the same branch"
    )
    expect(result).to_fail(1).to_match_lines("""
        Error: the branch 'topic' is checked out at <work_dir>
        Hint: start a new branch from it: --branch topic:NEW
    """)


def test_create_a_mirror_and_an_agent_from_it(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # give the agent its own repository, which shares no files with your repository
    mngr create apart --transfer mirror -- sh -c 'echo done > result.txt; git add .; git commit -qm "Done"'
    mngr wait apart --state DONE --timeout 20s
    """)
    e2e.write_tutorial_block("""
    # copy the current work of another agent
    mngr create second --from apart -- sleep 1000
    """)
    expect(
        e2e.run(APART, comment="give the agent its own repository, which shares no files with your repository")
    ).to_succeed()
    result = e2e.run("mngr wait apart --state DONE --timeout 20s")
    expect(result).to_succeed().to_equal("apart DONE")
    expect(e2e.run("git branch --list 'mngr/*'", comment="the branch is not in your repository")).to_be_empty()
    apart = work(e2e, "apart")
    assert (apart / ".git").is_dir()
    assert not (apart / ".git" / "objects" / "info" / "alternates").exists()
    run_all(e2e, "mngr create second --from apart -- sleep 1000")
    expect(work(e2e, "second")).to_match_tree({"README.md": "a shop\n", "result.txt": "done\n"})
    expect(e2e.run("mngr create third --from nobody -- sleep 1000")).to_fail(1).to_match_lines("""
        Error: there is no agent 'nobody'
        Hint: list the agents: mngr list
    """)


def test_create_a_copy_without_git(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # give the agent a copy of the files without git
    mngr create files --transfer copy -- sleep 1000
    """)
    result = e2e.run(
        "mngr create files --transfer copy -- sleep 1000", comment="give the agent a copy of the files without git"
    )
    expect(result).to_succeed().to_match_lines("files runs in <work_dir>")
    expect(work(e2e, "files")).to_match_tree({"README.md": "a shop\n", ".git": None})
    expect(e2e.run("mngr diff files")).to_fail(1).to_match_lines("""
        Error: files has no base commit to compare with, because it was created with --transfer copy
        Hint: list its files instead: mngr exec files -- ls -l
    """)


def test_create_in_your_own_directory_never_deletes_it(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # let the agent work in your own directory, which mngr never deletes
    mngr create here --transfer none -- sleep 1000
    """)
    result = e2e.run("mngr create here --transfer none -- sleep 1000", comment="work in your own directory")
    expect(result).to_succeed().to_match_lines("here runs in [CWD] on main")
    run_all(e2e, "mngr destroy --force here")
    expect(shop).to_match_tree({"README.md": "a shop\n", ".git/HEAD": "ref: refs/heads/main\n"})
    assert agents(e2e) == {}


def test_uncommitted_work_stops_create_unless_it_is_included(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # mngr refuses to create an agent while you have uncommitted files; --dirty include copies them to the agent
    echo draft > draft.txt
    mngr create drafts --dirty include -- sleep 1000
    mngr exec drafts -- cat draft.txt
    rm draft.txt
    """)
    run_all(e2e, "echo draft > draft.txt")
    result = e2e.run("mngr create drafts -- sleep 1000", comment="uncommitted files are refused")
    expect(result).to_fail(1).to_match_lines("""
        Error: [CWD] has uncommitted changes: draft.txt
        Hint: commit them, copy them to the agent with --dirty include, or leave them here with --dirty ignore
    """)
    result = e2e.run(
        "mngr create drafts --dirty include -- sleep 1000", comment="copy the uncommitted files to the agent"
    )
    expect(result).to_succeed()
    expect(e2e.run("mngr exec drafts -- cat draft.txt")).to_succeed().to_equal("draft")
    run_all(e2e, "rm draft.txt", "mngr create clean -- sleep 1000")
    expect(work(e2e, "clean")).to_match_tree({"README.md": "a shop\n", "draft.txt": None})


def test_variables_are_passed_without_appearing_on_a_command_line(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # set environment variables: a new variable, a variable from your shell, and variables from a file; ps does not show their values
    export GREETING=moin
    printf 'TOKEN="a secret with $ and spaces"\\n' > ../secrets.env
    mngr create vars --env MODE=fast --pass-env GREETING --env-file ../secrets.env -- sleep 1000
    mngr exec vars -- sh -c 'echo "$MODE, $GREETING, ${#TOKEN} characters"'
    """)
    create = "mngr create vars --env MODE=fast --pass-env GREETING --env-file ../secrets.env -- sleep 1000"
    expect(e2e.run(create, comment="neither the variable nor the file exists yet")).to_fail(1).to_match_lines("""
        Error: --env-file: cannot read ../secrets.env: No such file or directory
        Hint: check the path: ls -l ../secrets.env
    """)
    run_all(e2e, r"""printf 'TOKEN="a secret with $ and spaces"\n' > ../secrets.env""")
    expect(e2e.run(create)).to_fail(1).to_match_lines("""
        Error: --pass-env: the variable GREETING is not set
        Hint: set it first: export GREETING=VALUE; or give the value: --env GREETING=VALUE
    """)
    e2e.env["GREETING"] = "moin"
    expect(e2e.run(create, comment="a new variable, one of yours, and some from a file")).to_succeed()
    result = e2e.run("""mngr exec vars -- sh -c 'echo "$MODE, $GREETING, ${#TOKEN} characters"'""")
    expect(result).to_succeed().to_equal("fast, moin, 26 characters")
    expect(e2e.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '").stdout).not_to_contain("a secret with")


def test_create_can_attach_as_soon_as_the_agent_runs(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # create an agent and attach to it; in this example, a command runs instead of attaching
    mngr create seen --connect --connect-command 'echo "$MNGR_AGENT_NAME is there"' -- sleep 1000
    """)
    result = e2e.run(
        """mngr create seen --connect --connect-command 'echo "$MNGR_AGENT_NAME is there"' -- sleep 1000""",
        comment="attach as soon as the agent runs",
    )
    expect(result).to_succeed().to_match_lines("""
        seen runs in ... on mngr/seen
        seen is there
    """)
    result = e2e.run("mngr create unseen --connect -- sleep 1000", comment="there is no terminal here")
    expect(result).to_fail(1).to_match_lines("""
        Error: --connect needs a terminal
        Hint: leave out --connect; to print the agent's screen: mngr capture NAME
    """)
    assert agents(e2e).keys() == {"seen"}


def test_create_with_one_more_window(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # run a second command in another tmux window of the agent
    mngr create server -w logs='tail -f /dev/null' -- sleep 1000
    """)
    run_all(e2e, "mngr create server -w logs='tail -f /dev/null' -- sleep 1000")
    windows = "list-windows -t =server -F '#{window_name} #{pane_start_command}'"
    expect(e2e.run(f'tmux -S "$MNGR_HOME/tmux.socket" {windows}')).to_match_lines("""
        agent ...
        logs ...tail -f /dev/null...
    """)
    expect(e2e.run("mngr create other -w logs -- sleep 1000")).to_fail(2).to_match_lines("""
        Error: --window: 'logs' is not NAME=VALUE
        Hint: for example: --window logs='tail -f log.txt'
    """)


def test_a_sandboxed_agent_sees_only_its_own_copy(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # if bubblewrap is installed, run the agent in a sandbox, in which it cannot use your files or the network
    if command -v bwrap; then mngr create boxed --sandbox -- sleep 1000; fi
    """)
    (e2e.home / "diary.txt").write_text("dear diary\n")
    result = e2e.run(
        "if command -v bwrap; then mngr create boxed --sandbox -- sleep 1000; fi", comment="run the agent in a sandbox"
    )
    expect(result).to_succeed().to_match_lines("""
        .../bwrap
        boxed runs in <work_dir> on mngr/boxed
    """)
    script = 'cat README.md; cat "$HOME/diary.txt"; cat /proc/net/dev | grep -vc lo:'
    result = e2e.run(
        f"mngr exec boxed -- sh -c '{script}'", comment="the agent sees its own copy and none of your files"
    )
    expect(result.stdout).to_match_lines("""
        a shop
        2
    """)
    expect(result.stderr).to_contain("No such file or directory")
    expect(e2e.run("mngr create open --sandbox --transfer worktree -- sleep 9")).to_fail(2).to_match_lines("""
        Error: --sandbox does not work with --transfer worktree, because the agent would share files with you
        Hint: leave out --transfer to give the agent a mirror, or use: --transfer copy
    """)


def test_create_with_an_idle_timeout(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # create an agent that mngr stops after an hour without activity
    mngr create idler --idle-timeout 1h -- sleep 1000
    """)
    run_all(e2e, "mngr create idler --idle-timeout 1h -- sleep 1000")
    expect(e2e.run("mngr limit idler")).to_equal("idler: idle 1h")
    expect(e2e.run("mngr create idler-2 --idle-timeout soon -- sleep 1000")).to_fail(2).to_match_lines("""
        Error: --idle-timeout: 'soon' is not a length of time
        Hint: write it as 90s, 10m, 1h30m or 2d
    """)
    assert agents(e2e).keys() == {"idler"}


def test_create_from_the_url_of_a_repository(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # copy the repository at a URL
    git clone -q --bare . ../elsewhere.git
    mngr create remote --from "file://$PWD/../elsewhere.git" -- sleep 1000
    """)
    run_all(e2e, "git clone -q --bare . ../elsewhere.git")
    result = e2e.run(
        'mngr create remote --from "file://$PWD/../elsewhere.git" -- sleep 1000', comment="start from a URL"
    )
    expect(result).to_succeed()
    assert agents(e2e)["remote"]["project"] == "elsewhere"
    expect(work(e2e, "remote")).to_match_tree({"README.md": "a shop\n"})
    result = e2e.run('mngr create other --from "file://$PWD/../nowhere.git" -- sleep 1000')
    expect(result).to_fail(1).to_match_lines("""
        Error: --from: cannot fetch file://[CWD]/../nowhere.git: ... does not appear to be a git repository
        Hint: check the URL and your access to it: git ls-remote URL
    """)


def test_reuse_takes_and_starts_an_existing_agent(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # use the existing agent with this name instead of creating one; mngr starts the agent if it is stopped
    mngr create foo --reuse -- sleep 1000
    """)
    run_all(e2e, "mngr create foo --reuse -- sleep 1000")
    before = agents(e2e)["foo"]
    run_all(e2e, "mngr stop foo")
    result = e2e.run("mngr create foo --reuse -- sleep 1000", comment="start the agent if it is stopped")
    expect(result).to_succeed().to_contain("foo exists already; mngr uses it as it is")
    after = agents(e2e)["foo"]
    assert (after["id"], after["state"]) == (before["id"], "RUNNING")
    expect(e2e.run("mngr create foo -- sleep 1000")).to_fail(1).to_match_lines("""
        Error: there is already an agent called 'foo'
        Hint: choose another name, or destroy that agent: mngr destroy foo
    """)


def test_create_from_a_template(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # save a set of options as a template, and create an agent with these options
    mngr config set templates.quick.transfer copy
    mngr config set templates.quick.label team=blue
    mngr create blue -t quick -- sleep 1000
    """)
    run_all(
        e2e,
        "mngr config set templates.quick.transfer copy",
        "mngr config set templates.quick.label team=blue",
    )
    expect(e2e.run("mngr create blue -t quick -- sleep 1000", comment="use a template")).to_succeed()
    blue = agents(e2e)["blue"]
    assert (blue["labels"], blue["branch"]) == ({"team": "blue"}, None)
    assert not Path(blue["work_dir"], ".git").exists()
    expect(e2e.run("mngr create green -t quik -- sleep 1000")).to_fail(2).to_match_lines("""
        Error: there is no template 'quik'
        Hint: did you mean 'quick'?
    """)
