"""Create agents in named steps. A failed step undoes the earlier ones; the final record completes the creation."""

from __future__ import annotations

import os

from mngr.agents.create import content_trust, planning
from mngr.agents.create.batched_steps import (
    MAX_PARALLEL_AGENTS,
    get_message_timeout,
    open_step_host,
    queue_first_message,
)
from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.agents.launch import environment
from mngr.agents.launch.launch import install_on_host, start_session, write_new_agent_files
from mngr.agents.lifecycle import choose_and_start_hosts, limit
from mngr.agents.sync import source_cache
from mngr.agents.workdir import transfer
from mngr.agents.workdir.source import is_same_machine
from mngr.base import names_and_addresses, shell, time_format
from mngr.base.errors import MngrError, Unreachable, UsageError
from mngr.base.fanout import map_parallel
from mngr.base.model import AgentRecord, Struct
from mngr.host import agent_origin, git, record_store
from mngr.kinds.delivery_plan import check_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.agents.context import Context
    from mngr.agents.create.planning import CreatePlan, WorkPlan
    from mngr.agents.create.spec import AgentSpec
    from mngr.base.model import AgentView, Outcome
    from mngr.base.names_and_addresses import Address
    from mngr.host.protocol import Host


_MAX_PARALLEL_HOSTS = 32


class CreatedAgent(Struct):
    """A created agent, and the outcome of its first message if the spec has a message."""

    agent: AgentView
    message: Outcome | None = None


def create_agents(ctx: Context, spec: AgentSpec) -> list[CreatedAgent | Exception]:
    """Create the agents, send them the first message, and return a result or an error for each, in order.

    Raise errors found before the first step.
    """
    address = _check_spec(ctx, spec)
    ctx.home.exists()  # Raises when another program owns the home.
    agent_names = _choose_names(ctx, address, spec)
    results = _start_existing_agents(ctx, spec, agent_names)
    new_names = [name for name in agent_names if name not in results]
    results.update(_create_new_agents(ctx, address, spec, new_names))
    if spec.message is not None:
        results = _send_first_messages(ctx, spec.message, results)
    return [results[name] for name in agent_names]


def _check_spec(ctx: Context, spec: AgentSpec) -> Address:
    """Return the address of the new agents. Raise UsageError for an option that has no meaning."""
    if spec.message is not None:
        check_text(spec.message)
    address = names_and_addresses.Address() if spec.address is None else find.parse_address(ctx, spec.address)
    if address.path is not None:
        raise UsageError(f"{spec.address!r} names a file, not a new agent", "leave out the colon and the path")
    if spec.count < 1:
        raise UsageError(f"--count must be at least 1, not {spec.count}", "leave out --count to create one agent")
    limit.check_duration(spec.idle_timeout)
    limit.check_activity(spec.activity)
    return address


def _choose_names(ctx: Context, address: Address, spec: AgentSpec) -> list[str]:
    """Return the names of all agents of the spec. Raise UsageError for a name that no agent can have."""
    name = address.name or _generate_free_name(ctx)
    agent_names = [name] if spec.count == 1 else [f"{name}-{number}" for number in range(1, spec.count + 1)]
    for agent_name in agent_names:
        names_and_addresses.check_name(agent_name)
    return agent_names


def _start_existing_agents(
    ctx: Context, spec: AgentSpec, agent_names: list[str]
) -> dict[str, CreatedAgent | Exception]:
    """Start the agents that have these names already, and return them.

    Raise NameTaken without `reuse`, and MngrError for an agent of another kind than the spec asks for.
    """
    existing = _list_existing_ids(ctx, agent_names)
    if existing and not spec.reuse:
        raise record_store.NameTaken(next(iter(existing)))
    for name, agent_id in existing.items():
        _check_kind_of_existing(ctx, spec, name, agent_id)
    for name in existing:
        ctx.note(f"{name} exists already; mngr uses it as it is")
    return {name: _start_existing(ctx, agent_id) for name, agent_id in existing.items()}


def _create_new_agents(
    ctx: Context, address: Address, spec: AgentSpec, new_names: list[str]
) -> dict[str, CreatedAgent | Exception]:
    """Create the agents on one host or several, and return a result or an error for each name."""
    name_groups = _group_by_host(ctx, address, spec, new_names)
    if not name_groups:
        return {}
    spec = planning.decide_kind_and_variables(ctx, spec)
    provider = choose_and_start_hosts.find_creating_provider(ctx, address)
    work = None if provider is None else planning.plan_work_on_new_host(ctx, spec, provider)
    group_results = map_parallel(
        lambda group: _create_on_host(ctx, address, spec, work, group), name_groups, at_once=_MAX_PARALLEL_HOSTS
    )
    results: dict[str, CreatedAgent | Exception] = {}
    for group, group_result in zip(name_groups, group_results, strict=True):
        if not isinstance(group_result, Exception):
            results.update(group_result)
        elif isinstance(group_result, MngrError) and len(name_groups) > 1:
            results.update(dict.fromkeys(group, group_result))
        else:
            raise group_result
    return results


def _group_by_host(ctx: Context, address: Address, spec: AgentSpec, new_names: list[str]) -> list[list[str]]:
    """Return the names in groups, one group for each host."""
    size = spec.agents_per_host
    if size is None:
        return [new_names] if new_names else []
    if size < 1:
        raise UsageError(f"--agents-per-host must be at least 1, not {size}", "for example: --agents-per-host 4")
    can_create = address.provider is not None and ctx.get_provider(address.provider).can_create_hosts
    if address.host is not None or not can_create:
        raise UsageError("--agents-per-host works only with new hosts", "name their provider: NAME@.PROVIDER")
    return [new_names[start : start + size] for start in range(0, len(new_names), size)]


def _create_on_host(
    ctx: Context, address: Address, spec: AgentSpec, work: WorkPlan | None, new_names: list[str]
) -> dict[str, CreatedAgent | Exception]:
    """Create agents on one host, creating the host if necessary. Return a result or an error for each name."""
    host, is_new = choose_and_start_hosts.choose_or_create_host(
        ctx, address, spec.build_args, spec.network, new=spec.new_host
    )
    created: list[CreatedAgent | Exception] = []
    try:
        plan = planning.make_plan(ctx, host, spec, work).replace(is_host_new=is_new, agent_count=len(new_names))
        ctx.home.create()
        source = source_cache.copy_source_to_host(
            ctx, plan.source, host, plan.transfer, plan.start.base, needs_index=plan.copies_dirty_files
        )
        plan = plan.replace(source=source)
        has_generated_name = address.name is None and spec.count == 1
        create_one = _create_with_free_name if has_generated_name else _create_agent
        created = map_parallel(lambda name: create_one(ctx, plan, name), new_names, at_once=MAX_PARALLEL_AGENTS)
    finally:
        if is_new and not any(isinstance(result, CreatedAgent) for result in created):
            choose_and_start_hosts.destroy_unused_host(ctx, host)
    return dict(zip(new_names, created, strict=True))


def _send_first_messages(
    ctx: Context, text: str, results: dict[str, CreatedAgent | Exception]
) -> dict[str, CreatedAgent | Exception]:
    """Send the message to every agent that did not get it together with its creation. Return all results."""
    waiting = {
        name: result for name, result in results.items() if isinstance(result, CreatedAgent) and result.message is None
    }
    if not waiting:
        return results
    from mngr.agents.interact.message import Message, send_message

    agent_names = [result.agent.name for result in waiting.values()]
    timeout = get_message_timeout(len(agent_names))
    outcomes = send_message(ctx, agent_names, Message(text=text), timeout=timeout)
    messaged = {
        name: result.replace(message=outcome) for (name, result), outcome in zip(waiting.items(), outcomes, strict=True)
    }
    return {**results, **messaged}


def _list_existing_ids(ctx: Context, agent_names: list[str]) -> dict[str, str]:
    """Return the id of each name that an agent has. Release the name of an agent that is gone from a remote host."""
    ids: dict[str, str] = {}
    for name in agent_names:
        agent_id = record_store.find_id(ctx.home, name)
        host_key = record_store.find_host_of_name(ctx.home, name)
        if agent_id is None:
            continue
        host = ctx.get_host(*host_key) if host_key else ctx.local_host
        if host.has_path(host.home.agent_dir(agent_id)):
            ids[name] = agent_id
        elif host_key:
            record_store.release_name(ctx.home, name, agent_id)
    return ids


def _check_kind_of_existing(ctx: Context, spec: AgentSpec, name: str, agent_id: str) -> None:
    """Raise MngrError if the existing agent is not of the kind that the spec asks for."""
    wanted = spec.kind or ("command" if spec.command else None)
    kind = find.get_agent(ctx, agent_id)[1].kind
    if wanted is not None and wanted != kind:
        raise MngrError(
            f"{name} exists already and is of the kind {kind}, not {wanted}, so --reuse cannot use it",
            f"use the agent that exists: mngr start {name}; or create a new one: mngr create {name}-2 {wanted}",
        )


def _start_existing(ctx: Context, agent_id: str) -> CreatedAgent | Exception:
    """Start the existing agent if necessary and return it, or the error."""
    from mngr.agents.lifecycle.start import start_targets

    outcome = start_targets(ctx, [agent_id])[0]
    if not outcome.ok:
        return MngrError(outcome.error or "mngr could not start the agent", outcome.hint)
    return CreatedAgent(agent=listing.make_view(find.observe_agent(ctx, agent_id)))


def _create_with_free_name(ctx: Context, plan: CreatePlan, name: str) -> CreatedAgent:
    """Create one agent, with another generated name when the first one has been taken meanwhile."""
    for _ in range(100):
        try:
            return _create_agent(ctx, plan, name)
        except (record_store.NameTaken, transfer.BranchTaken) as error:
            branch_depends_on_name = "*" in (plan.start.branch or "")
            if isinstance(error, transfer.BranchTaken) and not branch_depends_on_name:
                raise
            name = _generate_free_name(ctx)
    return _create_agent(ctx, plan, name)


def _create_agent(ctx: Context, plan: CreatePlan, name: str) -> CreatedAgent:
    """Run all steps for one agent. On a failure, remove everything that the steps created."""
    record = _make_record(ctx, plan, name)
    announce = ctx.hooks.make_step_announcer("create", record)
    step_host = open_step_host(ctx, plan)
    try:
        for step, run_step in _STEPS:
            announce(step)
            record = run_step(ctx, step_host, plan, record) or record
        message = queue_first_message(ctx, step_host, plan, record)
        observed = listing.observe_started(step_host, record).replace(host=plan.host)
    except KeyboardInterrupt:
        if _is_created(plan.host, record):  # Only the message was not delivered yet.
            listing.remember_agent(ctx, plan.host, record)
        else:
            _undo_create(ctx, plan.host, record)
        raise
    except BaseException as error:
        keeps_branch = isinstance(error, transfer.BranchTaken)
        _undo_create(ctx, plan.host, record.replace(branch_is_new=False) if keeps_branch else record)
        raise
    listing.remember_agent(ctx, plan.host, record)
    ctx.hooks.notify("mngr_created", agent=record)
    return CreatedAgent(agent=listing.make_view(observed), message=message.outcome if message else None)


def _undo_create(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Remove what the steps created, or note that the host does not answer."""
    from mngr.agents.workdir.discard_agent import discard_agent

    try:
        discard_agent(ctx, host, record)
    except Unreachable:
        ctx.note(f"parts of {record.name} may still be on {host.name}; when that host answers again: mngr gc")


def _is_created(host: Host, record: AgentRecord) -> bool:
    """True when the agent was completed before the interruption."""
    try:
        return record_store.get_record(host, record.id).phase == "ready"
    except MngrError:
        return False


def _make_record(ctx: Context, plan: CreatePlan, name: str) -> AgentRecord:
    """Return the record of a new agent in phase `creating`. It has all fields of the spec that a record has."""
    agent_id = names_and_addresses.generate_id()
    branch = plan.start.branch
    if branch is not None and plan.start.branch_is_new:
        branch = branch.replace("*", name)
    fields = {field: value for field, value in plan.spec.to_dict().items() if field in AgentRecord._fields}
    fields["source"] = plan.source.durable_path
    fields["branch"] = branch
    return AgentRecord(
        **fields,
        id=agent_id,
        name=name,
        phase="creating",
        owner=record_store.describe_this_process(),
        host=plan.host.name,
        provider=plan.host.provider,
        project=plan.source.project,
        work_dir=_choose_work_dir(ctx, plan, name, agent_id),
        base=plan.start.base,
        branch_is_new=plan.start.branch_is_new,
        created_at=time_format.format_timestamp(),
        options=plan.options,
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
    if branch and repo and git.has_branch(source.host, repo.root, branch, git.SAFE_GIT):
        raise transfer.make_branch_taken_error(branch)  # Fail before the record claims the branch as new.
    record_store.reserve_agent(ctx.home, host, record)


def _make_work_dir(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    """Create the work dir by the agent's transfer mode."""
    source, repo = plan.source, plan.source.repo
    if record.transfer == "worktree" and repo is not None:
        runs_filters = content_trust.has_trusted_content(ctx, plan, record)
        transfer.make_worktree(host, repo, record, runs_filters=runs_filters)
    elif record.transfer == "mirror" and repo is not None:
        runs_filters = plan.spec.runs_filters and content_trust.has_trusted_content(ctx, plan, record)
        transfer.make_mirror(host, source, record, runs_filters=runs_filters)
    elif record.transfer == "copy":
        transfer.make_copy(host, source, record)


def _copy_dirty_files(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    """Copy uncommitted files when the user asked for them."""
    if plan.copies_dirty_files:
        transfer.copy_dirty_files(host, plan.source, record, plan.start.dirty)


def _prepare(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    """Write the agent's environment, its kind's files and its command to the host."""
    text = environment.format_env_file(
        environment.get_host_variables(ctx.home, host),
        plan.variables,
        environment.build_agent_variables(ctx, host, record),
        plan.private_names,
    )
    install_on_host(ctx, host)
    write_new_agent_files(ctx, host, record, text)


def _set_up(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    """Copy carried files and run the project's set-up."""
    if record.transfer == "none":
        return
    source = plan.source
    source_dir = source.project_dir if source.is_bare else source.root_dir
    if plan.spec.settings_root is not None:
        source_dir = plan.spec.settings_root
        settings = ctx.load_project_settings(source_dir)
    elif source_dir:
        settings = ctx.load_host_settings(source.host, source_dir)
    else:
        place = shell.redact_password(plan.spec.source or record.source or record.work_dir)
        is_from_agent = ":" not in place  # a URL or the address of another host has a colon
        settings = ctx.load_foreign_settings(host, record.work_dir, place, is_from_agent=is_from_agent)
    if not (settings.get("project.carry") or settings.get("project.setup")):
        return
    from mngr.agents.workdir import project_setup

    if source_dir and plan.spec.settings_root is None:
        project_setup.copy_carried_files(
            source.host, source_dir, host, record, settings, git_command=source.git_command
        )
    project_setup.run_or_reuse_setup(
        host,
        record,
        settings,
        lambda: content_trust.find_setup_origin(ctx, plan, record, source_dir),
        project=source_dir or plan.spec.source or record.work_dir,
    )


def _launch(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> None:
    """Start the agent's session and enforce its limits."""
    record_store.add_event(
        host, record.id, "created", name=record.name, kind=record.kind, branch=record.branch, base=record.base
    )
    start_session(ctx, host, record, lambda pid: None)
    if limit.has_limit(record):
        limit.enforce_limits(ctx, host, record)


def _commit(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> AgentRecord:
    """Save the record as ready, which completes the creation."""
    agent_origin.save_origin(ctx.home, record)
    return record_store.save_record(host, record.replace(phase="ready", owner=None))


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
        name = names_and_addresses.generate_name()
        if record_store.find_id(ctx.home, name) is None:
            return name
    return names_and_addresses.generate_name() + "-" + os.urandom(2).hex()
