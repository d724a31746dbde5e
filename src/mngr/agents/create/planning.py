"""Plans what `create` will do, before it changes anything."""

from __future__ import annotations

import os

from mngr.agents.launch import environment
from mngr.agents.lifecycle import hosts
from mngr.agents.sandbox.bubblewrap import ISOLATION_FLAGS
from mngr.agents.workdir import transfer
from mngr.agents.workdir.source import ProjectSource, choose_transfer, get_source
from mngr.base import names
from mngr.base.errors import MngrError, Unreachable, UsageError
from mngr.base.model import Struct
from mngr.host import git, registry
from mngr.host.remote_host import RemoteHost
from mngr.kinds.protocol import LoginKind, ModelKind
from mngr.plugins.loader import CODING_KINDS, KIND_MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.agents.context import Context
    from mngr.agents.create.request import CreateRequest
    from mngr.host.git import Repo
    from mngr.host.protocol import Host


_LIST_INSTALLED = 'PATH=$1; shift; for name; do if command -v "$name" >/dev/null 2>&1; then echo "$name"; fi; done'


class StartingPoint(Struct):
    """The commit and branch that the agents start from, and the uncommitted files of the source."""

    base: str | None = None
    branch: str | None = None  # a pattern with * for the name, or an existing branch
    branch_is_new: bool = False
    dirty: list[tuple[str, str]] = []  # (status, path)


class CreatePlan(Struct):
    """The decisions that are the same for all agents of one request."""

    host: Host
    kind: str
    args: list[str]
    source: ProjectSource
    transfer: str
    start: StartingPoint
    variables: dict[str, str]
    options: dict[str, Any]  # the agent kind's own options
    request: CreateRequest
    is_host_new: bool = False  # True when this request created the host


def make_plan(ctx: Context, host: Host, request: CreateRequest, first_plan: CreatePlan | None = None) -> CreatePlan:
    """Check the request and return the plan, without changing anything.

    `first_plan` is the plan that was made for the same request before its host existed.
    """
    kind = _choose_kind(ctx, host, request)
    options = _collect_kind_options(ctx, kind, request)
    ctx.get_kind(kind, f"; a command goes after --: mngr create NAME -- {kind}").check_arguments(request.args, options)
    _ask_to_share_login(ctx, kind)
    request = resolve_network(ctx, host, kind, request)
    if request.yolo:
        _check_yolo_allowed(ctx, host, request)
    source = first_plan.source if first_plan else get_source(ctx, host, request.source)
    source = exclude_shared_transfers(source, request)
    mode = choose_transfer(source, host, request.transfer)
    if first_plan is not None and first_plan.transfer == mode:
        start = first_plan.start
    else:
        start = _choose_start(ctx, source, mode, request)
    variables = environment.get_inherited_variables(ctx.get_kind(kind))
    variables.update(environment.collect_user_variables(request.env_file, request.pass_env, request.env))
    return CreatePlan(
        host=host, kind=kind, args=request.args, source=source, transfer=mode, start=start,
        variables=variables, options=options, request=request,
    )  # fmt: skip


def _collect_kind_options(ctx: Context, kind: str, request: CreateRequest) -> dict[str, Any]:
    """Return the options that the agent kind handles itself."""
    options: dict[str, Any] = {}
    if request.yolo:
        options["yolo"] = request.yolo
    if request.resume:
        options["resume"] = request.resume
    if kind not in KIND_MODULES:
        parent = ctx.settings.get(f"agents.{kind}.parent")
        if parent:
            options["parent"] = parent
    return options


def _choose_start(ctx: Context, source: ProjectSource, mode: str, request: CreateRequest) -> StartingPoint:
    """Return where agents with this transfer mode start. Raise MngrError if the source does not allow it."""
    if mode in ("worktree", "mirror"):
        return _choose_git_start(ctx, source, request)
    if request.branch:
        raise UsageError(f"--branch has no meaning with --transfer {mode}", "leave it out")
    if mode == "none" and source.repo is not None:
        return StartingPoint(base=source.repo.head, branch=source.repo.branch)
    return StartingPoint()


def _choose_git_start(ctx: Context, source: ProjectSource, request: CreateRequest) -> StartingPoint:
    """Return the commit, the branch and the uncommitted files for a worktree or a mirror."""
    if source.repo is None:
        raise MngrError(f"{source.path} is not in a git repository", "git init it, or use --transfer copy or none")
    if source.repo.head is None:
        raise MngrError(
            f"the repository {source.root_dir} has no commits",
            "make the first one, or use --transfer copy or none",
        )
    base, branch, is_new = _choose_branch(source.host, source.repo, request)
    dirty_files = _list_dirty_files(ctx, source, request)
    starts_elsewhere = base != source.repo.head
    if dirty_files and request.dirty == "include" and starts_elsewhere:
        raise MngrError(
            "--dirty include takes along changes to what is checked out here, and --branch starts elsewhere",
            "leave BASE out, or use --dirty ignore",
        )
    return StartingPoint(base=base, branch=branch, branch_is_new=is_new, dirty=dirty_files)


def _ask_to_share_login(ctx: Context, name: str) -> None:
    """Ask the user once whether agents may use their login, and save the answer. Without a user to ask, do nothing."""
    kind = ctx.get_kind(name)
    login_files = kind.list_login_files() if isinstance(kind, LoginKind) else {}
    path = next((path for path in login_files if os.path.isfile(path)), None)
    if ctx.ask is None or path is None or ctx.settings.get(f"agents.{name}.login") is not None:
        return
    agreed = ctx.ask(f"You are logged in to {kind.summary} ({path}). May agents use that login?")
    from mngr.agents.settings_files import set_setting

    set_setting(ctx, f"agents.{name}.login", "shared" if agreed else "none", "user")
    ctx.reload_settings()
    ctx.note(f"remembered; mngr config set agents.{name}.login shared|none changes it")


def _check_yolo_allowed(ctx: Context, host: Host, request: CreateRequest) -> None:
    """Raise MngrError for --yolo outside a sandbox and a disposable host, unless the user has allowed it."""
    if request.sandbox or ctx.get_provider(host.provider).can_create_hosts:
        return
    if request.yolo_confirmed or ctx.load_project_settings(None).get("yolo.anywhere") is True:
        return
    raise MngrError(
        f"--yolo lets the agent do anything that you can do on {host.name} without asking",
        "put it behind walls with --sandbox, or in a container: NAME@.docker; to allow it everywhere: mngr config set yolo.anywhere true",
    )


def _choose_kind(ctx: Context, host: Host, request: CreateRequest) -> str:
    """Return the agent kind: requested, implied by a command, set as default, or the first installed coding agent."""
    if request.kind:
        return request.kind
    if request.args and not request.args[0].startswith("-"):
        return "command"
    default = ctx.settings.get("commands.create.kind")
    if default:
        return str(default)
    path = environment.get_host_variables(ctx.home, host).get("PATH", os.defpath)
    programs = {name: ctx.get_kind(name).programs[0] for name in CODING_KINDS}
    try:
        installed = host.run(["sh", "-c", _LIST_INSTALLED, "installed", path, *programs.values()]).text.split("\n")
    except Unreachable:
        if not isinstance(host, RemoteHost) or not isinstance(host.transport, hosts.UnmadeHostTransport):
            raise
        return CODING_KINDS[0]  # The installed programs are unknown until the host exists.
    for name, program in programs.items():
        if program in installed:
            return name
    raise MngrError(
        "there is nothing to run: no kind, no command, and no coding agent is installed",
        f"write a command after --, or install one of: {', '.join(CODING_KINDS)}; mngr doctor KIND says how",
    )


def _choose_branch(host: Host, repo: Repo, request: CreateRequest) -> tuple[str, str, bool]:
    """Parse `[BASE][:NEW]` and return (base commit, branch or pattern, whether the branch is new)."""
    spec = request.branch or ":mngr/*"
    base_name, colon, new_branch = spec.partition(":")
    if not colon:
        if not git.has_branch(host, repo.root, base_name):
            raise MngrError(f"there is no branch {base_name!r}", f"make a new one with --branch :{base_name}")
        if request.count > 1:
            raise UsageError("--branch BASE alone is one branch, for one agent", "with --count write BASE:NEW-*")
        commit = git.find_commit(host, repo.root, f"refs/heads/{base_name}")
        assert commit is not None
        return commit, base_name, False
    new_branch = new_branch or "mngr/*"
    if request.count > 1 and "*" not in new_branch:
        raise UsageError(f"--count {request.count} needs a branch each", f"write --branch {base_name}:{new_branch}-*")
    commit = repo.head if not base_name else git.find_commit(host, repo.root, base_name)
    if commit is None:
        raise MngrError(f"there is no commit {base_name!r}", "BASE is a branch, a tag or a commit")
    if request.branch and host.run(["git", "check-ref-format", "--branch", new_branch.replace("*", "x")]).code:
        raise UsageError(f"{new_branch!r} cannot be the name of a branch", "see: git help check-ref-format")
    return commit, new_branch, True


def _list_dirty_files(ctx: Context, source: ProjectSource, request: CreateRequest) -> list[tuple[str, str]]:
    """Return the (status, path) rows of uncommitted files. Raise MngrError when `--dirty` does not allow them."""
    if source.is_bare or (request.dirty == "ignore" and not request.notes_ignored):
        return []
    rows = git.list_dirty_files(source.host, source.root_dir, source.git_command)
    if rows and request.dirty == "ignore":
        summary = "1 uncommitted change stays" if len(rows) == 1 else f"{len(rows)} uncommitted changes stay"
        ctx.note(f"{summary} here; to take it along: --dirty include")
        return []
    if request.dirty == "include":
        _check_no_changed_submodule(source, rows)
    if rows and request.dirty == "fail":
        shown_paths = ", ".join(path for _, path in rows[:3])
        if len(rows) > 3:
            shown_paths += f" and {len(rows) - 3} more"
        raise MngrError(
            f"{source.root_dir} has uncommitted changes: {shown_paths}",
            "commit them, or use --dirty include (take them along) or --dirty ignore (leave them here)",
        )
    return rows


def _check_no_changed_submodule(source: ProjectSource, rows: list[tuple[str, str]]) -> None:
    """Raise MngrError when an uncommitted change is in a submodule."""
    for _, path in rows:
        if not path.endswith("/") and transfer.is_submodule(source, path):
            raise MngrError(
                f"the submodule {path!r} has changes, which --dirty include cannot take along",
                "commit them in the submodule and here, or use --dirty ignore",
            )


def resolve_network(ctx: Context, host: Host, kind: str, request: CreateRequest) -> CreateRequest:
    """Return the request with its network mode decided. Raise an error when this host cannot provide the mode."""
    network = request.network
    host_network = _find_host_network(ctx, host)
    if host_network is not None and not request.sandbox:  # All agents of the host share its network.
        if network not in (None, host_network):
            hint = f"make a host of its own: NAME@.{host.provider} --network {network}"
            raise MngrError(f"{host.name} was made with --network {host_network}", hint)
        return request.replace(network=host_network)
    if network is None:
        network = _choose_default_network(ctx, kind, request)
    mode, _ = names.parse_network(network)
    if request.sandbox and request.transfer in ("worktree", "none"):
        raise UsageError(
            f"--sandbox cannot go with --transfer {request.transfer}, which shares files with you",
            "leave it out: a sandboxed agent gets a mirror; or use copy",
        )
    if mode != "on" and request.transfer == "worktree":
        raise UsageError(
            f"--network {mode} cannot go with --transfer worktree, whose .git is yours",
            "leave it out: an agent behind walls gets a mirror; or use copy",
        )
    if request.sandbox or mode != "on":
        _check_sandbox_works(host, "--sandbox" if request.sandbox else "--network")
    return request.replace(network=network)


def _find_host_network(ctx: Context, host: Host) -> str | None:
    """Return the network mode that the host was created with, or None if it has no mode."""
    if host.is_local:
        return None
    facts = registry.find_facts(ctx.home, host.provider, host.name) or {}
    return facts.get("network")


def _choose_default_network(ctx: Context, kind: str, request: CreateRequest) -> str:
    """Return the network mode without `--network`: in a sandbox only the model's addresses, otherwise all."""
    addresses = _list_model_addresses(ctx, kind, request)
    if not request.sandbox:
        return "on"
    return "allow=" + ",".join(addresses) if addresses else "off"


def _list_model_addresses(ctx: Context, kind: str, request: CreateRequest) -> tuple[str, ...]:
    """Return the addresses of the agent kind's model, the only ones that its sandbox allows."""
    agent_kind = ctx.get_kind(kind)
    if not isinstance(agent_kind, ModelKind):
        return ()
    variables = environment.get_inherited_variables(agent_kind)
    variables.update(environment.collect_user_variables(request.env_file, request.pass_env, request.env))
    return agent_kind.list_model_addresses(variables)


def _check_sandbox_works(host: Host, flag: str) -> None:
    """Raise MngrError when bubblewrap does not work on this host."""
    if host.provider != "local":
        raise MngrError(f"{flag} is not for {host.provider} hosts", "leave it out, or make the agent here")
    from mngr.agents.sandbox import seccomp

    argv = ["bwrap", *ISOLATION_FLAGS, "--ro-bind", "/", "/", "--proc", "/proc", "--seccomp", "0", "--"]
    result = host.run([*argv, "/usr/bin/env", "--default-signal", "true"], stdin=seccomp.build_filter())
    if result.code == 0:
        return
    hint = "it needs user namespaces (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0) and env of GNU coreutils"
    if "unknown option" in result.error_line.lower():
        hint = "install bubblewrap 0.8 or newer"
    raise MngrError(f"{flag}: bubblewrap does not work here: {result.error_line}", hint)


def exclude_shared_transfers(source: ProjectSource, request: CreateRequest) -> ProjectSource:
    """Return the source without the transfer modes that share files with it.

    Only an agent with `--network` but without `--sandbox` may still use `none`.
    """
    if not request.sandbox and request.network in (None, "on"):
        return source
    modes = ("mirror", "copy") if request.sandbox else ("mirror", "copy", "none")
    return source.replace(transfers=tuple(mode for mode in modes if mode in source.transfers))
