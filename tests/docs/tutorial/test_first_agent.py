"""The first repository, and the whole life of the first agent."""

from __future__ import annotations

from pathlib import Path

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import agents, run_all, work

FOO = """mngr create foo -- sh -c 'echo hello > hello.txt; git add hello.txt; git commit -qm "Say hello"; sleep 1000'"""
UNTIL = "until mngr diff foo --committed --name-only | grep hello.txt; do sleep 0.1; done"


def test_the_first_block_creates_a_repository_and_a_home(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # create a scratch repository with one commit, and a separate home for mngr
    cd "$(mktemp -d)"
    export MNGR_HOME="$PWD/home"
    git init -q shop
    cd shop
    echo 'a shop' > README.md
    git add README.md
    git commit -qm 'Open the shop'
    """)
    result = e2e.run(
        """\
        cd "$(mktemp -d)"
        export MNGR_HOME="$PWD/home"
        git init -q shop
        cd shop
        echo 'a shop' > README.md
        git add README.md
        git commit -qm 'Open the shop'
        git log --format=%s
        mngr list
        mngr config path --format '{source} {path}'
        ls ..""",
        comment="create a scratch repository with one commit, and a separate home for mngr",
    )
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        Open the shop
        user [ROOT]/tmp/<place>/home/settings.toml
        project [ROOT]/tmp/<place>/shop/.mngr/settings.toml
        local [ROOT]/tmp/<place>/shop/.mngr/settings.local.toml
        home (?)
        shop
    """)
    assert not (e2e.home / ".mngr").exists()


def test_create_runs_a_command_in_its_own_worktree(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # run a command as an agent, in its own worktree and on its own branch; mngr create does not wait for the end of the command
    mngr create foo -- sh -c 'echo hello > hello.txt; git add hello.txt; git commit -qm "Say hello"; sleep 1000'
    """)
    e2e.write_tutorial_block("""
    # list the agents
    mngr list
    """)
    result = e2e.run(FOO, comment="run a command in its own worktree, on its own branch")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("foo runs in <work_dir> on mngr/foo")
    result = e2e.run("mngr list", comment="list the agents")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        NAME  STATE    KIND     HOST   PROJECT  BRANCH    ACTIVE
        foo   RUNNING  command  local  shop     mngr/foo  [DURATION]
    """)
    expect(e2e.run("git worktree list", cwd="<work_dir>").stdout).to_match_lines("""
        [CWD] ...[HASH] [main]
        <work_dir> ...[HASH] [mngr/foo]
    """)
    expect(shop).to_match_tree({"README.md": "a shop\n", "hello.txt": None})


def test_a_command_that_does_not_start_leaves_no_agent(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # run a command as an agent, in its own worktree and on its own branch; mngr create does not wait for the end of the command
    mngr create foo -- sh -c 'echo hello > hello.txt; git add hello.txt; git commit -qm "Say hello"; sleep 1000'
    """)
    expect(e2e.run("mngr create foo -- no-such-program")).to_fail(1).to_match_lines("""
        Error: the command of foo did not start: no-such-program: command not found
        Hint: check the command, and the PATH of the agent: mngr create NAME --env PATH=… -- COMMAND
    """)
    assert agents(e2e) == {}
    expect(e2e.run("git branch --list 'mngr/*'")).to_be_empty()
    run_all(e2e, "mngr create foo -- sleep 1000")
    expect(e2e.run(FOO, comment="the name is used")).to_fail(1).to_match_lines("""
        Error: there is already an agent called 'foo'
        Hint: choose another name, or destroy that agent: mngr destroy foo
    """)


def test_diff_shows_the_work_of_an_agent(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # wait until the agent has made its commit, then show its changes
    until mngr diff foo --committed --name-only | grep hello.txt; do sleep 0.1; done
    mngr diff foo
    """)
    run_all(e2e, FOO)
    result = e2e.run(UNTIL, comment="wait until the agent has made its commit")
    expect(result).to_succeed().to_equal("hello.txt")
    result = e2e.run("mngr diff foo", comment="then show its changes")
    expect(result).to_succeed().to_match_lines("""
        diff --git a/hello.txt b/hello.txt
        new file mode 100644
        index [HASH]..[HASH]
        --- /dev/null
        +++ b/hello.txt
        @@ -0,0 +1 @@
        +hello
    """)
    expect(e2e.run("mngr diff fo")).to_fail(1).to_match_lines("""
        Error: there is no agent 'fo'
        Hint: did you mean 'foo'?
    """)


def test_diff_stat_shows_how_much_changed(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # show the number of lines that the agent changed in each file
    mngr diff foo --stat
    """)
    run_all(e2e, FOO, UNTIL)
    expect(
        e2e.run("mngr diff foo --stat", comment="show the number of lines that the agent changed in each file")
    ).to_succeed().to_match_lines("""
        hello.txt | 1 +
        1 file changed, 1 insertion(+)
    """)
    expect(e2e.run("mngr diff foo --stat --name-only")).to_fail(2).to_match_lines("""
        Error: --stat and --name-only cannot be combined
        Hint: leave out one of them
    """)


def test_capture_shows_the_screen_of_an_agent(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # show the agent's screen without attaching to it
    mngr capture foo
    """)
    run_all(e2e, "mngr create foo -- sh -c 'echo I am at work; sleep 1000'")
    run_all(e2e, "until mngr capture foo | grep -q work; do sleep 0.05; done")
    result = e2e.run("mngr capture foo", comment="show the agent's screen without attaching to it")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("I am at work")
    run_all(e2e, "mngr stop foo")
    result = e2e.run("mngr capture foo", comment="and its state when it was stopped")
    expect(result.stdout).to_contain("I am at work")
    expect(result.stderr).to_equal("foo is stopped; this is the last screen before it stopped")


def test_connect_with_your_own_terminal_program(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # run your own command instead of attaching; environment variables contain the agent's name and its work dir
    mngr connect foo --connect-command 'echo "the work is in $MNGR_WORK_DIR"'
    """)
    run_all(e2e, "mngr create foo -- cat")
    result = e2e.run(
        """mngr connect foo --connect-command 'echo "the work is in $MNGR_WORK_DIR"'""",
        comment="attach with your own terminal program",
    )
    expect(result).to_succeed().to_equal(f"the work is in {work(e2e, 'foo')}")
    expect(e2e.run("mngr connect foo", comment="there is no terminal here")).to_fail(1).to_match_lines("""
        Error: mngr connect needs a terminal
        Hint: print the agent's screen: mngr capture foo
    """)


def test_connect_at_a_terminal_and_detach(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # run your own command instead of attaching; environment variables contain the agent's name and its work dir
    mngr connect foo --connect-command 'echo "the work is in $MNGR_WORK_DIR"'
    """)
    run_all(e2e, "mngr create foo -- cat", "mngr create goo -- cat")
    terminal = e2e.tty("mngr connect", name="picker", comment="choose an agent, type to it, and detach")
    terminal.wait_for("connect to:")
    terminal.press("Down", "Enter")
    terminal.wait_for("detach:")
    terminal.type("good morning\r")
    terminal.wait_for("good morning\ngood morning")
    terminal.press("C-b", "d")
    assert terminal.wait() == 0
    expect(e2e.run("mngr capture goo")).to_contain("good morning\ngood morning")
    expect(e2e.run("mngr capture foo")).to_be_empty()
    assert {agent["state"] for agent in agents(e2e).values()} == {"RUNNING"}


def test_exec_runs_a_command_in_the_work_dir(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # run a command in the agent's work dir, with the agent's environment variables; mngr exits with the command's exit code
    mngr exec foo -- git log --oneline -1
    """)
    run_all(e2e, FOO, UNTIL)
    result = e2e.run("mngr exec foo -- git log --oneline -1", comment="run a command in the agent's work dir")
    expect(result).to_succeed().to_match_lines("[HASH] Say hello")
    result = e2e.run("""mngr exec foo -- sh -c 'echo "$MNGR_AGENT_NAME in $PWD"; exit 7'""")
    expect(result).to_have_exit_code(7).to_equal(f"foo in {work(e2e, 'foo')}")
    expect(e2e.run("mngr exec foo -- no-such-program")).to_fail(1).to_match_lines("""
        Error: mngr did not run the command in foo: no-such-program: command not found
        Hint: see where the agent looks for programs: mngr exec foo -- printenv PATH
    """)


def test_pull_merge_takes_the_work_into_the_current_branch(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # merge the agent's work into the current branch
    mngr pull foo --merge
    """)
    run_all(e2e, FOO, UNTIL)
    result = e2e.run("mngr pull foo --merge", comment="merge the agent's work into the current branch")
    expect(result).to_succeed().to_match_lines("mngr/foo is at [HASH] (1 new commit), merged")
    expect(e2e.run("git log --format=%s main")).to_match_lines("""
        Say hello
        Open the shop
    """)
    expect(shop).to_match_tree({"hello.txt": "hello\n"})
    expect(e2e.run("mngr pull bar --merge")).to_fail(1).to_match_lines("""
        Error: there is no agent 'bar'
        Hint: list the agents: mngr list
    """)


def test_stop_keeps_everything_and_start_continues(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # stop the agent's process; mngr keeps its files
    mngr stop foo
    """)
    e2e.write_tutorial_block("""
    # start the agent again
    mngr start foo
    """)
    run_all(e2e, "mngr create foo -- sh -c 'echo once more >> log.txt; sleep 1000'")
    expect(e2e.run("mngr stop foo", comment="stop the agent's process")).to_succeed().to_equal("stopped foo")
    foo = agents(e2e)["foo"]
    assert (foo["state"], foo["pid"]) == ("STOPPED", None)
    assert Path(foo["work_dir"]).joinpath("README.md").exists()
    expect(e2e.run("mngr message foo -m hello")).to_fail(1).to_match_lines("""
        Error: foo is not running (state: STOPPED)
        Hint: start it and send the message: mngr message foo -m hello --start
    """)
    expect(e2e.run("mngr start foo", comment="start the agent again")).to_succeed().to_equal("started foo")
    after = agents(e2e)["foo"]
    assert (after["state"], after["id"], after["work_dir"]) == ("RUNNING", foo["id"], foo["work_dir"])
    assert after["pid"]
    expect(e2e.run("mngr start foo")).to_succeed().to_equal("foo was running already")


def test_undestroy_restores_a_destroyed_agent(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # move the agent to the trash; for a running agent, add --force
    mngr destroy --force foo
    """)
    e2e.write_tutorial_block("""
    # list the agents in the trash, and restore one of them
    mngr undestroy --list
    mngr undestroy foo
    """)
    run_all(e2e, FOO, UNTIL)
    work_dir = work(e2e, "foo")
    (work_dir / "draft.txt").write_text("not yet committed\n")
    expect(e2e.run("mngr destroy foo")).to_fail(1).to_match_lines("""
        Error: foo is RUNNING
        Hint: stop it first: mngr stop foo; or destroy it while it runs: mngr destroy --force foo
    """)
    result = e2e.run(
        "mngr destroy --force foo", comment="move the agent to the trash; for a running agent, add --force"
    )
    expect(result).to_succeed().to_contain("destroyed foo", "mngr keeps the branch mngr/foo")
    assert not work_dir.exists()
    assert agents(e2e) == {}
    result = e2e.run("mngr undestroy --list", comment="list the agents in the trash, and restore one of them")
    expect(result).to_succeed().to_match_lines("""
        NAME  ID              KIND     BRANCH    DESTROYED            KEPT UNTIL
        foo   [ID]  command  mngr/foo  [TIME]  [DATE]
    """)
    result = e2e.run("mngr undestroy foo")
    expect(result).to_succeed().to_equal("restored foo, which is STOPPED; start it: mngr start foo")
    expect(work_dir).to_match_tree({"hello.txt": "hello\n", "draft.txt": "not yet committed\n"})
    assert agents(e2e)["foo"]["state"] == "STOPPED"
    expect(e2e.run("mngr undestroy foo")).to_fail(1).to_match_lines("""
        Error: there is no agent 'foo' in the trash
        Hint: list the trash: mngr undestroy --list
    """)
