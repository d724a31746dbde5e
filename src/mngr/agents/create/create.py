"""`create`: named steps, each undone when a later one fails; the record is the commit point."""

from __future__ import annotations

import os

from mngr.agents.create.planning import CreatePlan, make_plan
from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.agents.launch import environment
from mngr.agents.launch.launch import install_on_host, start_session, write_command
from mngr.agents.lifecycle import hosts, limit
from mngr.agents.lifecycle.start import start_targets
from mngr.agents.sync import source_cache
from mngr.agents.workdir import project_setup, transfer
from mngr.agents.workdir.discard import discard_agent
from mngr.agents.workdir.source import is_same_machine
from mngr.base import clock, names
from mngr.base.errors import MngrError, Unreachable, UsageError
from mngr.base.fanout import map_parallel
from mngr.base.model import AgentRecord
from mngr.host import git, store
from mngr.host.batched_host import BatchedHost
from mngr.host.remote_host import RemoteHost
from mngr.kinds.delivery import check_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.agents.context import Context
    from mngr.agents.create.request import CreateRequest
    from mngr.base.model import AgentView, Outcome
    from mngr.base.names import Address
    from mngr.host.protocol import Host


_MAX_PARALLEL_HOSTS = 32  # that are made at once
_MAX_PARALLEL_AGENTS = 4  # that are made at once on each


def create_agents(
    ctx: Context, request: CreateRequest, told: list[Outcome] | None = None
) -> list[AgentView | Exception]:
    """Make the agents; one answer each, in order. Errors before the first step are raised.

    Where the message can travel with all the rest, `told` has what came of it; whoever is not in there is to be told yet.
    """
    told = [] if told is None else told
    if request.message is not None:
        check_text(request.message)
    wanted = names.Address() if request.address is None else find.parse_address(ctx, request.address)
    if wanted.path is not None:
        raise UsageError("an address with a path cannot be created", "leave out what follows the colon")
    if request.count < 1:
        raise UsageError("--count must be at least 1", "leave it out for one agent")
    limit.check_duration(request.idle_timeout)
    limit.check_activity(request.activity)
    ctx.home.exists()  # or it is not ours to use
    name = wanted.name or _generate_free_name(ctx)
    wished = [name] if request.count == 1 else [f"{name}-{i}" for i in range(1, request.count + 1)]
    for one in wished:
        names.check_name(one)
    existing = _list_existing_ids(ctx, wished)
    if existing and not request.reuse:
        raise store.NameTaken(next(iter(existing)))
    for one in existing:
        ctx.note(f"{one} is there already and was taken as it is")
    fresh = [n for n in wished if n not in existing]
    made: dict[str, AgentView | Exception] = {n: _start_existing(ctx, i) for n, i in existing.items()}
    groups, known = _group_by_host(ctx, wanted, request, fresh), None
    if fresh and (unmade := hosts.find_placeholder_host(ctx, wanted)) is not None:  # nothing is made for what cannot be
        known = make_plan(ctx, unmade, request.replace(network=None))
        ctx.home.create()
    answers = map_parallel(
        lambda some: _create_on_host(ctx, wanted, request, some, known, told),
        groups,
        at_once=_MAX_PARALLEL_HOSTS,
    )
    for some, answer in zip(groups, answers, strict=True):
        if isinstance(answer, Exception) and (len(groups) == 1 or not isinstance(answer, MngrError)):
            raise answer
        made.update(dict.fromkeys(some, answer) if isinstance(answer, Exception) else answer)
    return [made[n] for n in wished]


def _group_by_host(ctx: Context, wanted: Address, request: CreateRequest, fresh: list[str]) -> list[list[str]]:
    """The names, by the hosts that they go to."""
    size = request.agents_per_host
    if size is None:
        return [fresh] if fresh else []
    if size < 1:
        raise UsageError("--agents-per-host must be at least 1", "leave it out to have all on one host")
    makes = wanted.provider is not None and ctx.get_provider(wanted.provider).can_create_hosts
    if wanted.host is not None or not makes:
        raise UsageError("--agents-per-host is for hosts that are made", "write NAME@.PROVIDER")
    return [fresh[at : at + size] for at in range(0, len(fresh), size)]


def _create_on_host(
    ctx: Context, wanted: Address, request: CreateRequest, fresh: list[str], known: CreatePlan | None, told: list[Outcome],
) -> dict[str, AgentView | Exception]:  # fmt: skip
    """Make agents on one host, which may have to be made; what came of each."""
    made: dict[str, AgentView | Exception] = {}
    host, is_new = hosts.choose_or_create_host(ctx, wanted, request.build_args, request.network, new=request.new_host)
    try:
        plan = make_plan(ctx, host, request, known).replace(is_host_new=is_new)
        ctx.home.create()
        plan = plan.replace(source=source_cache.copy_source_to_host(ctx, plan.source, host, plan.transfer, plan.base))
        if len(fresh) > _MAX_PARALLEL_AGENTS:  # those that start would wait for those that start up
            plan = plan.replace(request=plan.request.replace(message=None))
        make = _create_with_free_name if wanted.name is None and request.count == 1 else create_agent
        made.update(
            zip(
                fresh,
                map_parallel(lambda n: make(ctx, plan, n, told), fresh, at_once=_MAX_PARALLEL_AGENTS),
                strict=True,
            )
        )
    finally:
        if is_new and all(isinstance(made.get(n), Exception | None) for n in fresh):
            hosts.destroy_unused_host(ctx, host)
    return made


def _list_existing_ids(ctx: Context, wished: list[str]) -> dict[str, str]:
    """Id of each name that an agent has; one elsewhere that is gone by now gives its name back."""
    found: dict[str, str] = {}
    for name in wished:
        agent_id = store.find_id(ctx.home, name)
        place = store.find_host_of_name(ctx.home, name)
        if agent_id is None:
            continue
        host = ctx.get_host(*place) if place else ctx.local_host
        if host.has_path(host.home.agent_dir(agent_id)):
            found[name] = agent_id
        elif place:
            store.release_name(ctx.home, name, agent_id)
    return found


def _start_existing(ctx: Context, agent_id: str) -> AgentView | Exception:
    """The agent there is, running."""
    outcome = start_targets(ctx, [agent_id])[0]
    if not outcome.ok:
        return MngrError(outcome.error or "it could not be started", outcome.hint)
    return listing.make_view(find.observe_agent(ctx, agent_id))


def _create_with_free_name(ctx: Context, plan: CreatePlan, name: str, told: list[Outcome]) -> AgentView:
    """Make one agent; a made-up name that somebody else took meanwhile is not the user's trouble."""
    for _ in range(100):
        try:
            return create_agent(ctx, plan, name, told)
        except (store.NameTaken, transfer.BranchTaken) as error:
            if isinstance(error, transfer.BranchTaken) and "*" not in (plan.branch or ""):
                raise
            name = _generate_free_name(ctx)
    return create_agent(ctx, plan, name, told)


def create_agent(ctx: Context, plan: CreatePlan, name: str, told: list[Outcome]) -> AgentView:
    """All steps for one agent; on any failure nothing is left."""
    host: Host = plan.host
    record = _make_record(ctx, plan, name)
    announce = ctx.hooks.make_step_announcer("create", record)
    together = host
    if isinstance(host, RemoteHost) and plan.source.host.is_local and not ctx.hooks.plugins:
        together = BatchedHost(host)
    try:
        for step, act in _STEPS:
            announce(step)
            record = act(ctx, together, plan, record) or record
        if isinstance(together, BatchedHost) and plan.request.message is not None:
            from mngr.agents.interact.message import queue_first_message

            queue_first_message(ctx, together, record, plan.request.message, plan.request.message_timeout, told.append)
        seen = listing.observe_started(together, record).replace(host=host)
    except KeyboardInterrupt:
        if _is_created(host, record):  # only the message was still on its way
            listing.remember_agent(ctx, host, record)
        else:
            _undo_create(ctx, host, record)
        raise
    except BaseException as error:
        keeps_branch = isinstance(error, transfer.BranchTaken)
        _undo_create(ctx, host, record.replace(branch_is_new=False) if keeps_branch else record)
        raise
    listing.remember_agent(ctx, host, record)
    ctx.hooks.notify("mngr_created", agent=record)
    return listing.make_view(seen)


def _undo_create(ctx: Context, host: Host, record: AgentRecord) -> None:
    try:
        discard_agent(ctx, host, record)
    except Unreachable:
        ctx.note(f"{record.name} may be left half made on {host.name}; when that answers again: mngr gc")


def _is_created(host: Host, record: AgentRecord) -> bool:
    """Whether an agent came to be although we were interrupted."""
    try:
        return store.get_record(host, record.id).phase == "ready"
    except MngrError:
        return False


def _make_record(ctx: Context, plan: CreatePlan, name: str) -> AgentRecord:
    host: Host = plan.host
    agent_id = names.generate_id()
    work = plan.source.path
    if plan.transfer != "none":
        work = os.path.join(host.home.work_dirs, name)
        if not plan.is_host_new and host.has_path(work):
            work = f"{work}-{agent_id[2:8]}"
    elif not is_same_machine(plan.source.host, host):
        # Nothing is sent, so it begins where a person would.
        work = environment.get_host_variables(ctx.home, host).get("HOME") or host.run(["sh", "-c", "cd && pwd"]).text
    return AgentRecord(
        id=agent_id,
        name=name,
        kind=plan.kind,
        phase="creating",
        owner=store.describe_this_process(),
        host=host.name,
        provider=host.provider,
        project=plan.source.project,
        source=plan.source.durable_path,
        work_dir=work,
        transfer=plan.transfer,
        branch=plan.branch.replace("*", name) if plan.branch and plan.branch_is_new else plan.branch,
        base=plan.base,
        branch_is_new=plan.branch_is_new,
        created_at=clock.format_timestamp(),
        labels=plan.request.labels,
        command=plan.args,
        options=plan.options,
        windows=plan.request.windows,
        idle_timeout=plan.request.idle_timeout,
        activity=plan.request.activity,
        sandbox=plan.request.sandbox,
        network=plan.request.network or "on",
    )


def _reserve(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    source, repo = plan.source, plan.source.repo
    branch = record.branch if record.branch_is_new and repo is not None else None
    if branch and repo and git.has_branch(source.host, repo.root, branch):
        raise transfer.make_branch_taken_error(branch)  # before the record says that the branch is ours
    store.reserve_agent(ctx.home, host, record)


def _make_work_dir(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    source, repo = plan.source, plan.source.repo
    if record.transfer == "worktree" and repo is not None:
        transfer.make_worktree(host, repo, record)
    elif record.transfer == "mirror" and repo is not None:
        transfer.make_mirror(host, source, record)
    elif record.transfer == "copy":
        transfer.make_copy(host, source, record)


def _copy_dirty_files(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    if plan.dirty and plan.request.dirty == "include":
        transfer.copy_dirty_files(host, plan.source, record, plan.dirty)


def _prepare(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    text = environment.format_env_file(
        environment.get_host_variables(ctx.home, host),
        plan.variables,
        environment.build_agent_variables(ctx, host, record),
    )
    directory = host.home.agent_dir(record.id)
    install_on_host(ctx, host)
    if isinstance(host, BatchedHost):
        host.new_dir = directory
    host.write(os.path.join(directory, "env"), text)
    ctx.get_agent_kind(record).prepare(host, record)
    write_command(ctx, host, record, resume=False)
    if isinstance(host, BatchedHost):
        host.new_dir = None


def _set_up(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    if record.transfer == "none":
        return
    source = plan.source
    files = source.project_dir if source.is_bare else source.root_dir
    settings = ctx.load_host_settings(*((source.host, files) if files else (host, record.work_dir)))
    if files:
        project_setup.copy_carried_files(source.host, files, host, record, settings, by=source.git_command)
    project_setup.run_or_reuse_setup(host, record, settings)


def _launch(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    store.add_event(
        host, record.id, "created", name=record.name, kind=record.kind, branch=record.branch, base=record.base
    )
    start_session(ctx, host, record, lambda pid: None)
    if limit.has_limit(record):
        limit.enforce_limits(ctx, host, record)


def _commit(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> AgentRecord:
    store.save_branch(ctx.home, record)
    return store.save_record(host, record.replace(phase="ready", owner=None))


_STEPS: tuple[tuple[str, Callable[[Context, Host, CreatePlan, AgentRecord], AgentRecord | None]], ...] = (
    ("reserve", _reserve),
    ("work_dir", _make_work_dir),
    ("dirty", _copy_dirty_files),
    ("prepare", _prepare),
    ("set_up", _set_up),
    ("launch", _launch),
    ("commit", _commit),
)


def _generate_free_name(ctx: Context) -> str:
    for _ in range(100):
        name = names.generate_name()
        if store.find_id(ctx.home, name) is None:
            return name
    return names.generate_name() + "-" + os.urandom(2).hex()
