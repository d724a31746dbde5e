"""Moving work between you and an agent: commits, outputs, files, git and ssh."""

from __future__ import annotations

from pathlib import Path

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import run_all, work

APART = """mngr create apart --transfer mirror -- sh -c 'echo done > result.txt; git add .; git commit -qm "Done"'"""
DONE = "mngr wait apart --state DONE --timeout 20s"


def test_pull_fetches_the_branch_of_an_agent(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # fetch the branch of an agent that has its own repository; mngr checks the commits first
    mngr pull apart
    git log --oneline -1 mngr/apart
    """)
    run_all(e2e, APART, DONE)
    expect(e2e.run("git rev-parse -q --verify mngr/apart", comment="the branch is not here yet")).to_fail(1)
    result = e2e.run("mngr pull apart", comment="fetch the agent's branch")
    expect(result).to_succeed().to_match_lines("mngr/apart is at <commit> (1 new commit)")
    expect(e2e.run("git log --oneline -1 mngr/apart")).to_succeed().to_match_lines("[HASH] Done")
    run_all(e2e, "git branch -f mngr/apart $(git commit-tree -m Mine 'HEAD^{tree}')")
    result = e2e.run("mngr pull apart", comment="mngr never overwrites your own work")
    expect(result).to_fail(1).to_match_lines("""
        Error: your branch 'mngr/apart' has commits that the agent's branch does not have
        Hint: rename your branch: git branch -m mngr/apart NEW; or give your commits to the agent: git switch mngr/apart && mngr push apart
    """)
    expect(e2e.run("git log --format=%s mngr/apart")).to_equal("Mine")


def test_pull_copies_the_outputs(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # fetch the files that an agent has written to its output directory
    mngr create reporter -- sh -c 'echo "all is well" > "$MNGR_OUTPUT_DIR/report.txt"'
    mngr wait reporter --state DONE --timeout 20s
    mngr pull reporter
    cat .mngr/outputs/reporter/report.txt
    """)
    run_all(e2e, """mngr create reporter -- sh -c 'echo "all is well" > "$MNGR_OUTPUT_DIR/report.txt"'""")
    run_all(e2e, "mngr wait reporter --state DONE --timeout 20s")
    result = e2e.run("mngr pull reporter", comment="fetch the files that an agent has written to its output directory")
    expect(result).to_succeed().to_match_lines("""
        mngr/reporter is at [HASH] (0 new commits)
        1 output in [CWD]/.mngr/outputs/reporter
    """)
    expect(shop).to_match_tree({".mngr/outputs/reporter/report.txt": "all is well\n"})
    expect(e2e.run("git status --short", comment="git does not see the file")).to_be_empty()


def test_pull_and_push_copy_single_files(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # copy a file from an agent, and another file to an agent
    mngr pull apart:result.txt ..
    mngr push ../result.txt foo:results/
    """)
    run_all(e2e, APART, "mngr create foo -- sleep 1000", DONE)
    expect(e2e.run("mngr pull apart:result.txt ..", comment="copy a file from an agent")).to_succeed()
    expect(e2e.run("mngr push ../result.txt foo:results/", comment="copy a file to an agent")).to_succeed()
    expect(e2e.root / "place").to_match_tree({"result.txt": "done\n"})
    expect(work(e2e, "foo")).to_match_tree({"results/result.txt": "done\n"})
    expect(e2e.run("mngr pull apart:gone.txt ..")).to_fail(1).to_match_lines("""
        Error: apart has no file 'gone.txt'
        Hint: list its files: mngr exec apart -- ls .
    """)
    expect(e2e.run("mngr push ../gone.txt foo:results/")).to_fail(1).to_match_lines("""
        Error: there is no file '[CWD]/../gone.txt'
        Hint: list the files: ls
    """)


def test_push_gives_an_agent_your_commits(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # merge your new commits into an agent's branch
    git commit -q --allow-empty -m 'Meanwhile'
    mngr push apart
    """)
    e2e.write_tutorial_block("""
    # fetch an agent's branch with git fetch
    git fetch -q mngr::apart mngr/apart
    git log --oneline -1 FETCH_HEAD
    """)
    run_all(e2e, APART, DONE, "git commit -q --allow-empty -m 'Meanwhile'")
    result = e2e.run("mngr push apart", comment="merge your new commits into an agent's branch")
    expect(result).to_succeed().to_match_lines("apart has a merge commit: mngr/apart is at [HASH]")
    expect(e2e.run("git fetch -q mngr::apart mngr/apart", comment="fetch with git itself")).to_succeed()
    result = e2e.run("git log --oneline -1 FETCH_HEAD")
    expect(result).to_succeed().to_match_lines("[HASH] Merge main into mngr/apart")
    expect(e2e.run("git log --format=%s FETCH_HEAD").stdout).to_contain("Meanwhile", "Done")
    expect(e2e.run("git fetch -q mngr::part mngr/apart")).to_fail(128).to_match_lines("""
        Error: there is no agent 'part'
        Hint: did you mean 'apart'?
    """)


def test_a_push_that_conflicts_is_undone(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # merge your new commits into an agent's branch
    git commit -q --allow-empty -m 'Meanwhile'
    mngr push apart
    """)
    run_all(e2e, APART, DONE, "echo mine > result.txt && git add . && git commit -qm 'Meanwhile'")
    expect(e2e.run("mngr push apart")).to_fail(1).to_match_lines("""
        Error: ...result.txt...
        Hint: ...
    """)
    expect(work(e2e, "apart")).to_match_tree({"result.txt": "done\n"})
    expect(e2e.run("mngr exec apart -- git status --short")).to_be_empty()


def test_ssh_reaches_every_agent(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # write an ssh configuration that contains each agent as a host, so that ssh, rsync, scp and editors can connect to agents
    mngr ssh-config --write
    mngr ssh-config --format '{alias}'
    """)
    run_all(e2e, "mngr create foo -- sleep 1000")
    result = e2e.run("mngr ssh-config --write", comment="write one ssh entry per agent")
    expect(result).to_succeed().to_match_lines("""
        <config>
        add this line once, at the top of ~/.ssh/config:
        Include <config>
    """)
    expect(e2e.run("mngr ssh-config --format '{alias}'")).to_succeed().to_equal("foo.mngr")
    expect(e2e.run("ssh -F <config> foo.mngr cat README.md")).to_succeed().to_contain("a shop")
    run_all(e2e, "mngr create bar -- sleep 1000")
    expect(Path(e2e.names["config"]).read_text()).to_match(r"^Host foo\.mngr\b").to_match(r"^Host bar\.mngr\b")


def test_pipe_serves_one_ssh_connection(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # run the command that ssh uses to connect to an agent; without an ssh client, it ends immediately
    mngr pipe foo < /dev/null || true
    """)
    run_all(e2e, "mngr create foo -- sleep 1000")
    result = e2e.run("mngr pipe foo < /dev/null || true", comment="without a client it ends at once")
    expect(result).to_succeed()
    expect(result.stdout).to_match(r"^SSH-2\.0-")
    result = e2e.run("mngr pipe fo < /dev/null")
    expect(result).to_fail(1)
    expect(result.stderr).to_match_lines("""
        Error: there is no agent 'fo'
        Hint: did you mean 'foo'?
    """)
