"""`restore`: an agent from a saved directory, in named steps with undo, as `create` makes one.

For another host everything is made here first, in a directory laid out as a home, and sent in one stream.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.launch import environment, launch
from mngr.agents.sandbox import bubblewrap
from mngr.agents.saved import land, packs
from mngr.agents.saved.restore_work import Work, make_whole, restore_work
from mngr.agents.saved.stage import Stage
from mngr.agents.saved_directory import AGENT
from mngr.agents.sync import relay
from mngr.agents.workdir import project
from mngr.agents.workdir.discard import RESTORING, discard
from mngr.agents.workdir.source import Source, kept_repo, project_of
from mngr.base import clock, config, names
from mngr.base.errors import MngrError, Unreachable
from mngr.base.model import AgentRecord, Record
from mngr.host import store
from mngr.host.protocol import Host

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
    "input",
    "saved",
    RESTORING,
    "raw",
    "gather",
    *land.NAMES,
)


class Wish(Record):
    """What shall become of a saved agent."""

    operation: str  # undestroy | clone | snapshot restore | migrate
    name: str
    host: Host
    keeps_host: bool = False  # it is the host that the agent was on
    agent_id: str | None = None  # None: it is a new one
    is_named: bool = False  # the name here is its own already
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
    build: Host  # where it is made: there, or in a stage of ours
    place: str
    meta: dict[str, Any]
    wish: Wish
    has_moved: bool
    notes: list[str]


def restore(ctx: Context, place: str, meta: dict[str, Any], wish: Wish) -> Restored:
    """Make the agent; on any failure nothing is left but the saved directory. The caller settles it."""
    saved = decode(place, meta)
    host = wish.host
    try:
        record = _record(host, saved, meta, wish)
    except Unreachable as error:
        raise elsewhere(saved, wish.operation, error) if wish.keeps_host else error from None
    is_new = wish.operation == "rescue"  # another machine by the old name
    moved = is_new or (host.provider, host.name) != (saved.provider, saved.host)
    task = _Task(ctx=ctx, host=host, build=host, place=place, meta=meta, wish=wish, has_moved=moved, notes=[])
    if host.is_here:
        return _take_steps(task, record)
    with Stage(ctx) as stage:
        return _take_steps(task.replace(build=stage.host), record)


def decode(place: str, meta: dict[str, Any]) -> AgentRecord:
    """The record that was saved; MngrError when it was damaged."""
    if not isinstance(meta.get("record"), dict):
        raise MngrError(
            f"the record of {meta.get('name')} was damaged when it was saved", f"its files are in {place}"
        )
    try:
        return store.decode(json.dumps(meta["record"]))
    except ValueError as error:
        raise MngrError(
            f"the record of {meta.get('name')} is damaged: {error}", f"its files are in {place}"
        ) from None


def elsewhere(saved: AgentRecord, operation: str, error: Unreachable) -> Unreachable:
    """The same error, which says how to do without that host."""
    snapshot = "mngr snapshot restore SNAPSHOT NAME@HOST"
    other = f"mngr undestroy {saved.name} --on @HOST" if operation == "undestroy" else snapshot
    hint = f"{error.hint}; or bring it back elsewhere: {other}" if error.hint else f"elsewhere: {other}"
    return Unreachable(f"{saved.name} was on {saved.host}: {error.message}", hint)


def _take_steps(task: _Task, record: AgentRecord) -> Restored:
    announce = task.ctx.hooks.step(task.wish.operation, record)
    try:
        for step, act in _STEPS:
            announce(step)
            record = act(task, record) or record
    except store.Taken:
        raise  # another command makes the same agent: nothing here is ours
    except BaseException as error:
        if not _made_nothing(task.host, step, error):
            _undo(task, record)
        if isinstance(error, OSError):
            raise MngrError(f"cannot restore {record.name}: {error}", "check space and permissions") from None
        raise
    return Restored(record=record, notes=task.notes)


def _made_nothing(host: Host, step: str, error: BaseException) -> bool:
    """Whether it ended before anything was there: what is there now may be another command's.

    Here the directory comes before the name, on another host the name before the directory.
    """
    if host.is_here:
        return step == "reserve" and not isinstance(error, store.NameTaken)
    return isinstance(error, store.NameTaken)


def _undo(task: _Task, record: AgentRecord) -> None:
    try:
        discard(task.ctx, task.host, record)
        removal.retire(task.ctx, [task.host])
    except Unreachable:
        where = task.host.name
        task.ctx.note(f"{record.name} may be left half made on {where}; when that answers again: mngr gc")


def _record(host: Host, saved: AgentRecord, meta: dict[str, Any], wish: Wish) -> AgentRecord:
    agent_id = wish.agent_id or names.new_id()
    work = saved.work_dir
    if saved.transfer == "none":
        if not host.has(work):
            raise MngrError(
                f"the directory it worked in is gone: {work} on {host.name}", "put it back, and try again"
            )
    elif wish.agent_id is None or os.path.dirname(work) != host.home.work or host.has(work):
        work = os.path.join(host.home.work, wish.name)
        if host.has(work):
            work = f"{work}-{agent_id[2:8]}"
    if (saved.sandbox or saved.network != "on") and host.provider != saved.provider:
        raise MngrError(
            f"{saved.name} is behind walls that {host.provider} hosts do not have",
            f"bring it back on {saved.provider}",
        )
    fresh: dict[str, Any] = {} if wish.agent_id is not None else {"created_at": clock.stamp()}
    if meta.get("staged") and saved.transfer == "worktree":  # of a repository on the host it was on
        fresh.update(transfer="mirror", source=None)
    return saved.replace(
        id=agent_id, name=wish.name, phase="creating", owner=store.this_process(), work_dir=work,
        host=host.name, provider=host.provider, **fresh,
    )  # fmt: skip


def _reserve(task: _Task, record: AgentRecord) -> None:
    store.reserve(task.ctx.home, task.host, record, mark=RESTORING, named=not task.wish.is_named)


def _agent_files(task: _Task, record: AgentRecord) -> None:
    """Conversation, events, outputs, variables."""
    source, target = os.path.join(task.place, AGENT), task.build.home.agent(record.id)
    os.makedirs(os.path.join(target, "outputs"), mode=0o700, exist_ok=True)
    kept = [n for n in sorted(os.listdir(source)) if n not in _OF_THE_PAST and not n.endswith(".new")]
    if kept:
        done = task.build.run(["cp", "-Rp", "--", *(os.path.join(source, name) for name in kept), target])
        if done.code:
            raise MngrError(
                f"cannot copy the files of {record.name}: {done.problem}", "check space and permissions"
            )


def _work_dir(task: _Task, record: AgentRecord) -> AgentRecord:
    host, build = task.host, task.build
    is_far = build is not host
    branch = task.wish.branch if record.transfer in ("worktree", "mirror") else None
    made, near = record, _near(task, record) if is_far else ""
    if record.transfer != "none":
        work = Work(
            host=build,
            place=task.place,
            meta=task.meta,
            record=record.replace(work_dir=land.work_dir(build, record)) if is_far else record,
            branch=branch,
            spare=task.wish.spare,
            is_alone=is_far,
            borrows=bool(near),
            notes=task.notes,
        )
        made = restore_work(work).replace(work_dir=record.work_dir)
    _own_files(task, made)
    if is_far:
        try:
            land.land(build, host, made, near)
        except land.Lacking:
            make_whole(build, land.work_dir(build, made))
            land.land(build, host, made)
    return store.save(host, made) if made != record else made


def _near(task: _Task, record: AgentRecord) -> str:
    """A copy on the host of the repository that the agent was made from, so that it need not travel with it; or nothing."""
    if record.transfer not in ("worktree", "mirror") or record.source is None:
        return ""
    local = task.ctx.local
    repo = kept_repo(local, record.source)
    if repo is None or task.meta.get("saved") != "git" or not packs.are_large(local, repo):
        return ""
    origin = Source(host=local, path=record.source, repo=repo, kept=record.source, project=record.project)
    try:
        near = relay.bring_near(task.ctx, origin, task.host, "mirror", None).near
    except Unreachable:
        raise
    except MngrError:
        return ""
    return near.root if near is not None else ""


def _own_files(task: _Task, record: AgentRecord) -> None:
    """What its variables say of its host and of itself, and that it does not run."""
    directory = task.build.home.agent(record.id)
    path = os.path.join(directory, "env")
    base = environment.base(task.ctx.home, task.host) if task.has_moved else None
    text = environment.renew(task.build.read(path), environment.own(task.ctx, task.host, record), base)
    task.build.write(path, text)
    stopped = f'{{"at":{int(clock.parse_stamp(clock.stamp()))},"reason":"{task.wish.operation}"}}\n'
    task.build.write(os.path.join(directory, "stopped"), stopped.encode())


def _prepare(task: _Task, record: AgentRecord) -> None:
    launch.settle(task.ctx, task.host)
    task.ctx.kind_of(record).prepare(task.host, record)
    bubblewrap.write(task.ctx, task.host, record)


def _set_up(task: _Task, record: AgentRecord) -> None:
    if not task.wish.set_up or record.transfer == "none":
        return
    host = task.host
    root = None if record.source is None else project_of(record.source)
    if root is not None and os.path.isdir(root):
        settings = config.load(task.ctx.home.settings, root, [], dict(os.environ))
        project.carry(task.ctx.local, root, host, record, settings, replace=False)
        project.set_up(host, record, settings)
    elif not host.is_here:  # here nothing is run that only an agent of another host has asked for
        project.set_up(host, record, task.ctx.settings_of(host, record.work_dir))


def _commit(task: _Task, record: AgentRecord) -> AgentRecord:
    store.keep_branch(task.ctx.home, record)
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
