"""`destroy`: saves everything of an agent to the trash, then removes the agent from its host.

Each step can be interrupted and repeated.
"""

from __future__ import annotations

import os

from mngr.agents import remove_hosts, saved_directory
from mngr.agents.context import Context
from mngr.agents.inspect.for_each_agent import LIVE_STATES, make_failed_outcome, resolve_names
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.lifecycle import choose_and_start_hosts
from mngr.agents.saved import fetch_to_temporary_home
from mngr.agents.saved.save import SaveRequest
from mngr.agents.saved_directory import SavedState
from mngr.agents.workdir.discard_agent import (
    discard_agent,
    end_processes,
    finish_restore,
    is_restore_unfinished,
    is_work_dir_reused,
)
from mngr.agents.workdir.transfer import remove_work_dir
from mngr.base import names_and_addresses, shell, time_format
from mngr.base.errors import HostGone, MngrError, NotFound, Unreachable
from mngr.base.fanout import map_parallel
from mngr.base.model import AgentRecord, Outcome
from mngr.base.size_format import format_count, format_size
from mngr.host import agent_origin, record_store, scripts
from mngr.host.protocol import Host

# A file in the agent's directory: the saved directory is complete, so the removal has begun.
SAVED_MARKER = "saved"


def destroy(ctx: Context, addresses: list[str], *, force: bool = False) -> list[Outcome]:
    """Destroy agents, and hosts (`@HOST`) together with all agents on them."""
    agents, host_addresses = choose_and_start_hosts.split_agents_and_hosts(ctx, addresses)
    outcomes = _destroy_agents(ctx, agents, force=force)
    outcomes.update(
        choose_and_start_hosts.run_on_hosts(host_addresses, lambda address: _destroy_host(ctx, *address, force=force))
    )
    return [outcomes[name] for name in addresses if name in outcomes]


def _destroy_host(ctx: Context, provider: str, name: str, *, force: bool) -> Outcome:
    """Move all agents of a host to the trash, then destroy the host."""
    try:
        agents = remove_hosts.list_agents_to_destroy(ctx, provider, name)
    except HostGone as error:
        from mngr.agents.lifecycle import forget_lost_hosts

        return _make_host_outcome(provider, name, forget_lost_hosts.forget_host(ctx, error))
    for agent in agents:
        try:
            _check_destroyable(agent, force)
        except MngrError as error:
            hint = (
                error.hint
                if force
                else f"stop its agents first, or also destroy them: mngr destroy --force @{name}.{provider}"
            )
            raise MngrError(f"mngr did not destroy the host {name}: {error.message}", hint) from None
    outcomes = move_to_trash(ctx, agents)
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if failed:
        raise MngrError(
            f"mngr did not destroy the host {name}, because it could not save the agent {failed[0].name}: {failed[0].error}",
            failed[0].hint,
        )
    remove_hosts.destroy_host(ctx, provider, name)
    return _make_host_outcome(provider, name, outcomes)


def _make_host_outcome(provider: str, name: str, outcomes: list[Outcome]) -> Outcome:
    """Return the outcome for a host, with the ids and notes of its agents."""
    notes = tuple(note for outcome in outcomes for note in outcome.notes)
    extra = {"agents": [outcome.id for outcome in outcomes]}
    return Outcome(id=None, name=f"@{name}.{provider}", extra=extra, notes=notes)


def _forget_agent(ctx: Context, name: str, error: MngrError) -> Outcome | None:
    """Move an agent whose host is lost to the trash. Return None for any other error."""
    if not isinstance(error, HostGone):
        return None
    from mngr.agents.lifecycle import forget_lost_hosts  # Only lost hosts need it, and it imports half of mngr.

    return forget_lost_hosts.forget_agent(ctx, name, error)


def _destroy_agents(ctx: Context, agent_names: list[str], *, force: bool) -> dict[str, Outcome]:
    """Destroy the named agents and return the outcomes by name.

    A host that was created for these agents is destroyed with the last of them.
    """
    outcomes: dict[str, Outcome] = {}
    targets: dict[str, tuple[str, ObservedAgent]] = {}
    for name, observed in zip(agent_names, resolve_names(ctx, agent_names), strict=True):
        if isinstance(observed, MngrError):
            try:
                outcomes[name] = (
                    _forget_agent(ctx, name, observed)
                    or _finish_interrupted_destroy(ctx, name, observed)
                    or make_failed_outcome(name, observed)
                )
            except Unreachable as error:
                outcomes[name] = make_failed_outcome(name, error)
            continue
        try:
            _check_destroyable(observed, force)
        except MngrError as error:
            outcomes[name] = make_failed_outcome(observed.record.name if observed.record else name, error, observed.id)
        else:
            targets.setdefault(observed.id, (name, observed))
    for outcome, (name, _) in zip(
        move_to_trash(ctx, [observed for _, observed in targets.values()]), targets.values(), strict=True
    ):
        outcomes[name] = outcome
    remove_hosts.destroy_empty_hosts(ctx, [observed.host for name, observed in targets.values() if outcomes[name].ok])
    return outcomes


def move_to_trash(ctx: Context, targets: list[ObservedAgent]) -> list[Outcome]:
    """Destroy these agents without checking their state, and return an outcome for each.

    The processes of all agents end first. Then each agent is saved and removed.
    """

    def mark(observed: ObservedAgent) -> AgentRecord | None:
        if observed.record is not None:
            ctx.hooks.make_step_announcer("destroy", observed.record)("mark")
        return mark_destroying(ctx, observed)

    marked = map_parallel(mark, targets, at_once=4)
    _end_agent_processes(
        ctx, [observed for observed, record in zip(targets, marked, strict=True) if not isinstance(record, Exception)]
    )

    def trash(pair: tuple[ObservedAgent, AgentRecord | Exception | None]) -> Outcome:
        observed, record = pair
        if isinstance(record, Exception):
            raise record
        return _trash_damaged(ctx, observed) if record is None else _save_and_remove(ctx, observed.host, record)

    results = map_parallel(trash, list(zip(targets, marked, strict=True)), at_once=4)
    return [
        make_failed_outcome(observed.record.name if observed.record else observed.id, result, observed.id)
        if isinstance(result, Exception)
        else result
        for observed, result in zip(targets, results, strict=True)
    ]


def _check_destroyable(observed: ObservedAgent, force: bool) -> None:
    """Raise MngrError when another command works on the agent, or when it is live or UNKNOWN without `force`."""
    record, state = observed.record, observed.state
    name = record.name if record else observed.id
    if record is not None and record.phase == "creating" and observed.evidence.is_owner_alive:
        raise MngrError(
            f"another command is still creating {name}",
            f"wait until that command has ended, then run: mngr destroy --force {name}",
        )
    if record is not None and record.phase == "destroying" and observed.evidence.is_owner_alive:
        raise MngrError(
            f"another command is already destroying {name}", "see whether the agent still exists: mngr list"
        )
    if state.state in LIVE_STATES and not force:
        raise MngrError(
            f"{name} is {state.state}",
            f"stop it first: mngr stop {name}; or destroy it while it runs: mngr destroy --force {name}",
        )
    if isinstance(observed.record_problem, record_store.NewerRecord) and not force:
        raise record_store.make_unreadable_error(name, observed.record_problem)
    if state.state == "UNKNOWN" and not force:
        raise MngrError(
            f"the state of {name} is UNKNOWN: {state.reason}", f"destroy it anyway: mngr destroy --force {name}"
        )


def mark_destroying(ctx: Context, observed: ObservedAgent) -> AgentRecord | None:
    """Mark the agent as being destroyed and return its record from before, or None if it has no record.

    From then on `list` shows the phase, and `gc` can finish an interrupted destroy.
    """
    if observed.record is None:
        return None
    host = observed.host
    with host.lock(os.path.join(host.home.agent_dir(observed.id), "lock")):
        old_record = record_store.get_record(host, observed.id)
        if old_record.phase != "ready" and record_store.is_owner_alive(old_record.owner, not host.is_local):
            raise MngrError(
                f"another mngr command is working on {old_record.name}",
                f"see its state: mngr explain {old_record.name}",
            )
        if old_record.phase == "ready" and (not host.is_local or is_restore_unfinished(host, old_record)):
            finish_restore(host, old_record)
        record_store.save_record(
            host, old_record.replace(phase="destroying", owner=record_store.describe_this_process())
        )
    return old_record


def _end_agent_processes(ctx: Context, targets: list[ObservedAgent]) -> None:
    """End the processes of these agents, with one call per host."""
    grace = time_format.parse_duration(str(ctx.settings.get("stop.grace")))
    by_host: dict[int, tuple[Host, list[str]]] = {}
    for observed in targets:
        if observed.record is not None:
            ctx.hooks.make_step_announcer("destroy", observed.record)("end")
        by_host.setdefault(id(observed.host), (observed.host, []))[1].append(observed.id)
    for host, ids in by_host.values():
        end_processes(host, ids, grace=grace, reason="")


def _save_and_remove(ctx: Context, host: Host, old_record: AgentRecord) -> Outcome:
    """Save an agent to the trash and remove it. It is marked already, and its processes have ended."""
    # A half-restored agent is not worth saving: the saved directory that it was restored from is complete.
    if is_restore_unfinished(host, old_record):
        discard_agent(ctx, host, old_record)
        return Outcome(
            id=old_record.id,
            name=old_record.name,
            notes=("it was only partly restored, so mngr keeps the saved copy",),
        )
    record = old_record.replace(phase="ready", owner=None)  # This is the record that an undestroy restores.
    announce = ctx.hooks.make_step_announcer("destroy", record)
    trash_dir = os.path.join(ctx.home.trash, record.id)
    marker = os.path.join(host.home.agent_dir(record.id), SAVED_MARKER)
    is_already_saved = os.path.exists(os.path.join(trash_dir, saved_directory.META_FILE)) and host.has_path(marker)
    try:
        announce("save")
        # If another agent uses the work dir by now, its files must be neither saved nor removed.
        is_reused = is_work_dir_reused(host, record)
        record_to_save = record.replace(work_dir=f"{record.work_dir}-{record.id[2:8]}") if is_reused else record
        # On a second attempt the work dir may be half removed, so the first saved directory is the one to keep.
        if is_already_saved:
            saved = saved_directory.load_saved_state(trash_dir)
        else:
            request = SaveRequest(target=trash_dir, why="destroy", is_removal_pending=True)
            saved = fetch_to_temporary_home.save_agent(ctx, host, record_to_save, request)
        announce("remove")
    except BaseException:
        unmark_destroying(host, old_record)
        raise
    if host.is_local:
        host.write(marker, b"")
        kept_commits = 0 if is_reused else remove_work_dir(host, record)
        announce("bury")
        record_store.add_event(host, record.id, "destroyed", name=record.name, branch=record.branch)
        move_agent_files(host, host.home.agent_dir(record.id), os.path.join(trash_dir, saved_directory.AGENT_DIR))
    else:
        kept_commits = remove_from_host(host, record, keeps_work=is_reused)
        announce("bury")
        confirm_removed(ctx, trash_dir, saved)
    record_store.release_name(ctx.home, record.name, record.id, host)
    agent_origin.forget_origin(ctx.home, record)
    ctx.hooks.notify("mngr_destroyed", agent=record)
    return _make_outcome(record, saved, kept_commits, trash_dir)


def unmark_destroying(host: Host, old_record: AgentRecord) -> None:
    """Write back the record from before the marking. On an unreachable host the agent stays marked."""
    try:
        record_store.save_record(host, old_record)
    except Unreachable:
        pass


def remove_from_host(host: Host, record: AgentRecord, *, keeps_work: bool = False) -> int:
    """Remove a saved agent from a remote host and return how many unique commits kept its branch there."""
    kept_commits = 0
    if record.transfer == "worktree" and not keeps_work:
        host.write(os.path.join(host.home.agent_dir(record.id), SAVED_MARKER), b"")
        kept_commits = remove_work_dir(host, record)
    _remove_remote_files(
        host, record.id, record.name, "" if keeps_work else fetch_to_temporary_home.get_work_dir_name(host, record)
    )
    return kept_commits


def _remove_remote_files(host: Host, agent_id: str, name: str, work_dir_name: str) -> None:
    """Delete the agent's files, name and work dir on a remote host."""
    argv = [
        "sh",
        "-c",
        scripts.read_program("remove_agent.sh"),
        "remove_agent.sh",
        host.home.root,
        agent_id,
        name,
        work_dir_name,
    ]
    result = host.run(argv)
    if result.code:
        raise MngrError(
            f"cannot remove {name or agent_id} from {host.name}: {result.error_line}",
            f"its state is saved; remove the cause on {host.name}, then run: mngr destroy {name or agent_id}",
        )


def confirm_removed(ctx: Context, trash_dir: str, saved: SavedState) -> None:
    """Write to the trash that the host no longer has the agent."""
    saved_directory.write_saved_state(ctx.local_host, trash_dir, saved.replace(leaving=False))


def is_still_on_host(ctx: Context, saved: SavedState) -> bool:
    """True when a trashed agent is also still on its host. It asks the host and may raise Unreachable."""
    if not saved.leaving:
        return False
    if saved.record is None:
        return True  # Without a readable record, mngr cannot ask the host.
    try:
        host = ctx.get_host(saved.record.provider, saved.record.host)
    except NotFound:
        return False  # A host that no longer exists has no agents.
    return host.has_path(host.home.agent_dir(saved.id))


def _finish_interrupted_destroy(ctx: Context, name: str, error: MngrError) -> Outcome | None:
    """Return the outcome for an agent that is removed from its host but whose destroy was not confirmed.

    Return None when that is not the case.
    """
    agent_id = (record_store.find_id(ctx.home, name) if names_and_addresses.is_agent_name(name) else None) or name
    trash_dir = os.path.join(ctx.home.trash, agent_id)
    if not isinstance(error, NotFound) or not names_and_addresses.is_agent_id(agent_id):
        return None
    try:
        saved = saved_directory.load_saved_state(trash_dir)
        if not saved.leaving or is_still_on_host(ctx, saved):
            return None
    except (ValueError, MngrError):
        return None
    confirm_removed(ctx, trash_dir, saved)
    record_store.release_name(ctx.home, saved.name, agent_id)
    return Outcome(id=agent_id, name=saved.name, extra={"trash_dir": trash_dir})


def move_agent_files(host: Host, directory: str, target: str) -> None:
    """Move an agent's own directory. This is the last step, after which the agent no longer exists there."""
    if os.path.lexists(target):
        host.run(["rm", "-rf", "--", target])
    try:
        os.rename(directory, target)
    except OSError:  # The target is on another file system.
        result = host.run(["mv", "--", directory, target])
        if result.code:
            raise MngrError(
                f"cannot move {directory} to the trash: {result.error_line}",
                shell.suggest_disk_check(os.path.dirname(target)),
            ) from None


def _make_outcome(record: AgentRecord, saved: SavedState, kept_commits: int, trash_dir: str) -> Outcome:
    """Return the outcome of a destroyed agent, with a note for each thing that a user could miss."""
    name, notes = record.name, []
    if saved.dirty:
        notes.append(f"{name} had uncommitted changes; they are also in the trash: mngr undestroy {name}")
    if kept_commits:
        notes.append(
            f"mngr keeps the branch {record.branch}: it has {format_count(kept_commits, 'commit')} that no other branch has"
        )
    elif saved.unpulled:
        commits = format_count(saved.unpulled, "commit")
        notes.append(
            f"{name} had {commits} that no other branch has; they are also in the trash: mngr undestroy {name}"
        )
    if saved.ignored_bytes:
        notes.append(f"{name} had {format_size(saved.ignored_bytes)} of ignored files, which mngr does not keep")
    extra = {
        "dirty": saved.dirty,
        "unpulled": saved.unpulled,
        "branch_kept": record.branch if kept_commits else None,
        "ignored_bytes": saved.ignored_bytes,
        "trash_dir": trash_dir,
    }
    return Outcome(id=record.id, name=name, extra=extra, notes=tuple(notes))


def _trash_damaged(ctx: Context, observed: ObservedAgent) -> Outcome:
    """Move the files of an agent without a readable record to the trash.

    Without the record mngr does not know which work dir or branch is the agent's, so it reports the work dir and
    leaves it.
    """
    host, agent_id = observed.host, observed.id
    directory, trash_dir = host.home.agent_dir(agent_id), os.path.join(ctx.home.trash, agent_id)
    work_dir = _find_work_dir(host, directory)
    saved = SavedState(
        id=agent_id,
        name=agent_id,
        at=time_format.format_timestamp(),
        why="destroy",
        damage=str(observed.record_problem),
        work_dir=work_dir,
    )
    with fetch_to_temporary_home.StagingHome(ctx) as staging_home:
        if not host.is_local:
            fetch_to_temporary_home.copy_agent_files_here(host, agent_id, staging_home)
            directory = staging_home.host.home.agent_dir(agent_id)
        os.makedirs(trash_dir, mode=0o700, exist_ok=True)
        saved_directory.write_saved_state(ctx.local_host, trash_dir, saved)
        move_agent_files(ctx.local_host, directory, os.path.join(trash_dir, saved_directory.AGENT_DIR))
    if not host.is_local:
        _remove_remote_files(host, agent_id, "", "")
    for name in record_store.list_names(ctx.home):
        record_store.release_name(ctx.home, name, agent_id, host)
    notes = (f"mngr left its work dir as it is: {work_dir}",) if work_dir else ()
    extra = {"dirty": None, "unpulled": None, "branch_kept": None, "ignored_bytes": None, "trash_dir": trash_dir}
    return Outcome(id=agent_id, name=agent_id, extra=extra, notes=notes)


def _find_work_dir(host: Host, directory: str) -> str | None:
    """Return the work dir from the agent's env file, or None if there is none or it does not exist."""
    try:
        text = host.read(os.path.join(directory, "env")).decode("utf-8", "replace")
    except MngrError:
        return None
    work_dir = text.rpartition("\nexport MNGR_WORK_DIR=")[2].partition("\n")[0].strip("'")
    return work_dir if work_dir and host.has_path(work_dir) else None
