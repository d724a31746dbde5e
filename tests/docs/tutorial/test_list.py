"""Filters, fields and formats of `mngr list`."""

from __future__ import annotations

import json

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import run_all

TEAM = "mngr create w --count 2 --label team=red -- sleep 1000"


def test_list_by_state_label_or_host(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # list agents by state, label, project or host
    mngr list --state RUNNING --label team=red
    mngr list --host local --project shop --label tutorial
    """)
    run_all(e2e, TEAM, "mngr create one --label tutorial=yes -- sleep 1000", "mngr stop w-2")
    result = e2e.run("mngr list --state RUNNING --label team=red", comment="list agents by state and label")
    expect(result).to_succeed().to_match_lines("""
        NAME  STATE    KIND     HOST   PROJECT  BRANCH    ACTIVE
        w-1   RUNNING  command  local  shop     mngr/w-1  [DURATION]
    """)
    result = e2e.run(
        "mngr list --host local --project shop --label tutorial", comment="list agents by host and project"
    )
    expect(result).to_succeed().to_match_lines("""
        NAME  STATE    KIND     HOST   PROJECT  BRANCH    ACTIVE
        one   RUNNING  command  local  shop     mngr/one  [DURATION]
    """)
    expect(e2e.run("mngr list --project shop-2")).to_succeed().to_equal("no agent matches")
    expect(e2e.run("mngr list --state RUNING")).to_fail(2).to_match_lines("""
        Error: there is no state 'RUNING'
        Hint: did you mean 'RUNNING'?
    """)


def test_list_by_a_filter_expression(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # list agents that match an expression
    mngr list --filter 'labels.team == red and not (state == DONE)'
    """)
    run_all(e2e, "mngr create w-1 --label team=red -- true", "mngr create w-2 --label team=red -- sleep 1000")
    run_all(e2e, "mngr create other -- sleep 1000", "mngr wait w-1 --state DONE --timeout 20s")
    question = "mngr list --filter 'labels.team == red and not (state == DONE)'"
    expect(
        e2e.run(f"{question} --format '{{name}}'", comment="list agents that match an expression")
    ).to_succeed().to_equal("w-2")
    expect(e2e.run("mngr list --filter 'labels.team = red'")).to_fail(2).to_match_lines("""
        Error: --filter 'labels.team = red': mngr does not understand '= red'
        Hint: for example: --filter 'state == RUNNING and labels.team == red'
    """)


def test_list_shows_chosen_fields(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # choose the columns of the list, and sort its rows
    mngr list --fields name,state,labels,branch --sort -name
    """)
    run_all(e2e, TEAM)
    result = e2e.run("mngr list --fields name,state,labels,branch --sort -name", comment="choose the columns")
    expect(result).to_succeed().to_equal(
        "NAME  STATE    LABELS    BRANCH\nw-2   RUNNING  team=red  mngr/w-2\nw-1   RUNNING  team=red  mngr/w-1\n"
    )
    expect(e2e.run("mngr list --fields name,colour")).to_fail(2).to_match_lines("""
        Error: there is no field 'colour'
        Hint: fields: id, name, ...
    """)


def test_list_git_shows_unpulled_and_uncommitted_work(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # show which agents have uncommitted files, or commits that you have not pulled
    mngr list --git
    """)
    work = "git commit -q --allow-empty -m One; git commit -q --allow-empty -m Two; echo draft > draft.txt"
    run_all(e2e, f"mngr create busy --transfer mirror -- sh -c '{work}'", "mngr create lazy -- sleep 1000")
    run_all(e2e, "mngr wait busy --state DONE --timeout 20s")
    result = e2e.run("mngr list --git", comment="show commits that you have not pulled")
    expect(result).to_succeed().to_match_lines("""
        NAME  STATE    KIND     HOST   PROJECT  BRANCH     ACTIVE  UNPULLED  DIRTY
        busy  DONE     command  local  shop     mngr/busy  ...  2         True
        lazy  RUNNING  command  local  shop     mngr/lazy  ...  0         False
    """)
    run_all(e2e, "mngr pull busy")
    (busy, _) = json.loads(e2e.run("mngr list --git --format json --sort name").stdout)["agents"]
    assert (busy["unpulled"], busy["dirty"]) == (0, True)


def test_list_prints_json_templates_and_ids(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # print the list for other programs: as JSON, in your own format, or with only the ids
    mngr list --format json
    mngr list --format '{name} is {state} on {branch}'
    mngr list --ids
    """)
    run_all(e2e, "mngr create foo -- sleep 1000")
    result = e2e.run("mngr list --format json", comment="print JSON")
    expect(result).to_succeed()
    listing = json.loads(result.stdout)
    (foo,) = listing["agents"]
    assert (listing["v"], listing["errors"], foo["state"], foo["project"]) == (1, [], "RUNNING", "shop")
    result = e2e.run("mngr list --format '{name} is {state} on {branch}'", comment="print your own format")
    expect(result).to_succeed().to_equal("foo is RUNNING on mngr/foo")
    expect(e2e.run("mngr list --ids", comment="print only the ids")).to_succeed().to_equal(foo["id"])
    expect(e2e.run("mngr list --format '{nam}'")).to_fail(2).to_match_lines("""
        Error: there is no field 'nam'
        Hint: did you mean 'name'?
    """)


def test_list_shows_the_hosts(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # list the hosts instead of the agents
    mngr list --hosts
    """)
    run_all(e2e, TEAM)
    expect(e2e.run("mngr list --hosts", comment="list the hosts")).to_succeed().to_match_lines("""
        HOST   PROVIDER  STATE    AGENTS
        local  local     RUNNING  2
    """)


def test_list_watch_stays_until_it_is_ended(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # print the list, and print each change of it; the command timeout ends this example after one second
    timeout 1 mngr list --watch --format '{name} {state}' || test $? -eq 124
    """)
    run_all(e2e, "mngr create foo -- sleep 1000")
    result = e2e.run(
        "timeout 1 mngr list --watch --format '{name} {state}'",
        comment="follow the list for a second",
    )
    expect(result).to_fail(124).to_match_lines("foo RUNNING (?)")


def test_list_watch_shows_a_change_when_it_happens(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # print the list, and print each change of it; the command timeout ends this example after one second
    timeout 1 mngr list --watch --format '{name} {state}' || test $? -eq 124
    """)
    run_all(e2e, "mngr create foo -- sleep 1000")
    terminal = e2e.tty("mngr list --watch --format '{name} {state}'", name="watch", comment="print every change")
    terminal.wait_for("foo RUNNING")
    run_all(e2e, "mngr stop foo")
    terminal.wait_for("foo STOPPED")
    terminal.press("C-c")
    assert terminal.wait() == 130
