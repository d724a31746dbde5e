"""`create`: named steps, each undone when a later one fails; the record is the commit point."""

from __future__ import annotations

import os

from mngr import clock, git, names, store
from mngr.errors import MngrError, NotFound, UsageError
from mngr.fanout import fanout
from mngr.model import AgentRecord, Record
from mngr.ops import environment, find, limit, project, transfer
from mngr.ops import list as listing
from mngr.ops.discard import discard
from mngr.ops.launch import install_lib, launch, write_command
from mngr.ops.source import Source, choose_transfer, find_source
from mngr.ops.start import start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.git import Repo
    from mngr.host import Host
    from mngr.model import AgentView
    from mngr.ops.context import Context


class CreateRequest(Record):
    """Everything a user can ask of `create`."""

    address: str | None = None
    kind: str | None = None
    args: list[str] = []
    source: str | None = None
    branch: str | None = None
    transfer: str | None = None
    dirty: str = "fail"  # fail | ignore | include
    says_ignored: bool = False  # whether to note what `ignore` leaves behind
    env: list[str] = []
    pass_env: list[str] = []
    env_file: list[str] = []
    labels: dict[str, str] = {}
    windows: dict[str, str] = {}
    idle_timeout: float | None = None
    count: int = 1
    reuse: bool = False


class Plan(Record):
    """What is the same for all agents of one request."""

    host: Host
    kind: str
    args: list[str]
    source: Source
    transfer: str
    base: str | None
    branch: str | None  # a pattern with * for the name, or an existing branch
    branch_is_new: bool
    dirty: list[tuple[str, str]]
    variables: dict[str, str]
    request: CreateRequest


def create(ctx: Context, request: CreateRequest) -> list[AgentView | Exception]:
    """Make the agents; one answer each, in order. Errors before the first step are raised."""
    wanted = names.Address() if request.address is None else find.address(ctx, request.address)
    if wanted.path is not None:
        raise UsageError("an address with a path cannot be created", "leave out what follows the colon")
    if request.count < 1:
        raise UsageError("--count must be at least 1", "leave it out for one agent")
    limit.check(request.idle_timeout)
    ctx.home.exists()  # or it is not ours to use
    name = wanted.name or _free_name(ctx)
    wished = [name] if request.count == 1 else [f"{name}-{i}" for i in range(1, request.count + 1)]
    for one in wished:
        names.check_name(one)
    host = _host(ctx, wanted)
    existing = {
        n: i for n in wished if (i := store.find_id(ctx.home, n)) and os.path.isdir(host.home.agent(i))
    }
    if existing and not request.reuse:
        raise store.NameTaken(next(iter(existing)))
    for one in existing:
        ctx.note(f"{one} is there already and was taken as it is")
    fresh = [n for n in wished if n not in existing]
    made: dict[str, AgentView | Exception] = {n: _reuse(ctx, i) for n, i in existing.items()}
    if fresh:
        plan = make_plan(ctx, host, request)
        ctx.home.make()
        make = _create_unnamed if wanted.name is None and request.count == 1 else create_one
        made.update(zip(fresh, fanout(lambda n: make(ctx, plan, n), fresh, at_once=4), strict=True))
    return [made[n] for n in wished]


def _reuse(ctx: Context, agent_id: str) -> AgentView | Exception:
    """The agent there is, running."""
    outcome = start(ctx, [agent_id])[0]
    if not outcome.ok:
        return MngrError(outcome.error or "it could not be started", outcome.hint)
    return listing.view(find.get_seen(ctx, agent_id))


def make_plan(ctx: Context, host: Host, request: CreateRequest) -> Plan:
    """Look at everything before touching anything."""
    kind = _kind(ctx, request)
    ctx.kind(kind).check(request.args, {})
    source = find_source(ctx, host, request.source)
    mode = choose_transfer(source, request.transfer)
    base, branch, is_new = None, None, False
    rows: list[tuple[str, str]] = []
    if mode in ("worktree", "mirror"):
        if source.repo is None:
            raise MngrError(
                f"{source.path} is not in a git repository", "git init it, or use --transfer copy or none"
            )
        if source.repo.head is None:
            raise MngrError(
                f"the repository {source.top} has no commits",
                "make the first one, or use --transfer copy or none",
            )
        base, branch, is_new = _branch(host, source.repo, request)
        rows = _dirty(ctx, host, source, request)
        if rows and request.dirty == "include" and base != source.repo.head:
            raise MngrError(
                "--dirty include takes along changes to what is checked out here, and --branch starts elsewhere",
                "leave BASE out, or use --dirty ignore",
            )
    elif request.branch:
        raise UsageError(f"--branch has no meaning with --transfer {mode}", "leave it out")
    elif mode == "none" and source.repo is not None:
        base, branch = source.repo.head, source.repo.branch
    variables = environment.gather(request.env_file, request.pass_env, request.env)
    return Plan(
        host=host, kind=kind, args=request.args, source=source, transfer=mode, base=base, branch=branch,
        branch_is_new=is_new, dirty=rows, variables=variables, request=request,
    )  # fmt: skip


def _create_unnamed(ctx: Context, plan: Plan, name: str) -> AgentView:
    """Make one agent; a made-up name that somebody else took meanwhile is not the user's trouble."""
    for _ in range(100):
        try:
            return create_one(ctx, plan, name)
        except (store.NameTaken, transfer.BranchTaken) as error:
            if isinstance(error, transfer.BranchTaken) and "*" not in (plan.branch or ""):
                raise
            name = _free_name(ctx)
    return create_one(ctx, plan, name)


def create_one(ctx: Context, plan: Plan, name: str) -> AgentView:
    """All steps for one agent; on any failure nothing is left."""
    host: Host = plan.host
    record = _record(plan, name)
    announce = ctx.hooks.step("create", record)
    try:
        for step, act in _STEPS:
            announce(step)
            record = act(ctx, host, plan, record) or record
    except BaseException as error:
        keeps_branch = isinstance(error, transfer.BranchTaken)
        discard(ctx, host, record.replace(branch_is_new=False) if keeps_branch else record)
        raise
    ctx.hooks.tell("mngr_created", agent=record)
    return listing.view_of_started(host, record)


def _record(plan: Plan, name: str) -> AgentRecord:
    host: Host = plan.host
    agent_id = names.new_id()
    work = plan.source.path
    if plan.transfer != "none":
        work = os.path.join(host.home.work, name)
        if os.path.lexists(work):
            work = f"{work}-{agent_id[2:8]}"
    return AgentRecord(
        id=agent_id,
        name=name,
        kind=plan.kind,
        phase="creating",
        owner=store.this_process(),
        host=host.name,
        provider=host.provider,
        project=plan.source.project,
        source=plan.source.kept,
        work_dir=work,
        transfer=plan.transfer,
        branch=plan.branch.replace("*", name) if plan.branch and plan.branch_is_new else plan.branch,
        base=plan.base,
        branch_is_new=plan.branch_is_new,
        created_at=clock.stamp(),
        labels=plan.request.labels,
        command=plan.args,
        windows=plan.request.windows,
        idle_timeout=plan.request.idle_timeout,
    )


def _reserve(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    repo = plan.source.repo
    if record.branch_is_new and repo and record.branch and git.has_branch(host, repo.root, record.branch):
        raise transfer.branch_taken(record.branch)  # before the record says that the branch is ours
    directory = host.home.agent(record.id)
    os.mkdir(directory, mode=0o700)
    os.mkdir(os.path.join(directory, "outputs"), mode=0o700)
    store.save(host, record)
    store.reserve_name(ctx.home, record.name, record.id, host)


def _work_dir(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    repo = plan.source.repo
    if record.transfer == "worktree" and repo is not None:
        transfer.make_worktree(host, repo, record)
    elif record.transfer == "mirror" and repo is not None:
        transfer.make_mirror(host, repo, record)
    elif record.transfer == "copy":
        transfer.make_copy(host, plan.source.top, repo, record, plan.source.guard)


def _dirty_files(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    if plan.dirty and plan.request.dirty == "include":
        transfer.carry_dirty(host, plan.source.top, record, plan.dirty, plan.source.guard)


def _prepare(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    variables = {**environment.base(), **plan.variables, **environment.own(host, record)}
    host.write(os.path.join(host.home.agent(record.id), "env"), environment.encode(variables))
    install_lib(host)
    ctx.kind(record.kind).prepare(host, record)
    write_command(ctx, host, record, resume=False)


def _set_up(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    if record.transfer == "none":
        return
    settings = ctx.settings_at(record.work_dir if plan.source.is_bare else plan.source.top)
    if not plan.source.is_bare:
        project.carry(host, plan.source.top, record, settings, guard=plan.source.guard)
    project.set_up(host, record, settings)


def _launch(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    store.add_event(
        host, record.id, "created", name=record.name, kind=record.kind, branch=record.branch, base=record.base
    )
    launch(ctx, host, record)
    limit.watch(ctx, host, record)


def _commit(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> AgentRecord:
    return store.save(host, record.replace(phase="ready", owner=None))


_STEPS: tuple[tuple[str, Callable[[Context, Host, Plan, AgentRecord], AgentRecord | None]], ...] = (
    ("reserve", _reserve),
    ("work_dir", _work_dir),
    ("dirty", _dirty_files),
    ("prepare", _prepare),
    ("set_up", _set_up),
    ("launch", _launch),
    ("commit", _commit),
)


def _host(ctx: Context, wanted: names.Address) -> Host:
    if wanted.provider in (None, "local") and wanted.host in (None, "local"):
        return ctx.local
    if wanted.provider is None:
        raise NotFound(f"there is no host {wanted.host!r}", "known: " + ", ".join(ctx.providers))
    if wanted.provider not in ctx.providers:
        raise NotFound(
            f"the provider {wanted.provider!r} is not available", "available: " + ", ".join(ctx.providers)
        )
    if wanted.host is None:
        return ctx.providers[wanted.provider].create(None, {})
    return ctx.host(wanted.provider, wanted.host)


def _kind(ctx: Context, request: CreateRequest) -> str:
    if request.kind:
        return request.kind
    if request.args and not request.args[0].startswith("-"):
        return "command"
    default = ctx.settings.get("commands.create.kind")
    if default:
        return str(default)
    raise MngrError(
        "there is nothing to run: no kind, no command, and no coding agent that could be taken by itself",
        f"write a command after --, or a kind: {', '.join(ctx.kind_names())}",
    )


def _free_name(ctx: Context) -> str:
    for _ in range(100):
        name = names.new_name()
        if store.find_id(ctx.home, name) is None:
            return name
    return names.new_name() + "-" + os.urandom(2).hex()


def _branch(host: Host, repo: Repo, request: CreateRequest) -> tuple[str, str, bool]:
    """(base commit, branch or pattern, whether it is new) of `[BASE][:NEW]`."""
    text = request.branch or ":mngr/*"
    start, colon, new = text.partition(":")
    if not colon:
        if not git.has_branch(host, repo.root, start):
            raise MngrError(f"there is no branch {start!r}", f"make a new one with --branch :{start}")
        if request.count > 1:
            raise UsageError(
                "--branch BASE alone is one branch, for one agent", "with --count write BASE:NEW-*"
            )
        commit = git.resolve(host, repo.root, f"refs/heads/{start}")
        assert commit is not None
        return commit, start, False
    new = new or "mngr/*"
    if request.count > 1 and "*" not in new:
        raise UsageError(f"--count {request.count} needs a branch each", f"write --branch {start}:{new}-*")
    commit = repo.head if not start else git.resolve(host, repo.root, start)
    if commit is None:
        raise MngrError(f"there is no commit {start!r}", "BASE is a branch, a tag or a commit")
    if request.branch and host.run(["git", "check-ref-format", "--branch", new.replace("*", "x")]).code:
        raise UsageError(f"{new!r} cannot be the name of a branch", "see: git help check-ref-format")
    return commit, new, True


def _dirty(ctx: Context, host: Host, source: Source, request: CreateRequest) -> list[tuple[str, str]]:
    if source.is_bare or (request.dirty == "ignore" and not request.says_ignored):
        return []
    rows = git.status(host, source.top, source.guard)
    if rows and request.dirty == "ignore":
        what = "1 uncommitted change stays" if len(rows) == 1 else f"{len(rows)} uncommitted changes stay"
        ctx.note(f"{what} here; to take it along: --dirty include")
        return []
    for _, path in rows if request.dirty == "include" else []:
        if os.path.exists(os.path.join(source.top, path, ".git")) and not path.endswith("/"):
            raise MngrError(
                f"the submodule {path!r} has changes, which --dirty include cannot take along",
                "commit them in the submodule and here, or use --dirty ignore",
            )
    if rows and request.dirty == "fail":
        shown = ", ".join(path for _, path in rows[:3]) + (
            f" and {len(rows) - 3} more" if len(rows) > 3 else ""
        )
        raise MngrError(
            f"{source.top} has uncommitted changes: {shown}",
            "commit them, or use --dirty include (take them along) or --dirty ignore (leave them here)",
        )
    return rows
