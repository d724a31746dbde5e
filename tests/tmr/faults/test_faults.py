"""The fault pack against `mngr tmr run`: whatever agents do, each task ends as what it is and the run goes on."""

from __future__ import annotations

import os
import random
import resource
import signal
from pathlib import Path

import pytest

from tests.conftest import IS_FULL_SCALE, SEED, MngrProgram, wait_for
from tests.tmr.faults.ours import Running, Tmr
from tests.tmr.faults.pack import ALIKE, TOGETHER, Ended, Fault, Wish, limited, until, well

pytestmark = pytest.mark.agents


@pytest.fixture
def ours(mngr: MngrProgram) -> Tmr:
    return Tmr(mngr)


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """A file that agents look for."""
    return tmp_path / "flag"


def is_well(ended: Ended, faults: list[Fault]) -> None:
    """Everything has the end it must have, and nothing else was touched."""
    wrong = [line for fault in faults for line in fault.wrong(ended.tasks.get(fault.name))]
    assert [*wrong, *ended.harm] == [], "\n".join([*wrong, *ended.harm, ended.said])
    assert set(ended.tasks) == {fault.name for fault in faults}
    assert ended.state == "settled"


def is_not_over(ended: Ended) -> None:
    """What is parked is never called done."""
    assert (ended.code, ended.state) == (5, "parked"), ended.said
    assert "not over" in ended.said and ended.harm == []


def at_work(run: Running, count: int) -> dict[str, str]:
    wait_for(lambda: run.process.poll() is not None or len(run.tasks_at_work()) == count, timeout=60)
    assert run.process.poll() is None, run.wait().said
    return run.tasks_at_work()


def drawn(faults: list[Fault]) -> list[Fault]:
    """A fifth of them, as the seed has it; the plain lie always."""
    chance = random.Random(SEED)
    some = chance.sample(faults, len(faults) // 5)
    return [fault for fault in faults if fault in some or fault.name == "lie"]


def test_whatever_agents_do_each_task_ends_as_what_it_is(ours: Tmr) -> None:
    faults = TOGETHER if IS_FULL_SCALE else drawn([fault for fault in TOGETHER if fault.name not in ALIKE])
    ended = ours.start(faults, Wish(task_seconds=40, stall_seconds=5)).wait()
    is_well(ended, faults)
    assert ended.code == 4


def test_limits_for_all_but_the_first_ones_lose_nothing(ours: Tmr, flag: Path) -> None:
    flag.touch()
    faults = [well("a"), *(well(f"b{n}", limited(flag, "rate_limit")) for n in range(4))]
    run = ours.start(faults)
    wait_for(lambda: run.process.poll() is not None or len(run.rows("parked")) >= 5, timeout=60)
    flag.unlink()
    ended = run.wait()
    is_well(ended, faults)
    assert ended.code == 0 and ended.alarms == [] and run.rows("window")


def test_a_dead_login_ends_the_launches_at_once_and_can_be_mended(ours: Tmr) -> None:
    faults = [well(f"a{n}", {"park": "login"}) for n in range(3)]
    ended = ours.start(faults, Wish(slots=1)).wait()
    is_not_over(ended)
    assert [(cause, "the login is dead" in text) for cause, text in ended.alarms] == [("login", True)]
    assert sorted(task.outcome for task in ended.tasks.values()) == ["parked", "queued", "queued"]
    assert "the login is dead" in ended.said
    for left in (1, 0):  # each of the others has the same trouble
        ended = ours.resume().wait()
        assert sum(task.outcome == "queued" for task in ended.tasks.values()) == left
    is_well(ours.resume().wait(), faults)


@pytest.mark.full
def test_a_quota_that_outlasts_the_run(ours: Tmr) -> None:
    faults = [well("a"), well("b", {"park": {"reason": "quota", "seconds": 3600}})]
    ended = ours.start(faults, Wish(seconds=10)).wait()
    is_not_over(ended)
    assert {name: task.outcome for name, task in ended.tasks.items()} == {"a": "unchanged", "b": "parked"}


@pytest.mark.full
def test_those_that_fail_alike_are_the_codes_trouble(ours: Tmr) -> None:
    faults = [Fault(f"a{n}", [{"exit": 3}], "failed") for n in range(7)]
    ended = ours.start(faults, Wish(slots=1, alarm=3)).wait()
    is_not_over(ended)
    assert [cause for cause, _ in ended.alarms] == ["code"] and "exit code 3" in ended.alarms[0][1]
    outcomes = [task.outcome for task in ended.tasks.values()]
    assert outcomes.count("failed") + outcomes.count("queued") == 7 and 3 <= outcomes.count("failed") < 6


@pytest.mark.full
def test_a_program_that_is_not_there_is_a_dependencys_trouble(ours: Tmr) -> None:
    faults = [Fault(f"a{n}", [], "queued") for n in range(4)]
    ended = ours.start(faults, Wish(alarm=3, agent="opencode")).wait()
    is_not_over(ended)
    assert [cause for cause, _ in ended.alarms] == ["dependency"], ended.said


@pytest.mark.full
def test_time_spent_parked_is_not_the_tasks_own(ours: Tmr) -> None:
    faults = [well("a", {"park": {"reason": "rate_limit", "seconds": 12}}, {"sleep": 2})]
    is_well(ours.start(faults, Wish(task_seconds=10)).wait(), faults)


@pytest.mark.full
def test_what_could_not_be_brought_home_is_fetched_again(ours: Tmr, flag: Path) -> None:
    faults = [well("a", until(flag))]
    run = ours.start(faults)
    at_work(run, 1)
    place = run.folder("a")
    place.rename(place.with_suffix(".away"))
    place.write_text("in the way\n")
    flag.touch()
    wait_for(lambda: run.rows("pull_failed"))
    place.unlink()
    is_well(run.wait(), faults)
    assert len(run.rows("launch")) == 1


@pytest.mark.full
def test_a_probe_finds_out_that_it_is_over(ours: Tmr, flag: Path) -> None:
    flag.touch()
    faults = [well(f"a{n}", limited(flag, "login")) for n in range(3)]
    run = ours.start(faults, Wish(slots=1, probe=True))
    wait_for(lambda: run.process.poll() is not None or run.rows("alarm"), timeout=60)
    flag.unlink()
    ended = run.wait()
    is_well(ended, faults)
    assert [cause for cause, _ in ended.alarms] == ["login"] and run.rows("alarm_over")


@pytest.mark.full
def test_one_that_somebody_destroys_is_made_again(ours: Tmr, mngr: MngrProgram, flag: Path) -> None:
    faults = [well("a", until(flag)), well("b", until(flag))]
    run = ours.start(faults)
    mngr("destroy", "--force", at_work(run, 2)["a"])
    wait_for(lambda: run.rows("launch_failed"))
    flag.touch()
    is_well(run.wait(), faults)


@pytest.mark.full
def test_a_tmux_server_that_dies_takes_nothing_with_it(ours: Tmr, mngr: MngrProgram, flag: Path) -> None:
    faults = [well("a", until(flag)), well("b", until(flag))]
    run = ours.start(faults)
    at_work(run, 2)
    mngr.run_tmux("kill-server")
    flag.touch()
    is_well(run.wait(), faults)


@pytest.mark.full
def test_a_full_disk_ends_it_and_it_goes_on_when_there_is_room(ours: Tmr, flag: Path) -> None:
    faults = [well("a", until(flag)), well("b", until(flag))]
    run = ours.start(faults)
    at_work(run, 2)
    size = os.path.getsize(run.journal)
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (size, size))
    flag.touch()
    ended = run.wait()
    assert (ended.code, ended.state) == (1, "interrupted") and "mngr tmr resume r" in ended.said
    assert "Traceback" not in ended.said
    is_well(ours.resume().wait(), faults)


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_who_ends_the_run_ends_no_agent(ours: Tmr, flag: Path, number: int) -> None:
    faults = [well("a", until(flag)), well("b", until(flag))]
    run = ours.start(faults, Wish(slots=1))
    at_work(run, 1)
    run.kill(number)
    ended = run.wait()
    assert ended.state == "interrupted" and sorted(t.outcome for t in ended.tasks.values()) == [
        "queued",
        "working",
    ]
    assert number != signal.SIGINT or "mngr tmr resume r" in ended.said
    flag.touch()
    is_well(ours.resume().wait(), faults)
