"""Trusts the settings of a project, shows what that means, and takes the trust back."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.base import paths
from mngr.base.errors import MngrError, UsageError
from mngr.base.model import Struct
from mngr.base.trust import project_trust


class ProjectTrust(Struct):
    """A project's settings that need trust, and whether the user trusts them."""

    root: str
    repository: str  # worktrees of one repository share the trust
    settings: dict[str, object]
    hash: str
    is_trusted: bool  # for all settings that there are now
    is_recorded: bool  # True once the user has trusted the project, so that mngr may run its code
    changes: list[project_trust.TrustChange]  # the settings that the user does not trust as they are now
    ignored: list[str]  # settings in the project's files that count only in the user's own settings


def inspect_trust(ctx: Context, directory: str | None = None) -> ProjectTrust:
    """Return what a project's settings need, and whether the user trusts it. Raise MngrError outside a project."""
    start = ctx.resolve_path(directory) if directory else ctx.cwd
    root = paths.find_project_root(start)
    if root is None:
        raise MngrError(
            f"{start} is not in a project", "change to a project, or name its directory: mngr trust DIRECTORY"
        )
    settings = ctx.load_project_settings(root)
    values = settings.list_trusted_values()
    repository = project_trust.find_repository(root)
    changes = project_trust.list_changes(project_trust.load_trusted(ctx.home.trust, repository), values)
    return ProjectTrust(
        root=root,
        repository=repository,
        settings=values,
        hash=project_trust.compute_digest(values),
        is_trusted=not changes,
        is_recorded=project_trust.is_trusted_repository(ctx.home.trust, repository),
        changes=changes,
        ignored=sorted(settings.ignored),
    )


def trust_project(ctx: Context, project: ProjectTrust) -> None:
    """Trust the project's settings as `inspect_trust` saw them. Raise MngrError for an agent's work dir."""
    if ctx.is_agent_work_dir(project.root):
        raise MngrError(
            f"mngr does not trust settings in an agent's work dir: {project.root}",
            "run this in your own project: cd PROJECT && mngr trust",
        )
    ctx.home.create()
    project_trust.save_trust(ctx.home.trust, project.repository, project.settings)


def trust_place(ctx: Context, place: str, digest: str) -> None:
    """Trust the settings with this hash in copies of a project that come from a URL or from another host."""
    hint = "run the command that mngr prints when it refuses the settings: mngr trust URL --hash HASH"
    if len(digest) != 64:
        raise UsageError(f"--hash: {digest!r} is not the hash of settings", hint)
    if ":" not in place:
        raise UsageError(f"{place!r} is not a project directory, a URL or HOST:PATH", hint)
    ctx.home.create()
    project_trust.save_trusted_hash(ctx.home.trust, place, digest)


def revoke_trust(ctx: Context, project: ProjectTrust) -> bool:
    """Stop trusting the project. Return False when it was not trusted."""
    return project_trust.delete_trust(ctx.home.trust, project.repository)
