"""Create agents in named steps. A failed step undoes the earlier ones; the final record completes the creation."""

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
from mngr.kinds.delivery_plan import check_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.agents.context import Context
    from mngr.agents.create.request import CreateRequest
    from mngr.base.model import AgentView, Outcome
    from mngr.base.names import Address
    from mngr.host.protocol import Host


_MAX_PARALLEL_HOSTS = 32
_MAX_PARALLEL_AGENTS = 4  # on each host


def create_agents(
    ctx: Context, request: CreateRequest, message_outcomes: list[Outcome] | None = None
) -> list[AgentView | Exception]:
    """Create the agents and return one view or error each, in order. Raise errors found before the first step.

    A first message that is delivered together with the creation adds its outcome to `message_outcomes`. The caller
    sends the message to every agent that has no outcome there.
    """
    outcomes = [] if message_outcomes is None else message_outcomes
    address = _check_request(ctx, request)
    ctx.home.exists()  # Raises when another program owns the home.
    name = address.name or _generate_free_name(ctx)
    agent_names = [name] if request.count == 1 else [f"{name}-{i}" for i in range(1, request.count + 1)]
    for agent_name in agent_names:
        names.check_name(agent_name)
    existing = _list_existing_ids(ctx, agent_names)
    if existing and not request.reuse:
        raise store.NameTaken(next(iter(existing)))
    for agent_name in existing:
        ctx.note(f"{agent_name} is there already and was taken as it is")
    results: dict[str, AgentView | Exception] = {}
    for agent_name, agent_id in existing.items():
        results[agent_name] = _start_existing(ctx, agent_id)
    new_names = [agent_name for agent_name in agent_names if agent_name not in existing]
    name_groups = _group_by_host(ctx, address, request, new_names)
    first_plan = _plan_unmade_host(ctx, address, request) if new_names else None
    group_results = map_parallel(
        lambda group: _create_on_host(ctx, address, request, group, first_plan, outcomes),
        name_groups,
        at_once=_MAX_PARALLEL_HOSTS,
    )
    for group, group_result in zip(name_groups, group_results, strict=True):
        if not isinstance(group_result, Exception):
            results.update(group_result)
        elif isinstance(group_result, MngrError) and len(name_groups) > 1:
            results.update(dict.fromkeys(group, group_result))
        else:
            raise group_result
    return [results[agent_name] for agent_name in agent_names]


def _check_request(ctx: Context, request: CreateRequest) -> Address:
    """Return the address of the new agents. Raise UsageError for an option that has no meaning."""
    if request.message is not None:
        check_text(request.message)
    address = names.Address() if request.address is None else find.parse_address(ctx, request.address)
    if address.path is not None:
        raise UsageError("an address with a path cannot be created", "leave out what follows the colon")
    if request.count < 1:
        raise UsageError("--count must be at least 1", "leave it out for one agent")
    limit.check_duration(request.idle_timeout)
    limit.check_activity(request.activity)
    return address


def _plan_unmade_host(ctx: Context, address: Address, request: CreateRequest) -> CreatePlan | None:
    """Return a plan for a host that is not created yet, so that errors show before. None for an existing host."""
    placeholder_host = hosts.find_placeholder_host(ctx, address)
    if placeholder_host is None:
        return None
    plan = make_plan(ctx, placeholder_host, request.replace(network=None))
    ctx.home.create()
    return plan


def _group_by_host(ctx: Context, address: Address, request: CreateRequest, new_names: list[str]) -> list[list[str]]:
    """Return the names in groups, one group for each host."""
    size = request.agents_per_host
    if size is None:
        return [new_names] if new_names else []
    if size < 1:
        raise UsageError("--agents-per-host must be at least 1", "leave it out to have all on one host")
    can_create = address.provider is not None and ctx.get_provider(address.provider).can_create_hosts
    if address.host is not None or not can_create:
        raise UsageError("--agents-per-host is for hosts that are made", "write NAME@.PROVIDER")
    return [new_names[start : start + size] for start in range(0, len(new_names), size)]


def _create_on_host(
    ctx: Context,
    address: Address,
    request: CreateRequest,
    new_names: list[str],
    first_plan: CreatePlan | None,
    message_outcomes: list[Outcome],
) -> dict[str, AgentView | Exception]:
    """Create agents on one host, creating the host if necessary. Return a view or an error for each name."""
    results: dict[str, AgentView | Exception] = {}
    host, is_new = hosts.choose_or_create_host(ctx, address, request.build_args, request.network, new=request.new_host)
    try:
        plan = make_plan(ctx, host, request, first_plan).replace(is_host_new=is_new)
        ctx.home.create()
        plan = plan.replace(
            source=source_cache.copy_source_to_host(ctx, plan.source, host, plan.transfer, plan.start.base)
        )
        if len(new_names) > _MAX_PARALLEL_AGENTS:  # A message would make new agents wait until earlier ones are ready.
            plan = plan.replace(request=plan.request.replace(message=None))
        has_generated_name = address.name is None and request.count == 1
        create_one = _create_with_free_name if has_generated_name else create_agent
        created = map_parallel(
            lambda name: create_one(ctx, plan, name, message_outcomes), new_names, at_once=_MAX_PARALLEL_AGENTS
        )
        results.update(zip(new_names, created, strict=True))
    finally:
        views = [result for result in results.values() if not isinstance(result, Exception)]
        if is_new and not views:
            hosts.destroy_unused_host(ctx, host)
    return results


def _list_existing_ids(ctx: Context, agent_names: list[str]) -> dict[str, str]:
    """Return the id of each name that an agent has. Release the name of an agent that is gone from a remote host."""
    ids: dict[str, str] = {}
    for name in agent_names:
        agent_id = store.find_id(ctx.home, name)
        host_key = store.find_host_of_name(ctx.home, name)
        if agent_id is None:
            continue
        host = ctx.get_host(*host_key) if host_key else ctx.local_host
        if host.has_path(host.home.agent_dir(agent_id)):
            ids[name] = agent_id
        elif host_key:
            store.release_name(ctx.home, name, agent_id)
    return ids


def _start_existing(ctx: Context, agent_id: str) -> AgentView | Exception:
    """Start the existing agent if necessary and return its view, or the error."""
    outcome = start_targets(ctx, [agent_id])[0]
    if not outcome.ok:
        return MngrError(outcome.error or "it could not be started", outcome.hint)
    return listing.make_view(find.observe_agent(ctx, agent_id))


def _create_with_free_name(ctx: Context, plan: CreatePlan, name: str, message_outcomes: list[Outcome]) -> AgentView:
    """Create one agent, with another generated name when the first one has been taken meanwhile."""
    for _ in range(100):
        try:
            return create_agent(ctx, plan, name, message_outcomes)
        except (store.NameTaken, transfer.BranchTaken) as error:
            branch_depends_on_name = "*" in (plan.start.branch or "")
            if isinstance(error, transfer.BranchTaken) and not branch_depends_on_name:
                raise
            name = _generate_free_name(ctx)
    return create_agent(ctx, plan, name, message_outcomes)


def create_agent(ctx: Context, plan: CreatePlan, name: str, message_outcomes: list[Outcome]) -> AgentView:
    """Run all steps for one agent. On a failure, remove everything that the steps created."""
    host: Host = plan.host
    record = _make_record(ctx, plan, name)
    announce = ctx.hooks.make_step_announcer("create", record)
    step_host = host
    if isinstance(host, RemoteHost) and plan.source.host.is_local and not ctx.hooks.plugins:
        step_host = BatchedHost(host)
    try:
        for step, run_step in _STEPS:
            announce(step)
            record = run_step(ctx, step_host, plan, record) or record
        if isinstance(step_host, BatchedHost) and plan.request.message is not None:
            from mngr.agents.interact.message import queue_first_message

            queue_first_message(
                ctx, step_host, record, plan.request.message, plan.request.message_timeout, message_outcomes.append
            )
        observed = listing.observe_started(step_host, record).replace(host=host)
    except KeyboardInterrupt:
        if _is_created(host, record):  # Only the message was not delivered yet.
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
    return listing.make_view(observed)


def _undo_create(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Remove what the steps created, or note that the host does not answer."""
    try:
        discard_agent(ctx, host, record)
    except Unreachable:
        ctx.note(f"{record.name} may be left half made on {host.name}; when that answers again: mngr gc")


def _is_created(host: Host, record: AgentRecord) -> bool:
    """True when the agent was completed before the interruption."""
    try:
        return store.get_record(host, record.id).phase == "ready"
    except MngrError:
        return False


def _make_record(ctx: Context, plan: CreatePlan, name: str) -> AgentRecord:
    """Return the record of a new agent in phase `creating`."""
    host: Host = plan.host
    agent_id = names.generate_id()
    branch = plan.start.branch
    if branch is not None and plan.start.branch_is_new:
        branch = branch.replace("*", name)
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
        work_dir=_choose_work_dir(ctx, plan, name, agent_id),
        transfer=plan.transfer,
        branch=branch,
        base=plan.start.base,
        branch_is_new=plan.start.branch_is_new,
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


def _choose_work_dir(ctx: Context, plan: CreatePlan, name: str, agent_id: str) -> str:
    """Return the path of the new agent's work dir."""
    host: Host = plan.host
    if plan.transfer != "none":
        work_dir = os.path.join(host.home.work_dirs, name)
        is_taken = not plan.is_host_new and host.has_path(work_dir)
        return f"{work_dir}-{agent_id[2:8]}" if is_taken else work_dir
    if is_same_machine(plan.source.host, host):
        return plan.source.path
    # No project is copied, so the agent starts in the user's home directory.
    home = environment.get_host_variables(ctx.home, host).get("HOME")
    return home or host.run(["sh", "-c", "cd && pwd"]).text


def _reserve(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    """Claim the name and write the first record."""
    source, repo = plan.source, plan.source.repo
    branch = record.branch if record.branch_is_new and repo is not None else None
    if branch and repo and git.has_branch(source.host, repo.root, branch):
        raise transfer.make_branch_taken_error(branch)  # Fail before the record claims the branch as new.
    store.reserve_agent(ctx.home, host, record)


def _make_work_dir(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    """Create the work dir by the agent's transfer mode."""
    source, repo = plan.source, plan.source.repo
    if record.transfer == "worktree" and repo is not None:
        transfer.make_worktree(host, repo, record)
    elif record.transfer == "mirror" and repo is not None:
        transfer.make_mirror(host, source, record)
    elif record.transfer == "copy":
        transfer.make_copy(host, source, record)


def _copy_dirty_files(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    """Copy uncommitted files when the user asked for them."""
    if plan.start.dirty and plan.request.dirty == "include":
        transfer.copy_dirty_files(host, plan.source, record, plan.start.dirty)


def _prepare(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    """Write the agent's environment, its kind's files and its command to the host."""
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
    """Copy carried files and run the project's set-up."""
    if record.transfer == "none":
        return
    source = plan.source
    source_dir = source.project_dir if source.is_bare else source.root_dir
    if source_dir:
        settings = ctx.load_host_settings(source.host, source_dir)
        project_setup.copy_carried_files(
            source.host, source_dir, host, record, settings, git_command=source.git_command
        )
    else:
        settings = ctx.load_host_settings(host, record.work_dir)
    project_setup.run_or_reuse_setup(host, record, settings)


def _launch(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    """Start the agent's session and enforce its limits."""
    store.add_event(
        host, record.id, "created", name=record.name, kind=record.kind, branch=record.branch, base=record.base
    )
    start_session(ctx, host, record, lambda pid: None)
    if limit.has_limit(record):
        limit.enforce_limits(ctx, host, record)


def _commit(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> AgentRecord:
    """Save the record as ready, which completes the creation."""
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
    """Return a generated name that no agent of this home has."""
    for _ in range(100):
        name = names.generate_name()
        if store.find_id(ctx.home, name) is None:
            return name
    return names.generate_name() + "-" + os.urandom(2).hex()
