"""The fault pack against `mngr tmr run`: whatever agents do, each task gets the right outcome and the run continues."""

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
def tmr(mngr: MngrProgram) -> Tmr:
    return Tmr(mngr)


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """Return the path of a file that agents look for."""
    return tmp_path / "flag"


def assert_expected_end(ended: Ended, faults: list[Fault]) -> None:
    """Check that every task ended as its fault expects and that nothing else was touched."""
    wrong = [line for fault in faults for line in fault.wrong(ended.tasks.get(fault.name))]
    assert [*wrong, *ended.harm] == [], "\n".join([*wrong, *ended.harm, ended.said])
    assert set(ended.tasks) == {fault.name for fault in faults}
    assert ended.state == "settled"


def assert_parked(ended: Ended) -> None:
    """Check that the run is parked and does not claim to be done."""
    assert (ended.code, ended.state) == (5, "parked"), ended.said
    assert "not finished" in ended.said and ended.harm == []


def wait_until_working(run: Running, count: int) -> dict[str, str]:
    wait_for(lambda: run.process.poll() is not None or len(run.tasks_at_work()) == count, timeout=60)
    assert run.process.poll() is None, run.wait().said
    return run.tasks_at_work()


def sample_faults(faults: list[Fault]) -> list[Fault]:
    """Return a random fifth of the faults, by the seed, and always the plain lie."""
    rng = random.Random(SEED)
    sample = rng.sample(faults, len(faults) // 5)
    return [fault for fault in faults if fault in sample or fault.name == "lie"]


def test_every_fault_ends_with_its_expected_outcome(tmr: Tmr) -> None:
    faults = TOGETHER if IS_FULL_SCALE else sample_faults([fault for fault in TOGETHER if fault.name not in ALIKE])
    ended = tmr.start(faults, Wish(task_seconds=40, stall_seconds=5)).wait()
    assert_expected_end(ended, faults)
    assert ended.code == 4


def test_rate_limited_agents_finish_after_the_limit(tmr: Tmr, flag: Path) -> None:
    flag.touch()
    faults = [well("a"), *(well(f"b{n}", limited(flag, "rate_limit")) for n in range(4))]
    run = tmr.start(faults)
    wait_for(lambda: run.process.poll() is not None or len(run.rows("parked")) >= 5, timeout=60)
    flag.unlink()
    ended = run.wait()
    assert_expected_end(ended, faults)
    assert ended.code == 0 and ended.alarms == [] and run.rows("window")


def test_a_dead_login_stops_launches_and_the_run_can_be_resumed(tmr: Tmr) -> None:
    faults = [well(f"a{n}", {"park": "login"}) for n in range(3)]
    ended = tmr.start(faults, Wish(slots=1)).wait()
    assert_parked(ended)
    assert [(error_kind, "the agent has to log in again" in text) for error_kind, text in ended.alarms] == [
        ("login", True)
    ]
    assert sorted(task.outcome for task in ended.tasks.values()) == ["parked", "queued", "queued"]
    assert "the agent has to log in again" in ended.said
    for queued_count in (1, 0):  # each of the other tasks has the same problem
        ended = tmr.resume().wait()
        assert sum(task.outcome == "queued" for task in ended.tasks.values()) == queued_count
    assert_expected_end(tmr.resume().wait(), faults)


@pytest.mark.full
def test_a_quota_that_outlasts_the_run_leaves_the_task_parked(tmr: Tmr) -> None:
    faults = [well("a"), well("b", {"park": {"reason": "quota", "seconds": 3600}})]
    ended = tmr.start(faults, Wish(seconds=10)).wait()
    assert_parked(ended)
    assert {name: task.outcome for name, task in ended.tasks.items()} == {"a": "unchanged", "b": "parked"}


@pytest.mark.full
def test_similar_failures_of_agents_open_an_alarm_with_cause_code(tmr: Tmr) -> None:
    faults = [Fault(f"a{n}", [{"exit": 3}], "failed") for n in range(7)]
    ended = tmr.start(faults, Wish(slots=1, alarm=3)).wait()
    assert_parked(ended)
    assert [error_kind for error_kind, _ in ended.alarms] == ["code"] and "exit code 3" in ended.alarms[0][1]
    outcomes = [task.outcome for task in ended.tasks.values()]
    assert outcomes.count("failed") + outcomes.count("queued") == 7 and 3 <= outcomes.count("failed") < 6


@pytest.mark.full
def test_a_missing_agent_program_opens_an_alarm_with_cause_dependency(tmr: Tmr) -> None:
    faults = [Fault(f"a{n}", [], "queued") for n in range(4)]
    ended = tmr.start(faults, Wish(alarm=3, agent="opencode")).wait()
    assert_parked(ended)
    assert [error_kind for error_kind, _ in ended.alarms] == ["dependency"], ended.said


@pytest.mark.full
def test_time_spent_parked_does_not_count_toward_the_task_timeout(tmr: Tmr) -> None:
    faults = [well("a", {"park": {"reason": "rate_limit", "seconds": 12}}, {"sleep": 2})]
    assert_expected_end(tmr.start(faults, Wish(task_seconds=10)).wait(), faults)


@pytest.mark.full
def test_a_failed_pull_is_repeated(tmr: Tmr, flag: Path) -> None:
    faults = [well("a", until(flag))]
    run = tmr.start(faults)
    wait_until_working(run, 1)
    folder = run.folder("a")
    folder.rename(folder.with_suffix(".away"))
    folder.write_text("in the way\n")
    flag.touch()
    wait_for(lambda: run.rows("pull_failed"))
    folder.unlink()
    assert_expected_end(run.wait(), faults)
    assert len(run.rows("launch")) == 1


@pytest.mark.full
def test_a_probe_ends_the_alarm_when_the_login_works_again(tmr: Tmr, flag: Path) -> None:
    flag.touch()
    faults = [well(f"a{n}", limited(flag, "login")) for n in range(3)]
    run = tmr.start(faults, Wish(slots=1, probe=True))
    wait_for(lambda: run.process.poll() is not None or run.rows("alarm"), timeout=60)
    flag.unlink()
    ended = run.wait()
    assert_expected_end(ended, faults)
    assert [error_kind for error_kind, _ in ended.alarms] == ["login"] and run.rows("alarm_over")


@pytest.mark.full
def test_a_destroyed_agent_is_created_again(tmr: Tmr, mngr: MngrProgram, flag: Path) -> None:
    faults = [well("a", until(flag)), well("b", until(flag))]
    run = tmr.start(faults)
    mngr("destroy", "--force", wait_until_working(run, 2)["a"])
    wait_for(lambda: run.rows("launch_failed"))
    flag.touch()
    assert_expected_end(run.wait(), faults)


@pytest.mark.full
def test_a_run_survives_the_death_of_the_tmux_server(tmr: Tmr, mngr: MngrProgram, flag: Path) -> None:
    faults = [well("a", until(flag)), well("b", until(flag))]
    run = tmr.start(faults)
    wait_until_working(run, 2)
    mngr.run_tmux("kill-server")
    flag.touch()
    assert_expected_end(run.wait(), faults)


@pytest.mark.full
def test_a_full_disk_ends_the_run_and_resume_finishes_it(tmr: Tmr, flag: Path) -> None:
    faults = [well("a", until(flag)), well("b", until(flag))]
    run = tmr.start(faults)
    wait_until_working(run, 2)
    size = os.path.getsize(run.journal)
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (size, size))
    flag.touch()
    ended = run.wait()
    assert (ended.code, ended.state) == (1, "interrupted") and "mngr tmr resume r" in ended.said
    assert "Traceback" not in ended.said
    assert_expected_end(tmr.resume().wait(), faults)


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_signal_to_the_run_does_not_stop_its_agents(tmr: Tmr, flag: Path, number: int) -> None:
    faults = [well("a", until(flag)), well("b", until(flag))]
    run = tmr.start(faults, Wish(slots=1))
    wait_until_working(run, 1)
    run.kill(number)
    ended = run.wait()
    assert ended.state == "interrupted" and sorted(t.outcome for t in ended.tasks.values()) == [
        "queued",
        "working",
    ]
    assert number != signal.SIGINT or "mngr tmr resume r" in ended.said
    flag.touch()
    assert_expected_end(tmr.resume().wait(), faults)
