"""What can be done to a run from outside: stop it, try again, clean it up."""

from __future__ import annotations

import os
import signal
import time

from mngr.errors import MngrError, NotFound, closest
from mngr.mapreduce.journal import Journal, find_writer
from mngr.mapreduce.state import fold
from mngr.model import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.fleet import Fleet
    from mngr.mapreduce.rundir import RunDir
    from mngr.model import AgentView, Outcome

_GRACE = 10.0  # seconds for an orchestrator to end
_LIVE = ("STARTING", "RUNNING", "WAITING", "PARKED")
AGAIN = ("blocked", "failed", "refuted", "flaky", "unverified")


class Cleaned(Record):
    """What a run had beside its folder."""

    agents: list[str]
    bytes: int  # of its folder, which stays
    problems: list[str] = []


def agents_of(fleet: Fleet, run: RunDir) -> list[AgentView]:
    """Every agent of a run, rooms too."""
    return [agent for agent in fleet.list().agents if agent.labels.get("run") == run.name]


def stop(fleet: Fleet, run: RunDir, *, destroy: bool = False) -> list[Outcome]:
    """End the process that runs it, then all its agents; an outcome each."""
    writer = find_writer(run.journal)
    if writer:
        os.kill(writer, signal.SIGINT)
        deadline = time.monotonic() + _GRACE
        while find_writer(run.journal) == writer:
            if time.monotonic() > deadline:
                os.kill(writer, signal.SIGKILL)
                break
            time.sleep(0.05)
    agents = agents_of(fleet, run)
    if destroy:
        return fleet.destroy([agent.name for agent in agents], force=True)
    return fleet.stop([agent.name for agent in agents if agent.state in _LIVE])


def again(
    run: RunDir,
    tasks: list[str],
    *,
    outcomes: tuple[str, ...] = AGAIN,
    hint: str = "",
    agent: str | None = None,
) -> list[str]:
    """Put settled tasks back: those named by slug or test, or all with such an outcome; their slugs."""
    with Journal(run.journal) as journal:
        state = fold(journal.rows)
        known = {slug: slug for slug in state.tasks} | {
            one.task.title: slug for slug, one in state.tasks.items()
        }
        slugs = []
        for task in tasks:
            if task not in known:
                raise NotFound(
                    f"the run {run.name} has no task {task!r}",
                    closest(task, list(known)) or "see: mngr tmr status",
                )
            slugs.append(known[task])
        for slug in slugs:
            if state.tasks[slug].state != "settled":
                raise MngrError(
                    f"{slug} is not settled yet: it is {state.tasks[slug].state}",
                    f"go on: mngr tmr resume {run.name}",
                )
        if not tasks:
            slugs = [one.task.slug for one in state.in_state("settled") if one.outcome in outcomes]
        data = {key: value for key, value in (("hint", hint), ("agent", agent)) if value}
        for slug in slugs:
            journal.write("again", slug=slug, data=data)
    return slugs


def clean(fleet: Fleet, run: RunDir, *, dry_run: bool = False) -> Cleaned:
    """Put the agents of a run in the graveyard; its folder stays."""
    writer = find_writer(run.journal)
    if writer is not None:
        raise MngrError(
            f"the run {run.name} goes on in process {writer}", f"stop it first: mngr tmr stop {run.name}"
        )
    agents = agents_of(fleet, run)
    names = [agent.name for agent in agents]
    size = sum(_size(os.path.join(top, name)) for top, _, files in os.walk(run.path) for name in files)
    if dry_run:
        return Cleaned(agents=names, bytes=size)
    rooms = [agent.name for agent in agents if agent.labels.get("role") == "room"]
    outcomes = fleet.discard(rooms) + fleet.destroy([name for name in names if name not in rooms], force=True)
    problems = [f"{outcome.name}: {outcome.error}" for outcome in outcomes if not outcome.ok]
    return Cleaned(agents=names, bytes=size, problems=problems)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
