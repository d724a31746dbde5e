"""Tests that every change on three hosts gives one notification in time, also if the follower is killed again and again."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from mngr.agents.context import Context
from mngr.agents.create.spec import AgentSpec
from mngr.api import Fleet
from mngr.base.time_format import parse_timestamp
from tests.conftest import IS_FULL_SCALE, MngrProgram, wait_for
from tests.support.hosts.sshd import Farm
from tests.support.notify_follower import Follower, wait_for_count
from tests.support.web_receiver import WebReceiver

PLAYERS, TURNS, PROGRAMS, KILLS = (6, 10, 20, 5) if IS_FULL_SCALE else (1, 5, 5, 2)
COUNT = 3 * PLAYERS * TURNS + PROGRAMS  # 200 at full scale, else 20
MAX_SECONDS = 3.0


def test_each_change_on_three_hosts_is_sent_once_in_time_although_the_follower_is_killed(
    mngr: MngrProgram, farm: Farm, to_receiver: WebReceiver
) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    fleet = Fleet(context=Context(str(mngr.home), cwd=str(mngr.repo), settings=[f"providers.ssh.config={farm.config}"]))
    steps = "[" + ",".join(f'{{"ask": "question {number}?"}}' for number in range(TURNS)) + "]"
    for host in farm.names:
        for number in range(PLAYERS):
            spec = AgentSpec(address=f"{host}-{number}@{host}", kind="player", command=[steps], transfer="copy")
            fleet.create(spec)
    follower = Follower(mngr)
    changers = [threading.Thread(target=make_changes, args=(fleet, host, i)) for i, host in enumerate(farm.names)]
    for changer in changers:
        changer.start()
    starts: list[float] = []  # when a follower was ready again
    for kill in range(KILLS):
        wait_for_count(to_receiver, kill * COUNT // (KILLS + 1) + 1, 60.0)
        follower.kill()
        follower.__exit__()
        follower = Follower(mngr)  # The agents go on while no follower runs.
        starts.append(time.time())
    for changer in changers:
        changer.join()
    wait_for(lambda: len({item["id"] for item in to_receiver.list_json()}) >= COUNT, 60.0)
    wait_for(lambda: "not sent" not in mngr("notify").out)
    follower.__exit__()

    first: dict[str, tuple[float, dict[str, Any]]] = {}
    for request in to_receiver.requests:
        item = request.parse_json()
        first.setdefault(item["id"], (request.at, item))
    repeated = len(to_receiver.requests) - COUNT
    delays = sorted(measure_delay(parse_timestamp(item["at"]), sent_at, starts) for sent_at, item in first.values())
    print(f"{COUNT} changes, {repeated} repeated, median {delays[COUNT // 2]:.2f} s, slowest {delays[-1]:.2f} s")
    assert len(first) == len({(item["name"], item["question"]) for _, item in first.values()}) == COUNT
    assert repeated <= KILLS
    assert delays[-1] < MAX_SECONDS


@pytest.mark.hosts
def test_a_change_on_a_host_that_is_cut_off_is_sent_when_it_answers_again_and_delays_no_other(
    mngr: MngrProgram, farm: Farm, to_receiver: WebReceiver
) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    mark = farm.home("h1") / "go"
    program = f"until [ -e {mark} ]; do sleep 0.1; done; exit 3"
    with Follower(mngr) as follower:
        mngr("create", "far@h1", "--transfer", "copy", "--", "sh", "-c", program)
        mngr("create", "near", "--", "false")
        wait_for_count(to_receiver, 1)
        farm.cut("h1")
        mark.touch()
        wait_for(lambda: "h1 does not answer" in follower.read_stderr(), 60.0)
        mngr("create", "later", "--", "false", code=None)
        wait_for_count(to_receiver, 2)
        farm.mend("h1")
        wait_for_count(to_receiver, 3, 60.0)
        wait_for(lambda: "h1 answers again" in follower.read_stderr(), 60.0)
    titles = [item["title"] for item in to_receiver.list_json()]
    assert titles == ["near has failed (exit 1)", "later has failed (exit 1)", "far has failed (exit 3)"]


def measure_delay(at: float, sent_at: float, starts: list[float]) -> float:
    """Return how long a change took, counted from the last start of a follower before it was sent."""
    return sent_at - max([at, *(start for start in starts if at < start < sent_at)])


def make_changes(fleet: Fleet, host: str, index: int) -> None:
    """Let the agents of a host ask, and start programs that fail."""
    for turn in range(TURNS):
        fleet.message([f"{host}-{number}" for number in range(PLAYERS)], f"turn {turn}", wait=True, timeout=20.0)
        for number in range(PROGRAMS):
            if number % 3 == index and number * TURNS // PROGRAMS == turn:
                fleet.create(
                    AgentSpec(address=f"fails-{number}@{host}", kind="command", command=["false"], transfer="copy")
                )
