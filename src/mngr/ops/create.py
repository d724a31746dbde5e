"""`create`: named steps, each undone when a later one fails; the record is the commit point."""

from __future__ import annotations

import os

from mngr import clock, config, git, names, store
from mngr.errors import MngrError, NotFound, UsageError
from mngr.fanout import fanout
from mngr.model import TRANSFERS, AgentRecord, Record
from mngr.ops import environment, find, limit, project, transfer
from mngr.ops import list as listing
from mngr.ops.discard import discard
from mngr.ops.launch import install_lib, launch, write_command
from mngr.ops.start import start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from mngr.config import Settings
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
    source: str
    repo: Repo | None
    transfer: str
    base: str | None
    branch: str | None  # a pattern with * for the name, or an existing branch
    branch_is_new: bool
    dirty: list[tuple[str, str]]
    settings: Settings
    variables: dict[str, str]
    request: CreateRequest


def create(ctx: Context, request: CreateRequest) -> list[AgentView | Exception]:
    """Make the agents; one answer each, in order. Errors before the first step are raised."""
    wanted = find.address(ctx, request.address) if request.address else names.Address(name=names.new_name())
    host = _host(ctx, wanted)
    if wanted.path is not None:
        raise UsageError("an address with a path cannot be created", "leave out what follows the colon")
    ctx.home.make()
    name = wanted.name or _free_name(ctx)
    wished = [name] if request.count == 1 else [f"{name}-{i}" for i in range(1, request.count + 1)]
    for one in wished:
        names.check_name(one)
    if request.count < 1:
        raise UsageError("--count must be at least 1")
    existing = {n: i for n in wished if (i := store.find_id(ctx.home, n)) and os.path.isdir(host.home.agent(i))}
    if existing and not request.reuse:
        taken = next(iter(existing))
        raise MngrError(
            f"there is already an agent called {taken!r}", f"choose another name, use --reuse, or: mngr destroy {taken}"
        )
    fresh = [n for n in wished if n not in existing]
    made: dict[str, AgentView | Exception] = {n: _reuse(ctx, i) for n, i in existing.items()}
    if fresh:
        plan = make_plan(ctx, host, request)
        made.update(zip(fresh, fanout(lambda n: create_one(ctx, plan, n), fresh, at_once=4), strict=True))
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
    source, repo = _source(ctx, host, request.source)
    mode = request.transfer or ("worktree" if repo is not None else "copy")
    if mode not in TRANSFERS:
        raise UsageError(f"--transfer cannot be {mode!r}", "one of: " + ", ".join(TRANSFERS))
    base, branch, is_new = None, None, False
    rows: list[tuple[str, str]] = []
    if mode in ("worktree", "mirror"):
        if repo is None:
            raise MngrError(f"{source} is not in a git repository", "git init it, or use --transfer copy or none")
        if repo.head is None:
            raise MngrError(f"the repository {source} has no commits", "make the first one, or use --transfer copy or none")
        base, branch, is_new = _branch(host, repo, request)
        rows = _dirty(ctx, host, repo, request)
    elif request.branch:
        raise UsageError(f"--branch has no meaning with --transfer {mode}", "leave it out")
    elif mode == "none" and repo is not None:
        base, branch = repo.head, repo.branch
    settings = ctx.settings
    if repo is not None and repo.root != _project_root(ctx):
        settings = config.load(ctx.home.settings, repo.root, [], dict(os.environ))
    variables = environment.gather(request.env_file, request.pass_env, request.env)
    return Plan(
        host=host, kind=kind, args=request.args, source=source, repo=repo, transfer=mode, base=base, branch=branch,
        branch_is_new=is_new, dirty=rows, settings=settings, variables=variables, request=request,
    )  # fmt: skip


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
    limit.watch(ctx, host, record)
    return listing.view_of_started(host, record)


def _record(plan: Plan, name: str) -> AgentRecord:
    host: Host = plan.host
    agent_id = names.new_id()
    work = plan.source
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
        project=os.path.basename(plan.repo.root if plan.repo else plan.source) or "root",
        source=plan.repo.root if plan.repo else plan.source,
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
    if record.branch_is_new and plan.repo and record.branch and git.has_branch(host, plan.repo.root, record.branch):
        raise transfer.branch_taken(record.branch)  # before the record says that the branch is ours
    directory = host.home.agent(record.id)
    os.makedirs(os.path.join(directory, "outputs"), mode=0o700)
    store.save(host, record)
    store.reserve_name(ctx.home, record.name, record.id, host)


def _work_dir(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    if record.transfer == "worktree":
        assert plan.repo is not None
        transfer.make_worktree(host, plan.repo, record)
    elif record.transfer == "mirror":
        assert plan.repo is not None
        transfer.make_mirror(host, plan.repo, record)
    elif record.transfer == "copy":
        transfer.make_copy(host, plan.repo.root if plan.repo else plan.source, plan.repo, record)


def _dirty_files(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    if plan.dirty and plan.request.dirty == "include":
        assert plan.repo is not None
        transfer.carry_dirty(host, plan.repo, record, plan.dirty)


def _prepare(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    variables = {**environment.base(), **plan.variables, **environment.own(host, record)}
    host.write(os.path.join(host.home.agent(record.id), "env"), environment.encode(variables))
    install_lib(host)
    ctx.kind(record.kind).prepare(host, record)
    write_command(ctx, host, record, resume=False)


def _set_up(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    if record.transfer != "none":
        project.carry(host, plan.repo.root if plan.repo else plan.source, record, plan.settings)
        project.set_up(host, record, plan.settings)


def _launch(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> None:
    launch(ctx, host, record)


def _commit(ctx: Context, host: Host, plan: Plan, record: AgentRecord) -> AgentRecord:
    record = store.save(host, record.replace(phase="ready", owner=None))
    store.add_event(host, record.id, "created", name=record.name, kind=record.kind, branch=record.branch, base=record.base)
    return record


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
        raise NotFound(f"the provider {wanted.provider!r} is not available", "available: " + ", ".join(ctx.providers))
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


def _project_root(ctx: Context) -> str | None:
    from mngr.paths import find_project_root

    return find_project_root(ctx.cwd)


def _source(ctx: Context, host: Host, given: str | None) -> tuple[str, Repo | None]:
    """The directory to work from, and the repository it is in."""
    if given is None:
        return ctx.cwd, git.find_repo(host, ctx.cwd)
    if "://" in given or (given.partition(":")[1] and "@" in given.partition(":")[0] and "/" in given):
        return _from_url(ctx, host, given)
    path = os.path.abspath(os.path.join(ctx.cwd, os.path.expanduser(given)))
    if os.path.isdir(path):
        return path, git.find_repo(host, path)
    if names.is_name(given):
        _, record = find.find(ctx, given)
        return record.work_dir, git.find_repo(host, record.work_dir)
    raise MngrError(f"--from: there is no directory, agent or address {given!r}", "give a path, an agent's name or a URL")


def _from_url(ctx: Context, host: Host, url: str) -> tuple[str, Repo | None]:
    """A bare copy of a remote repository, kept and brought up to date."""
    import hashlib

    from mngr.lock import Lock

    place = os.path.join(ctx.home.cache, "repos", hashlib.sha256(url.encode()).hexdigest()[:16] + ".git")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with Lock(place + ".lock", timeout=600):
        if os.path.isdir(place):
            result = git.run(host, place, "fetch", "--quiet", "--prune", "origin")
        else:
            result = host.run(["git", "clone", "--quiet", "--mirror", "--", url, place])
    if result.code:
        raise MngrError(f"--from: cannot fetch {url}: {result.problem}", "check the address and your access to it")
    head = git.run(host, place, "rev-parse", "HEAD")
    if head.code:
        raise MngrError(f"--from: {url} has no commits", "choose a branch with --branch BASE:NEW")
    branch = git.run(host, place, "symbolic-ref", "--short", "HEAD").text or None
    return place, git.Repo(root=place, common_dir=place, head=head.text, branch=branch)


def _branch(host: Host, repo: Repo, request: CreateRequest) -> tuple[str, str, bool]:
    """(base commit, branch or pattern, whether it is new) of `[BASE][:NEW]`."""
    text = request.branch or ":mngr/*"
    start, colon, new = text.partition(":")
    if not colon:
        if not git.has_branch(host, repo.root, start):
            raise MngrError(f"there is no branch {start!r}", f"make a new one with --branch :{start}")
        if request.count > 1:
            raise UsageError("--branch BASE alone is one branch, for one agent", "with --count write BASE:NEW-*")
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


def _dirty(ctx: Context, host: Host, repo: Repo, request: CreateRequest) -> list[tuple[str, str]]:
    if repo.root == repo.common_dir or (request.dirty == "ignore" and not request.says_ignored):
        return []
    rows = git.status(host, repo.root)
    if rows and request.dirty == "ignore":
        ctx.note(f"{len(rows)} uncommitted changes stay here; take them along with --dirty include")
        return []
    if rows and request.dirty == "fail":
        shown = ", ".join(path for _, path in rows[:3]) + (f" and {len(rows) - 3} more" if len(rows) > 3 else "")
        raise MngrError(
            f"{repo.root} has uncommitted changes: {shown}",
            "commit them, or use --dirty include (take them along) or --dirty ignore (leave them here)",
        )
    return rows
