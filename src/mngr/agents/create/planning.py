"""Plans what `create` will do, before it changes anything."""

from __future__ import annotations

import os

from mngr.agents.launch import environment
from mngr.agents.workdir import transfer
from mngr.agents.workdir.source import ProjectSource, choose_transfer, get_source
from mngr.base import names_and_addresses
from mngr.base.errors import MngrError, UsageError
from mngr.base.model import Struct
from mngr.base.size_format import format_count
from mngr.host import git, host_store
from mngr.kinds.protocol import KindOptions, LoginKind, ModelKind
from mngr.plugins.loader import CODING_KINDS, KIND_MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.create.spec import AgentSpec
    from mngr.host.git import Repo
    from mngr.host.protocol import Host


_DEFAULT_BRANCH = "mngr/*"  # the * stands for the agent's name
_MAX_NAMED_PATHS = 3  # dirty files that an error names
_LIST_INSTALLED = 'PATH=$1; shift; for name; do if command -v "$name" >/dev/null 2>&1; then echo "$name"; fi; done'


class StartingPoint(Struct):
    """The commit and branch that the agents start from, and the uncommitted files of the source."""

    base: str | None = None
    branch: str | None = None  # a pattern with * for the name, or an existing branch
    branch_is_new: bool = False
    dirty: list[tuple[str, str]] = []  # (status, path)


class WorkPlan(Struct):
    """The project that the agents work on, how they get it, and where they start."""

    source: ProjectSource
    transfer: str
    start: StartingPoint


class CreatePlan(WorkPlan):
    """The decisions that are the same for all agents on one host."""

    spec: AgentSpec  # with its kind, transfer mode, network and variables decided
    host: Host
    variables: dict[str, str]  # the user's
    private_names: frozenset[str]  # the user's variables that the project's set-up must not see
    options: dict[str, object]  # the agent kind's own options
    is_host_new: bool = False  # True when this call created the host
    agent_count: int = 1  # agents that this call creates on the host

    @property
    def copies_dirty_files(self) -> bool:
        """True when the agent gets uncommitted files of the source."""
        return bool(self.start.dirty) and self.spec.dirty == "include"


def decide_kind_and_variables(ctx: Context, spec: AgentSpec) -> AgentSpec:
    """Return the spec with all its variables in `env`, and with its kind, unless that depends on the host."""
    kind = _find_requested_kind(ctx, spec)
    if kind is not None:
        _check_kind(ctx, kind, spec)
    variables = environment.collect_user_variables(spec.env_file, spec.pass_env, spec.env)
    private_names = [name for name in variables if name not in spec.env]
    return spec.replace(kind=kind, env=variables, private_env=private_names, env_file=[], pass_env=[])


def plan_work_on_new_host(ctx: Context, spec: AgentSpec, provider: str) -> WorkPlan:
    """Return the plan for agents on a host that is yet to be created, so that errors show before."""
    if spec.sandbox:
        raise _make_provider_error(provider, "--sandbox")
    return _plan_work(ctx, spec, None)


def make_plan(ctx: Context, host: Host, spec: AgentSpec, work: WorkPlan | None) -> CreatePlan:
    """Decide all that depends on the host, and return the plan. Change nothing.

    `work` is the plan that was made before the host was created, if it was created for these agents.
    """
    kind = spec.kind
    if kind is None:
        kind = _get_installed_kind(ctx, host)
        _check_kind(ctx, kind, spec)
    spec = resolve_network(ctx, host, spec.replace(kind=kind))
    if spec.yolo:
        _check_yolo_allowed(ctx, host, spec)
    if work is None:
        work = _plan_work(ctx, spec, host)
    inherited = environment.get_inherited_variables(ctx.get_kind(kind))
    return CreatePlan(
        **work.to_dict(),
        spec=spec.replace(transfer=work.transfer),
        host=host,
        variables={**inherited, **spec.env},
        private_names=frozenset((*inherited, *spec.private_env)),
        options=_collect_kind_options(ctx, kind, spec),
    )


def _plan_work(ctx: Context, spec: AgentSpec, host: Host | None) -> WorkPlan:
    """Return what the agents work on. `host` is None if mngr has yet to create the host."""
    source = _exclude_shared_transfers(get_source(ctx, spec.source), spec)
    mode = choose_transfer(source, host, spec.transfer)
    return WorkPlan(source=source, transfer=mode, start=_choose_start(ctx, source, mode, spec))


def _check_kind(ctx: Context, kind: str, spec: AgentSpec) -> None:
    """Raise an error for a kind that does not exist or rejects its arguments. Ask whether it may use the login."""
    hint = f"; to run a command: mngr create NAME -- {kind}"
    options = KindOptions(yolo=bool(spec.yolo), resume=spec.resume or None)
    ctx.get_kind(kind, hint).check_arguments(spec.command, options)
    _ask_to_share_login(ctx, kind)


def _collect_kind_options(ctx: Context, kind: str, spec: AgentSpec) -> dict[str, object]:
    """Return the options that the agent kind handles itself."""
    is_built_in = kind in KIND_MODULES
    parent = None if is_built_in else ctx.settings.get(f"agents.{kind}.parent")
    options = {"yolo": spec.yolo, "resume": spec.resume, "parent": parent}
    return {name: value for name, value in options.items() if value}


def _choose_start(ctx: Context, source: ProjectSource, mode: str, spec: AgentSpec) -> StartingPoint:
    """Return where agents with this transfer mode start. Raise MngrError if the source does not allow it."""
    if mode in ("worktree", "mirror"):
        return _choose_git_start(ctx, source, spec)
    if spec.branch:
        raise UsageError(f"--branch has no effect with --transfer {mode}", "leave out --branch")
    if mode == "none" and source.repo is not None:
        return StartingPoint(base=source.repo.head, branch=source.repo.branch)
    return StartingPoint()


def _choose_git_start(ctx: Context, source: ProjectSource, spec: AgentSpec) -> StartingPoint:
    """Return the commit, the branch and the uncommitted files for a worktree or a mirror."""
    if source.repo is None:
        raise MngrError(
            f"{source.path} is not in a git repository",
            "create a repository: git init; or work without git: --transfer copy or --transfer none",
        )
    if source.repo.head is None:
        raise MngrError(
            f"the repository {source.root_dir} has no commits",
            "create the first commit: git add -A && git commit -m 'First commit'; or work without git: --transfer copy or --transfer none",
        )
    start = _choose_branch(source.host, source.repo, spec)
    dirty_files = _list_dirty_files(ctx, source, spec)
    if dirty_files and start.base != source.repo.head:
        raise MngrError(
            "--dirty include copies the changes to the commit that is checked out here, but --branch starts from another commit",
            "leave out BASE: --branch :NEW; or do not copy the changes: --dirty ignore",
        )
    return start.replace(dirty=dirty_files)


def _ask_to_share_login(ctx: Context, name: str) -> None:
    """Ask the user once whether agents may use their login, and save the answer. Without a user to ask, do nothing."""
    key = f"agents.{name}.login"
    if ctx.ask is None or ctx.settings.get(key) is not None:
        return
    kind = ctx.get_kind(name)
    if not isinstance(kind, LoginKind):
        return
    path = next(filter(os.path.isfile, kind.list_login_files()), None)
    if path is None:
        return
    agreed = ctx.ask(f"You are logged in to {kind.summary} ({path}). May agents use this login?")
    from mngr.agents.edit_settings import set_setting

    set_setting(ctx, key, "shared" if agreed else "none", "user")
    ctx.reload_settings()
    ctx.note(f"mngr saved your answer; change it with: mngr config set {key} shared|none")


def _check_yolo_allowed(ctx: Context, host: Host, spec: AgentSpec) -> None:
    """Raise MngrError for --yolo outside a sandbox and a disposable host, unless the user has allowed it."""
    if spec.sandbox or ctx.get_provider(host.provider).can_create_hosts:
        return
    if spec.yolo_confirmed or ctx.load_project_settings(None).get("yolo.anywhere") is True:
        return
    raise MngrError(
        f"mngr refuses --yolo on {host.name} without a sandbox: the agent could do anything that you can do",
        "add --sandbox, or use a container: mngr create NAME@.docker --yolo; to allow it on every host: mngr config set yolo.anywhere true",
    )


def _find_requested_kind(ctx: Context, spec: AgentSpec) -> str | None:
    """Return the kind that the spec names, that its command implies or that the settings name."""
    if spec.kind:
        return spec.kind
    if spec.command and not spec.command[0].startswith("-"):
        return "command"
    default = ctx.settings.get("commands.create.kind")
    return str(default) if default else None


def _get_installed_kind(ctx: Context, host: Host) -> str:
    """Return the first coding agent that is installed on the host. Raise MngrError when there is none."""
    path = environment.get_host_variables(ctx.home, host).get("PATH", os.defpath)
    programs = {name: ctx.get_kind(name).programs[0] for name in CODING_KINDS}
    installed = host.run(["sh", "-c", _LIST_INSTALLED, "installed", path, *programs.values()]).text.split("\n")
    for name, program in programs.items():
        if program in installed:
            return name
    raise MngrError(
        "mngr does not know what to run: you named no kind and no command, and no coding agent is installed",
        f"install one of {', '.join(CODING_KINDS)} (mngr doctor claude shows how), or run a command: mngr create NAME -- COMMAND",
    )


def _choose_branch(host: Host, repo: Repo, spec: AgentSpec) -> StartingPoint:
    """Return the commit and the branch that `[BASE][:NEW]` names."""
    if not spec.branch:
        return StartingPoint(base=repo.head, branch=_DEFAULT_BRANCH, branch_is_new=True)
    base, colon, new_branch = spec.branch.partition(":")
    if not colon:
        return _use_existing_branch(host, repo, base, spec.count)
    return _choose_new_branch(host, repo, base, new_branch or _DEFAULT_BRANCH, spec.count)


def _use_existing_branch(host: Host, repo: Repo, branch: str, agent_count: int) -> StartingPoint:
    """Return an existing branch as the branch of the one agent."""
    if not git.has_branch(host, repo.root, branch, git.SAFE_GIT):
        raise MngrError(f"there is no branch {branch!r}", f"create it with: --branch :{branch}")
    if agent_count > 1:
        raise UsageError(
            f"--branch {branch} is one branch, but --count {agent_count} needs one branch for each agent",
            f"write --branch {branch}:NEW-*",
        )
    return StartingPoint(base=git.find_commit(host, repo.root, f"refs/heads/{branch}", git.SAFE_GIT), branch=branch)


def _choose_new_branch(host: Host, repo: Repo, base: str, branch: str, agent_count: int) -> StartingPoint:
    """Return a new branch from a base, which is what is checked out if `base` is empty."""
    if agent_count > 1 and "*" not in branch:
        raise UsageError(f"--count {agent_count} needs one branch for each agent", f"write --branch {base}:{branch}-*")
    commit = git.find_commit(host, repo.root, base, git.SAFE_GIT) if base else repo.head
    if commit is None:
        raise MngrError(
            f"there is no commit {base!r}", "give a branch, a tag or a commit as BASE; see the branches: git branch -a"
        )
    example = branch.replace("*", "x")
    if host.run(["git", "check-ref-format", "--branch", example]).code:
        raise UsageError(f"{branch!r} is not a valid branch name", "see the rules: git help check-ref-format")
    return StartingPoint(base=commit, branch=branch, branch_is_new=True)


def _list_dirty_files(ctx: Context, source: ProjectSource, spec: AgentSpec) -> list[tuple[str, str]]:
    """Return the (status, path) rows of the uncommitted files to take along.

    Raise MngrError when `--dirty` does not allow them.
    """
    is_silent = spec.dirty == "ignore" and not spec.notes_ignored
    if source.is_bare or is_silent:
        return []
    rows = git.list_dirty_files(source.host, source.root_dir, source.git_command)
    if not rows:
        return []
    if spec.dirty == "ignore":
        summary = format_count(len(rows), "uncommitted change")
        ctx.note(f"mngr does not copy {summary} to the agent; to copy changes: --dirty include")
        return []
    if spec.dirty == "fail":
        raise MngrError(
            f"{source.root_dir} has uncommitted changes: {_name_paths(rows)}",
            "commit them, copy them to the agent with --dirty include, or leave them here with --dirty ignore",
        )
    _check_no_changed_submodule(source, rows)
    return rows


def _name_paths(rows: list[tuple[str, str]]) -> str:
    """Return the first paths of dirty files, and the number of the others."""
    paths = ", ".join(path for _, path in rows[:_MAX_NAMED_PATHS])
    surplus = len(rows) - _MAX_NAMED_PATHS
    return f"{paths} and {surplus} more" if surplus > 0 else paths


def _check_no_changed_submodule(source: ProjectSource, rows: list[tuple[str, str]]) -> None:
    """Raise MngrError when an uncommitted change is in a submodule."""
    for _, path in rows:
        if not path.endswith("/") and transfer.is_submodule(source, path):
            raise MngrError(
                f"the submodule {path!r} has changes, which --dirty include cannot copy",
                "commit them in the submodule and in the project, or do not copy them: --dirty ignore",
            )


def resolve_network(ctx: Context, host: Host, spec: AgentSpec) -> AgentSpec:
    """Return the spec with its network mode decided. Raise an error when this host cannot provide the mode."""
    host_network = _find_host_network(ctx, host)
    if host_network is not None and not spec.sandbox:  # All agents of the host share its network.
        if spec.network not in (None, host_network):
            hint = f"create the agent on a new host: mngr create NAME@.{host.provider} --network {spec.network}"
            raise MngrError(
                f"the host {host.name} was created with --network {host_network}, and its agents cannot have another network",
                hint,
            )
        return spec.replace(network=host_network)
    network = _choose_default_network(ctx, spec) if spec.network is None else spec.network
    mode, _ = names_and_addresses.parse_network(network)
    if spec.sandbox:
        _check_sandbox_transfer(spec.transfer)
        _check_sandbox_works(host, "--sandbox")
    elif mode != "on":
        _check_network_transfer(spec.transfer, mode)
        _check_sandbox_works(host, "--network")
    return spec.replace(network=network)


def _check_sandbox_transfer(transfer_mode: str | None) -> None:
    """Raise UsageError for a transfer mode that shares files with the user."""
    if transfer_mode in ("worktree", "none"):
        raise UsageError(
            f"--sandbox does not work with --transfer {transfer_mode}, because the agent would share files with you",
            "leave out --transfer to give the agent a mirror, or use: --transfer copy",
        )


def _check_network_transfer(transfer_mode: str | None, network_mode: str) -> None:
    """Raise UsageError for a worktree, which would give the agent the user's .git."""
    if transfer_mode == "worktree":
        raise UsageError(
            f"--network {network_mode} does not work with --transfer worktree, because the agent would share your .git",
            "leave out --transfer to give the agent a mirror, or use: --transfer copy",
        )


def _find_host_network(ctx: Context, host: Host) -> str | None:
    """Return the network mode that the host was created with, or None if it has no mode."""
    if host.is_local:
        return None
    facts = host_store.find_facts(ctx.home, host.provider, host.name)
    return facts.network if facts is not None else None


def _choose_default_network(ctx: Context, spec: AgentSpec) -> str:
    """Return the network mode without `--network`: in a sandbox only the model's addresses, otherwise all."""
    if not spec.sandbox:
        return "on"
    addresses = _list_model_addresses(ctx, spec)
    return "allow=" + ",".join(addresses) if addresses else "off"


def _list_model_addresses(ctx: Context, spec: AgentSpec) -> tuple[str, ...]:
    """Return the addresses of the agent kind's model, the only ones that its sandbox allows."""
    assert spec.kind is not None
    agent_kind = ctx.get_kind(spec.kind)
    if not isinstance(agent_kind, ModelKind):
        return ()
    return agent_kind.list_model_addresses({**environment.get_inherited_variables(agent_kind), **spec.env})


def _check_sandbox_works(host: Host, flag: str) -> None:
    """Raise MngrError when bubblewrap does not work on this host."""
    if host.provider != "local":
        raise _make_provider_error(host.provider, flag)
    from mngr.agents.sandbox.host_isolation import SandboxUnavailable, check_isolation

    isolation = check_isolation(host)
    if isolation.problem:
        hint = f"{isolation.hint}; to run the agent without isolation, leave out {flag}"
        raise SandboxUnavailable(f"{flag}: {isolation.problem}", hint)


def _make_provider_error(provider: str, flag: str) -> MngrError:
    """Return the error for a host on which mngr has no sandbox."""
    return MngrError(
        f"{flag} does not work on {provider} hosts",
        f"leave out {flag}, or create the agent on this machine: mngr create NAME {flag}",
    )


def _exclude_shared_transfers(source: ProjectSource, spec: AgentSpec) -> ProjectSource:
    """Return the source without the transfer modes that share files with it.

    Only an agent with `--network` but without `--sandbox` may still use `none`.
    """
    if not spec.sandbox and spec.network in (None, "on"):
        return source
    modes = ("mirror", "copy") if spec.sandbox else ("mirror", "copy", "none")
    return source.replace(transfers=tuple(mode for mode in modes if mode in source.transfers))
