"""Moving work between you and an agent: commits, outputs, files, git and ssh."""

from __future__ import annotations

from pathlib import Path

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import run_all, work

APART = """mngr create apart --transfer mirror -- sh -c 'echo done > result.txt; git add .; git commit -qm "Done"'"""
DONE = "mngr wait apart --state DONE --timeout 20s"


def test_pull_fetches_the_branch_of_an_agent(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # an agent with a repository of its own: bring its branch here, checked
    mngr pull apart
    git log --oneline -1 mngr/apart
    """)
    run_all(e2e, APART, DONE)
    expect(e2e.run("git rev-parse -q --verify mngr/apart", comment="not here yet")).to_fail(1)
    result = e2e.run("mngr pull apart", comment="bring its branch here, checked")
    expect(result).to_succeed().to_match_lines("mngr/apart is at <commit> (1 new commit)")
    expect(e2e.run("git log --oneline -1 mngr/apart")).to_succeed().to_match_lines("[HASH] Done")
    run_all(e2e, "git branch -f mngr/apart $(git commit-tree -m Mine 'HEAD^{tree}')")
    result = e2e.run("mngr pull apart", comment="what is yours is never overwritten")
    expect(result).to_fail(1).to_match_lines("""
        Error: the branch 'mngr/apart' here has commits the agent's does not have
        Hint: rename yours (git branch -m mngr/apart NEW), or go to it and push it first: mngr push apart
    """)
    expect(e2e.run("git log --format=%s mngr/apart")).to_equal("Mine")


def test_pull_copies_the_outputs(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # what it leaves in its output directory comes along
    mngr create reporter -- sh -c 'echo "all is well" > "$MNGR_OUTPUT_DIR/report.txt"'
    mngr wait reporter --state DONE --timeout 20s
    mngr pull reporter
    cat .mngr/outputs/reporter/report.txt
    """)
    run_all(e2e, """mngr create reporter -- sh -c 'echo "all is well" > "$MNGR_OUTPUT_DIR/report.txt"'""")
    run_all(e2e, "mngr wait reporter --state DONE --timeout 20s")
    result = e2e.run("mngr pull reporter", comment="what it leaves in its output directory comes along")
    expect(result).to_succeed().to_match_lines("""
        mngr/reporter is at [HASH] (0 new commits)
        1 output in [CWD]/.mngr/outputs/reporter
    """)
    expect(shop).to_match_tree({".mngr/outputs/reporter/report.txt": "all is well\n"})
    expect(e2e.run("git status --short", comment="and git does not see it")).to_be_empty()


def test_pull_and_push_copy_single_files(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # copy a file from an agent, and one to it
    mngr pull apart:result.txt ..
    mngr push ../result.txt foo:results/
    """)
    run_all(e2e, APART, "mngr create foo -- sleep 1000", DONE)
    expect(e2e.run("mngr pull apart:result.txt ..", comment="copy a file from an agent")).to_succeed()
    expect(e2e.run("mngr push ../result.txt foo:results/", comment="and one to it")).to_succeed()
    expect(e2e.root / "place").to_match_tree({"result.txt": "done\n"})
    expect(work(e2e, "foo")).to_match_tree({"results/result.txt": "done\n"})
    expect(e2e.run("mngr pull apart:gone.txt ..")).to_fail(1).to_match_lines("""
        Error: apart has no 'gone.txt'
        Hint: look with: mngr exec apart -- ls .
    """)
    expect(e2e.run("mngr push ../gone.txt foo:results/")).to_fail(1).to_match_lines("""
        Error: there is no '[CWD]/../gone.txt' here
        Hint: check the path
    """)


def test_push_gives_an_agent_your_commits(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # give an agent the commits you made since
    git commit -q --allow-empty -m 'Meanwhile'
    mngr push apart
    """)
    e2e.write_tutorial_block("""
    # git itself can fetch from any agent
    git fetch -q mngr::apart mngr/apart
    git log --oneline -1 FETCH_HEAD
    """)
    run_all(e2e, APART, DONE, "git commit -q --allow-empty -m 'Meanwhile'")
    result = e2e.run("mngr push apart", comment="give an agent the commits you made since")
    expect(result).to_succeed().to_match_lines("apart has it in a merge commit: mngr/apart is at [HASH]")
    expect(e2e.run("git fetch -q mngr::apart mngr/apart", comment="git itself can fetch")).to_succeed()
    result = e2e.run("git log --oneline -1 FETCH_HEAD")
    expect(result).to_succeed().to_match_lines("[HASH] Merge main into mngr/apart")
    expect(e2e.run("git log --format=%s FETCH_HEAD").stdout).to_contain("Meanwhile", "Done")
    expect(e2e.run("git fetch -q mngr::part mngr/apart")).to_fail(128).to_match_lines("""
        Error: there is no agent 'part'
        Hint: did you mean 'apart'?
    """)


def test_a_push_that_conflicts_is_undone(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # give an agent the commits you made since
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
    # ssh, rsync, scp and editors reach every agent too: one entry each, in a file that follows the agents
    mngr ssh-config --write
    mngr ssh-config --format '{alias}'
    """)
    run_all(e2e, "mngr create foo -- sleep 1000")
    result = e2e.run("mngr ssh-config --write", comment="one entry each, in a file that follows the agents")
    expect(result).to_succeed().to_match_lines("""
        <config>
        add this line at the top of ~/.ssh/config, once:
        Include <config>
    """)
    expect(e2e.run("mngr ssh-config --format '{alias}'")).to_succeed().to_equal("foo.mngr")
    expect(e2e.run("ssh -F <config> foo.mngr cat README.md")).to_succeed().to_contain("a shop")
    run_all(e2e, "mngr create bar -- sleep 1000")
    expect(Path(e2e.names["config"]).read_text()).to_match(r"^Host foo\.mngr\b").to_match(r"^Host bar\.mngr\b")


def test_pipe_serves_one_ssh_connection(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # what such an entry runs: an sshd for one connection, which listens nowhere; here nobody talks to it, so it hangs up
    mngr pipe foo < /dev/null || true
    """)
    run_all(e2e, "mngr create foo -- sleep 1000")
    result = e2e.run("mngr pipe foo < /dev/null || true", comment="here nobody talks to it, so it hangs up")
    expect(result).to_succeed()
    expect(result.stdout).to_match(r"^SSH-2\.0-")
    result = e2e.run("mngr pipe fo < /dev/null")
    expect(result).to_fail(1)
    expect(result.stderr).to_match_lines("""
        Error: there is no agent 'fo'
        Hint: did you mean 'foo'?
    """)
