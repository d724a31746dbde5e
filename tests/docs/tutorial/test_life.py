"""Names, labels, limits, copies, snapshots, and the end of agents."""

from __future__ import annotations

from pathlib import Path

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import agents, run_all, work

TEAM = "mngr create w --count 3 --label team=red -- sleep 1000"
POET = "mngr create poet player -m hello"
WAIT = "mngr wait poet --state WAITING --timeout 20s"


def test_rename_keeps_id_branch_and_work_dir(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # rename an agent; its id, branch and work dir stay the same
    mngr rename apart mirror
    mngr list --filter 'name == mirror'
    """)
    run_all(e2e, "mngr create apart --transfer mirror -- sleep 1000")
    before = agents(e2e)["apart"]
    result = e2e.run("mngr rename apart mirror", comment="the id, branch and work dir stay the same")
    expect(result).to_succeed().to_equal("apart is now mirror")
    expect(e2e.run("mngr list --filter 'name == mirror'")).to_succeed().to_match_lines("""
        NAME    STATE    KIND     HOST   PROJECT  BRANCH      ACTIVE
        mirror  RUNNING  command  local  shop     mngr/apart  [DURATION]
    """)
    after = agents(e2e)["mirror"]
    unchanged = ("id", "branch", "work_dir", "pid")
    assert {key: after[key] for key in unchanged} == {key: before[key] for key in unchanged}
    expect(e2e.run("mngr rename apart other")).to_fail(1).to_match_lines("""
        Error: there is no agent 'apart'
        Hint: ...
    """)


def test_labels_can_be_set_and_removed(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # add labels to an agent, and remove one of them
    mngr label mirror w-1 team=green urgent=yes
    mngr label mirror urgent-
    """)
    run_all(e2e, "mngr create mirror -- sleep 1000", "mngr create w-1 --label team=red -- sleep 1000")
    result = e2e.run(
        "mngr label mirror w-1 team=green urgent=yes", comment="add labels to an agent, and remove one of them"
    )
    expect(result).to_succeed().to_match_lines("""
        mirror: team=green urgent=yes
        w-1: team=green urgent=yes
    """)
    expect(e2e.run("mngr label mirror urgent-")).to_succeed().to_equal("mirror: team=green")
    assert {name: agent["labels"] for name, agent in agents(e2e).items()} == {
        "mirror": {"team": "green"},
        "w-1": {"team": "green", "urgent": "yes"},
    }
    expect(e2e.run("mngr label mirror")).to_fail(2).to_match_lines("""
        Error: you gave no label
        Hint: set one: mngr label NAME K=V; remove one: mngr label NAME K-
    """)


def test_limits_can_be_set_shown_and_removed(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # stop an agent automatically after half an hour without activity, or when it is one day old; then print its limits
    mngr limit w-1 --idle 30m --lifetime 1d
    mngr limit w-1
    """)
    e2e.write_tutorial_block("""
    # remove the agent's limits
    mngr limit w-1 --idle none --lifetime none
    """)
    run_all(e2e, "mngr create w-1 -- sleep 1000")
    expect(e2e.run("mngr limit w-1 --idle 30m --lifetime 1d", comment="stop the agent when it is idle")).to_succeed()
    result = e2e.run("mngr limit w-1", comment="show the limits")
    expect(result).to_succeed().to_equal("w-1: idle 30m, lifetime 1d")
    expect(e2e.run("mngr limit w-1 --idle soon")).to_fail(2).to_match_lines("""
        Error: ...'soon' is not a length of time
        Hint: write it as 90s, 10m, 1h30m or 2d
    """)
    expect(e2e.run("mngr limit w-1 --idle none --lifetime none", comment="remove the agent's limits")).to_succeed()
    expect(e2e.run("mngr limit w-1")).to_succeed().to_equal("w-1: no limits")


def test_clone_copies_files_and_conversation(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # copy an agent with its commits, uncommitted files and conversation
    mngr clone poet poet-2
    mngr transcript poet-2
    """)
    run_all(e2e, POET, "mngr exec poet -- sh -c 'echo draft > draft.txt'", WAIT)
    expect(e2e.run("mngr clone poet poet-2", comment="clone an agent with everything it has")).to_succeed()
    result = e2e.run("mngr transcript poet-2", comment="the clone has the conversation")
    expect(result).to_succeed().to_contain("  hello\n", "  ok: hello\n")
    expect(work(e2e, "poet-2")).to_match_tree({"draft.txt": "draft\n", "README.md": "a shop\n"})
    expect(e2e.run("mngr clone poet poet-2")).to_fail(1).to_match_lines("""
        Error: there is already an agent called 'poet-2'
        Hint: choose another name, or destroy that agent: mngr destroy poet-2
    """)


def test_migrate_moves_an_agent_to_another_host_and_back(e2e: E2eSession, box: Path) -> None:
    e2e.write_tutorial_block("""
    # if your ssh configuration contains the host box, move the agent to this host and back, with its files and conversation
    if ssh -o BatchMode=yes -o ConnectTimeout=2 box true 2>/dev/null; then mngr migrate poet-2 @box && mngr migrate poet-2 @local; fi
    """)
    run_all(e2e, "mngr create poet-2 player", "mngr exec poet-2 -- sh -c 'echo draft > draft.txt'")
    before = agents(e2e)["poet-2"]
    result = e2e.run(
        "if ssh -o BatchMode=yes -o ConnectTimeout=2 box true 2>/dev/null;"
        " then mngr migrate poet-2 @box && mngr migrate poet-2 @local; fi",
        comment="move the agent to another host with its uncommitted files, and back",
    )
    expect(result).to_succeed().to_match_lines("""
        poet-2 is ... on box
        poet-2 is ... on local
    """)
    after = agents(e2e)["poet-2"]
    assert (after["id"], after["host"]) == (before["id"], "local")
    expect(Path(after["work_dir"])).to_match_tree({"draft.txt": "draft\n"})
    assert not list(box.glob(".mngr/agents/*"))


def test_migrate_to_an_unreachable_host_changes_nothing(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # if your ssh configuration contains the host box, move the agent to this host and back, with its files and conversation
    if ssh -o BatchMode=yes -o ConnectTimeout=2 box true 2>/dev/null; then mngr migrate poet-2 @box && mngr migrate poet-2 @local; fi
    """)
    run_all(e2e, "mngr create poet-2 player")
    expect(e2e.run("mngr migrate poet-2 @box.invalid.ssh")).to_fail(6).to_match_lines("""
        Error: box.invalid cannot be reached: ...
        Hint: see whether ssh works: ssh box.invalid true
    """)
    poet = agents(e2e)["poet-2"]
    assert (poet["host"], poet["state"]) == ("local", "WAITING")


def test_snapshots_can_be_created_restored_and_destroyed(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # save the agent's files and conversation as a snapshot
    mngr snapshot create poet before
    mngr snapshot list
    """)
    e2e.write_tutorial_block("""
    # create an agent from the snapshot, but do not start the agent
    mngr snapshot restore before again --no-start
    """)
    e2e.write_tutorial_block("""
    # delete the snapshot
    mngr snapshot destroy before
    """)
    run_all(e2e, POET, WAIT)
    result = e2e.run(
        "mngr snapshot create poet before", comment="save the agent's files and conversation as a snapshot"
    )
    expect(result).to_succeed()
    expect(result.stdout).to_equal("before is a snapshot of poet")
    expect(e2e.run("mngr snapshot list")).to_succeed().to_match_lines("""
        NAME    AGENT  KIND    BRANCH     CREATED
        before  poet   player  mngr/poet  [TIME]
    """)
    result = e2e.run("mngr snapshot restore before again --no-start", comment="create an agent from the snapshot")
    expect(result).to_succeed().to_equal("again is STOPPED on mngr/again")
    assert agents(e2e)["again"]["state"] == "STOPPED"
    expect(e2e.run("mngr transcript again")).to_contain("  hello\n")
    expect(e2e.run("mngr snapshot destroy before", comment="delete the snapshot")).to_succeed()
    expect(e2e.run("mngr snapshot restore before other")).to_fail(1).to_match_lines("""
        Error: there is no snapshot 'before'
        Hint: list the snapshots: mngr snapshot list
    """)


def test_stop_and_destroy_take_names_or_a_list(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # stop agents by their names, and destroy all agents in a list
    mngr stop w-1 w-2
    mngr list --ids --label team=red | mngr stop -
    mngr list --ids --label team=red --state STOPPED | mngr destroy -
    """)
    run_all(e2e, TEAM)
    expect(e2e.run("mngr stop w-1 w-2", comment="stop several agents by name")).to_succeed().to_match_lines("""
        stopped w-1
        stopped w-2
    """)
    result = e2e.run("mngr list --ids --label team=red | mngr stop -", comment="stop agents from a list")
    expect(result).to_succeed().to_contain("stopped w-3", "w-1 had ended already (STOPPED)")
    assert {agent["state"] for agent in agents(e2e).values()} == {"STOPPED"}
    result = e2e.run("mngr list --ids --label team=red --state STOPPED | mngr destroy -")
    expect(result).to_succeed().to_match_lines("destroyed w-... (3)")
    assert agents(e2e) == {}


def test_stop_of_several_agents_reports_the_missing_ones(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # stop agents by their names, and destroy all agents in a list
    mngr stop w-1 w-2
    mngr list --ids --label team=red | mngr stop -
    mngr list --ids --label team=red --state STOPPED | mngr destroy -
    """)
    run_all(e2e, "mngr create w-1 -- sleep 1000")
    expect(e2e.run("mngr stop w-1 w-2")).to_fail(4).to_match_lines("""
        stopped w-1
        Error: w-2: there is no agent 'w-2'
        Hint: list the agents: mngr list
    """)
    assert agents(e2e)["w-1"]["state"] == "STOPPED"


def test_undestroy_under_another_name(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # restore a destroyed agent, and give it another name
    mngr destroy --force seen
    mngr undestroy seen --as seen-again
    """)
    run_all(e2e, "mngr create seen -- sleep 1000", "mngr destroy --force seen", "mngr create seen -- sleep 1000")
    expect(e2e.run("mngr undestroy seen", comment="the name is used in the meantime")).to_fail(1).to_match_lines("""
        Error: another agent is called 'seen' now
        Hint: restore it under a new name: mngr undestroy [ID] --as NAME
    """)
    result = e2e.run(
        "mngr undestroy seen --as seen-again", comment="restore a destroyed agent, and give it another name"
    )
    expect(result).to_succeed()
    expect(result.stdout).to_equal("restored seen-again, which is STOPPED; start it: mngr start seen-again")
    assert {name: agent["state"] for name, agent in agents(e2e).items()} == {
        "seen": "RUNNING",
        "seen-again": "STOPPED",
    }


def test_gc_removes_expired_agents_from_the_trash(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # clean up after interrupted commands, and delete old agents from the trash; --dry-run only prints what mngr would do
    mngr gc --dry-run
    mngr gc
    """)
    run_all(e2e, "mngr create foo -- sleep 1000", "mngr destroy --force foo")
    expect(e2e.run("mngr gc --dry-run", comment="only show what gc would do")).to_succeed().to_equal(
        "nothing to clean up"
    )
    expired = "-S trash.keep=0s"
    result = e2e.run(f"mngr gc --dry-run {expired}", comment="once the agents in the trash have expired")
    expect(result).to_succeed().to_contain("foo")
    expect(e2e.run("mngr undestroy --list")).to_contain("foo")
    expect(e2e.run(f"mngr gc {expired}")).to_succeed().to_contain("foo")
    expect(e2e.run("mngr undestroy foo", comment="the agent cannot be restored any more")).to_fail(1).to_match_lines("""
        Error: there is no agent 'foo' in the trash
        Hint: list the trash: mngr undestroy --list
    """)
    expect(e2e.run("mngr gc", comment="clean up")).to_succeed().to_equal("nothing to clean up")
