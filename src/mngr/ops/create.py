"""`create`: named steps, each undone when a later one fails; the record is the commit point."""

from __future__ import annotations

import os

from mngr import clock, git, names, store
from mngr.errors import MngrError, Unreachable, UsageError
from mngr.fanout import fanout
from mngr.model import AgentRecord, Record
from mngr.ops import environment, find, hosts, limit, project, relay, sandbox, transfer
from mngr.ops import list as listing
from mngr.ops.discard import discard
from mngr.ops.launch import launch, settle, write_command
from mngr.ops.source import Source, are_near, choose_transfer, find_source
from mngr.ops.start import start
from mngr.pipehost import PipeHost
from mngr.plugins import CODERS, KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.git import Repo
    from mngr.host import Host
    from mngr.model import AgentView
    from mngr.ops.context import Context


_INSTALLED = 'PATH=$1; shift; for name; do if command -v "$name" >/dev/null 2>&1; then echo "$name"; fi; done'


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
    activity: str = "output"
    sandbox: bool = False
    network: str | None = None  # None: off in a sandbox, else on
    build_args: list[str] = []  # of a new host: KEY=VALUE or KEY+=VALUE, as in the provider's settings
    new_host: bool = False  # it must not be there already
    yolo: bool = False  # the program asks nobody for permission
    resume: str | None = None  # a conversation that was begun outside
    confirmed: bool = False  # and may do so where it can reach more than its own host
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
    options: dict[str, Any]  # what the kind keeps for itself
    request: CreateRequest


def create(ctx: Context, request: CreateRequest) -> list[AgentView | Exception]:
    """Make the agents; one answer each, in order. Errors before the first step are raised."""
    wanted = names.Address() if request.address is None else find.address(ctx, request.address)
    if wanted.path is not None:
        raise UsageError("an address with a path cannot be created", "leave out what follows the colon")
    if request.count < 1:
        raise UsageError("--count must be at least 1", "leave it out for one agent")
    limit.check(request.idle_timeout)
    limit.check_activity(request.activity)
    ctx.home.exists()  # or it is not ours to use
    name = wanted.name or _free_name(ctx)
    wished = [name] if request.count == 1 else [f"{name}-{i}" for i in range(1, request.count + 1)]
    for one in wished:
        names.check_name(one)
    existing = _existing(ctx, wished)
    if existing and not request.reuse:
        raise store.NameTaken(next(iter(existing)))
    for one in existing:
        ctx.note(f"{one} is there already and was taken as it is")
    fresh = [n for n in wished if n not in existing]
    made: dict[str, AgentView | Exception] = {n: _reuse(ctx, i) for n, i in existing.items()}
    if fresh:
        if (unmade := hosts.stand_in(ctx, wanted)) is not None:  # nothing is made for what cannot be
            make_plan(ctx, unmade, request.replace(network=None, says_ignored=False))
        host, is_new = hosts.choose(ctx, wanted, request.build_args, request.network, new=request.new_host)
        try:
            plan = make_plan(ctx, host, request)
            ctx.home.make()
            plan = plan.replace(source=relay.bring_near(ctx, plan.source, host, plan.transfer, plan.base))
            make = _create_unnamed if wanted.name is None and request.count == 1 else create_one
            made.update(zip(fresh, fanout(lambda n: make(ctx, plan, n), fresh, at_once=4), strict=True))
        finally:
            if is_new and all(isinstance(made.get(n), Exception | None) for n in fresh):
                hosts.give_back(ctx, host)
    return [made[n] for n in wished]


def _existing(ctx: Context, wished: list[str]) -> dict[str, str]:
    """Id of each name that an agent has; one elsewhere that is gone by now gives its name back."""
    found: dict[str, str] = {}
    for name in wished:
        agent_id = store.find_id(ctx.home, name)
        place = store.find_place(ctx.home, name)
        if agent_id is None:
            continue
        host = ctx.host(*place) if place else ctx.local
        if host.has(host.home.agent(agent_id)):
            found[name] = agent_id
        elif place:
            store.release_name(ctx.home, name, agent_id)
    return found


def _reuse(ctx: Context, agent_id: str) -> AgentView | Exception:
    """The agent there is, running."""
    outcome = start(ctx, [agent_id])[0]
    if not outcome.ok:
        return MngrError(outcome.error or "it could not be started", outcome.hint)
    return listing.view(find.get_seen(ctx, agent_id))


def make_plan(ctx: Context, host: Host, request: CreateRequest) -> Plan:
    """Look at everything before touching anything."""
    kind = _kind(ctx, host, request)
    options = {key: value for key in ("yolo", "resume") if (value := getattr(request, key))}
    if kind not in KINDS and (parent := ctx.settings.get(f"agents.{kind}.parent")):
        options["parent"] = parent
    ctx.kind(kind, f"; a command goes after --: mngr create NAME -- {kind}").check(request.args, options)
    _ask_login(ctx, kind)
    request = sandbox.check(ctx, host, kind, request)
    if request.yolo:
        _check_yolo(ctx, host, request)
    source = sandbox.apart(find_source(ctx, host, request.source), request)
    mode = choose_transfer(source, host, request.transfer)
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
        base, branch, is_new = _branch(source.host, source.repo, request)
        rows = _dirty(ctx, source, request)
        if rows and request.dirty == "include" and base != source.repo.head:
            raise MngrError(
                "--dirty include takes along changes to what is checked out here, and --branch starts elsewhere",
                "leave BASE out, or use --dirty ignore",
            )
    elif request.branch:
        raise UsageError(f"--branch has no meaning with --transfer {mode}", "leave it out")
    elif mode == "none" and source.repo is not None:
        base, branch = source.repo.head, source.repo.branch
    variables = environment.inherit(ctx.kind(kind))
    variables.update(environment.gather(request.env_file, request.pass_env, request.env))
    return Plan(
        host=host, kind=kind, args=request.args, source=source, transfer=mode, base=base, branch=branch,
        branch_is_new=is_new, dirty=rows, variables=variables, options=options, request=request,
    )  # fmt: skip


def _ask_login(ctx: Context, name: str) -> None:
    """Whether agents may use the login that the user has: asked once, if there is somebody to ask, and remembered."""
    kind = ctx.kind(name)
    logins: dict[str, str] = getattr(kind, "logins", dict)()
    path = next((path for path in logins if os.path.isfile(path)), None)
    if ctx.ask is None or path is None or ctx.settings.get(f"agents.{name}.login") is not None:
        return
    agreed = ctx.ask(f"You are logged in to {kind.summary} ({path}). May agents use that login?")
    ctx.remember(f"agents.{name}.login", "shared" if agreed else "none")
    ctx.note(f"remembered; mngr config set agents.{name}.login shared|none changes it")


def _check_yolo(ctx: Context, host: Host, request: CreateRequest) -> None:
    """An agent that asks nobody belongs where nothing else is, unless the user himself said otherwise."""
    if request.sandbox or getattr(ctx.provider(host.provider), "can_create_hosts", False):
        return
    if request.confirmed or ctx.settings_at(None).get("yolo.anywhere") is True:
        return
    raise MngrError(
        f"--yolo lets the agent do anything that you can do on {host.name} without asking",
        "put it behind walls with --sandbox, or in a container: NAME@.docker; to allow it everywhere: mngr config set yolo.anywhere true",
    )


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
    record = _record(ctx, plan, name)
    announce = ctx.hooks.step("create", record)
    try:
        for step, act in _STEPS:
            announce(step)
            record = act(ctx, host, plan, record) or record
    except BaseException as error:
        keeps_branch = isinstance(error, transfer.BranchTaken)
        try:
            discard(ctx, host, record.replace(branch_is_new=False) if keeps_branch else record)
        except Unreachable:
            ctx.note(f"{name} may be left half made on {host.name}; when that answers again: mngr gc")
        raise
    listing.remember(ctx, host, record)
    ctx.hooks.tell("mngr_created", agent=record)
    return listing.view_of_started(host, record)


def _record(ctx: Context, plan: Plan, name: str) -> AgentRecord:
    host: Host = plan.host
    agent_id = names.new_id()
    work = plan.source.path
    if plan.transfer != "none":
        work = os.path.join(host.home.work, name)
        if host.has(work):
            work = f"{work}-{agent_id[2:8]}"
    elif not are_near(plan.source.host, host):
        work = host.run(["sh", "-c", "cd && pwd"]).text  # nothing is sent, so it begins where a person would
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
        options=plan.options,
        windows=plan.request.windows,
        idle_timeout=plan.request.idle_timeout,
        activity=plan.request.activity,
        sandbox=plan.request.sandbox,
        network=plan.request.network or "on",
    )


def _reserve(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    source, repo = plan.source, plan.source.repo
    branch = record.branch if record.branch_is_new and repo is not None else None
    if branch and repo and git.has_branch(source.host, repo.root, branch):
        raise transfer.branch_taken(branch)  # before the record says that the branch is ours
    store.reserve(ctx.home, host, record)


def _work_dir(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    source, repo = plan.source, plan.source.repo
    if record.transfer == "worktree" and repo is not None:
        transfer.make_worktree(host, repo, record)
    elif record.transfer == "mirror" and repo is not None:
        transfer.make_mirror(host, source, record)
    elif record.transfer == "copy":
        transfer.make_copy(host, source, record)


def _dirty_files(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    if plan.dirty and plan.request.dirty == "include":
        transfer.carry_dirty(host, plan.source, record, plan.dirty)


def _prepare(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    text = environment.compose(
        environment.base(ctx.home, host), plan.variables, environment.own(ctx, host, record)
    )
    host.write(os.path.join(host.home.agent(record.id), "env"), text)
    settle(ctx, host)
    ctx.kind_of(record).prepare(host, record)
    write_command(ctx, host, record, resume=False)


def _set_up(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    if record.transfer == "none":
        return
    source = plan.source
    files = source.files if source.is_bare else source.top
    settings = ctx.settings_of(*((source.host, files) if files else (host, record.work_dir)))
    if files:
        project.carry(source.host, files, host, record, settings, by=source.by)
    project.set_up(host, record, settings)


def _launch(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    store.add_event(
        host, record.id, "created", name=record.name, kind=record.kind, branch=record.branch, base=record.base
    )
    launch(ctx, host, record)
    if limit.is_limited(record):
        limit.watch(ctx, host, record)


def _commit(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> AgentRecord:
    store.keep_branch(ctx.home, record)
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


def _kind(ctx: Context, host: Host, request: CreateRequest) -> str:
    if request.kind:
        return request.kind
    if request.args and not request.args[0].startswith("-"):
        return "command"
    default = ctx.settings.get("commands.create.kind")
    if default:
        return str(default)
    path = environment.base(ctx.home, host).get("PATH", os.defpath)
    programs = {name: ctx.kind(name).programs[0] for name in CODERS}
    try:
        found = host.run(["sh", "-c", _INSTALLED, "installed", path, *programs.values()]).text.split("\n")
    except Unreachable:
        if not isinstance(host, PipeHost) or not isinstance(host.wire, hosts.Nowhere):
            raise
        return CODERS[0]  # what a host has that is not made yet will be seen
    for name, program in programs.items():
        if program in found:
            return name
    raise MngrError(
        "there is nothing to run: no kind, no command, and no coding agent is installed",
        f"write a command after --, or install one of: {', '.join(CODERS)}; mngr doctor KIND says how",
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


def _dirty(ctx: Context, source: Source, request: CreateRequest) -> list[tuple[str, str]]:
    if source.is_bare or (request.dirty == "ignore" and not request.says_ignored):
        return []
    rows = git.status(source.host, source.top, source.by)
    if rows and request.dirty == "ignore":
        what = "1 uncommitted change stays" if len(rows) == 1 else f"{len(rows)} uncommitted changes stay"
        ctx.note(f"{what} here; to take it along: --dirty include")
        return []
    for _, path in rows if request.dirty == "include" else []:
        if not path.endswith("/") and transfer.is_submodule(source, path):
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
