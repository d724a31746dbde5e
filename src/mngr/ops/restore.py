"""`restore`: an agent from a saved directory, in named steps with undo, as `create` makes one."""

from __future__ import annotations

import json
import os

from mngr import clock, config, names, store
from mngr.errors import MngrError
from mngr.model import Record
from mngr.ops import environment, project, sandbox
from mngr.ops.discard import RESTORING, discard
from mngr.ops.launch import install_lib
from mngr.ops.restore_work import Work, restore_work
from mngr.ops.save import AGENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.host import Host
    from mngr.model import AgentRecord
    from mngr.ops.context import Context

# What belongs to the agent that was, not to the one that is made from it.
_OF_THE_PAST = (
    "agent.json",
    "command",
    "exit",
    "proc",
    "stopped",
    "status",
    "lock",
    "limit",
    "saved",
    RESTORING,
    "raw",
)


class Wish(Record):
    """What shall become of a saved agent."""

    operation: str  # undestroy | clone | snapshot restore
    name: str
    agent_id: str | None = None  # None: it is a new one
    branch: str | None = None  # None: the branch it had
    spare: str | None = None  # a branch to take if the one it had is checked out elsewhere
    set_up: bool = False  # run the project's set-up, for ignored files are not saved


class Restored(Record):
    """The agent, stopped, and what there is to say about it."""

    record: AgentRecord
    notes: list[str]


class _Task(Record):
    """What the steps work on."""

    ctx: Context
    host: Host
    place: str
    meta: dict[str, Any]
    wish: Wish
    notes: list[str]


class Taken(MngrError):
    """Another command is making this very agent."""


def restore(ctx: Context, place: str, meta: dict[str, Any], wish: Wish) -> Restored:
    """Make the agent; on any failure nothing is left but the saved directory. The caller settles it."""
    if not isinstance(meta.get("record"), dict):
        raise MngrError(
            f"the record of {meta.get('name')} was damaged when it was saved", f"its files are in {place}"
        )
    try:
        saved = store.decode(json.dumps(meta["record"]))
    except ValueError as error:
        raise MngrError(
            f"the record of {meta.get('name')} is damaged: {error}", f"its files are in {place}"
        ) from None
    host = ctx.host(saved.provider, saved.host)
    record = _record(ctx, host, saved, wish)
    task = _Task(ctx=ctx, host=host, place=place, meta=meta, wish=wish, notes=[])
    announce = ctx.hooks.step(wish.operation, record)
    try:
        for step, act in _STEPS:
            announce(step)
            record = act(task, record) or record
    except Taken:
        raise  # another command makes the same agent: nothing here is ours
    except BaseException as error:
        discard(ctx, host, record)
        if isinstance(error, OSError):
            raise MngrError(f"cannot restore {record.name}: {error}", "check space and permissions") from None
        raise
    return Restored(record=record, notes=task.notes)


def _record(ctx: Context, host: Host, saved: AgentRecord, wish: Wish) -> AgentRecord:
    agent_id = wish.agent_id or names.new_id()
    if os.path.lexists(host.home.agent(agent_id)):
        raise MngrError(f"the agent {agent_id} is there already", f"see: mngr explain {agent_id}")
    work = saved.work_dir
    if saved.transfer != "none" and (wish.agent_id is None or os.path.lexists(work)):
        work = os.path.join(host.home.work, wish.name)
        if os.path.lexists(work):
            work = f"{work}-{agent_id[2:8]}"
    fresh = {} if wish.agent_id is not None else {"created_at": clock.stamp()}
    return saved.replace(
        id=agent_id, name=wish.name, phase="creating", owner=store.this_process(), work_dir=work, **fresh
    )


def _reserve(task: _Task, record: AgentRecord) -> None:
    directory = task.host.home.agent(record.id)
    try:
        os.mkdir(directory, mode=0o700)
    except FileExistsError:
        raise Taken(f"the agent {record.id} is there already", f"see: mngr explain {record.id}") from None
    task.host.write(os.path.join(directory, RESTORING), b"[]")
    store.save(task.host, record)
    store.reserve_name(task.ctx.home, record.name, record.id, task.host)


def _agent_files(task: _Task, record: AgentRecord) -> None:
    """Conversation, events, outputs, variables."""
    source, target = os.path.join(task.place, AGENT), task.host.home.agent(record.id)
    kept = [n for n in sorted(os.listdir(source)) if n not in _OF_THE_PAST and not n.endswith(".new")]
    if kept:
        done = task.host.run(["cp", "-Rp", "--", *(os.path.join(source, name) for name in kept), target])
        if done.code:
            raise MngrError(
                f"cannot copy the files of {record.name}: {done.problem}", "check space and permissions"
            )
    os.makedirs(os.path.join(target, "outputs"), mode=0o700, exist_ok=True)


def _work_dir(task: _Task, record: AgentRecord) -> AgentRecord:
    branch = task.wish.branch if record.transfer in ("worktree", "mirror") else None
    work = Work(
        host=task.host,
        place=task.place,
        meta=task.meta,
        record=record,
        branch=branch,
        spare=task.wish.spare,
        notes=task.notes,
    )
    return store.save(task.host, restore_work(work))


def _prepare(task: _Task, record: AgentRecord) -> None:
    host = task.host
    environment.refresh(host, record)
    install_lib(host)
    task.ctx.kind(record.kind).prepare(host, record)
    sandbox.write(task.ctx, host, record)
    stopped = f'{{"at":{int(clock.parse_stamp(clock.stamp()))},"reason":"{task.wish.operation}"}}\n'
    host.write(os.path.join(host.home.agent(record.id), "stopped"), stopped.encode())


def _set_up(task: _Task, record: AgentRecord) -> None:
    if (
        not task.wish.set_up
        or record.transfer == "none"
        or record.source is None
        or not os.path.isdir(record.source)
    ):
        return
    settings = config.load(task.ctx.home.settings, record.source, [], dict(os.environ))
    project.carry(task.host, record.source, task.host, record, settings, replace=False)
    project.set_up(task.host, record, settings)


def _commit(task: _Task, record: AgentRecord) -> AgentRecord:
    record = store.save(task.host, record.replace(phase="ready", owner=None))
    data = {"from": task.meta["id"], "name": record.name, "branch": record.branch}
    store.add_event(task.host, record.id, task.wish.operation.replace(" ", "_"), **data)
    return record


_STEPS: tuple[tuple[str, Callable[[_Task, AgentRecord], AgentRecord | None]], ...] = (
    ("reserve", _reserve),
    ("agent_files", _agent_files),
    ("work_dir", _work_dir),
    ("prepare", _prepare),
    ("set_up", _set_up),
    ("commit", _commit),
)
