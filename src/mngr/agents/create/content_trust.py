"""Decides whether the user trusts the commit that an agent starts from, and who may reuse its set-up."""

from __future__ import annotations

from mngr.host import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.create.planning import CreatePlan
    from mngr.agents.workdir.project_setup import SetupOrigin
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host


def has_trusted_content(ctx: Context, plan: CreatePlan, record: AgentRecord) -> bool:
    """True if the user's checkout contains the commit that the agent starts from."""
    source = plan.source
    project_dir = source.project_dir if source.is_bare else source.root_dir
    return _is_in_checkout(ctx, plan, record, plan.spec.settings_root or project_dir)


def find_setup_origin(ctx: Context, plan: CreatePlan, record: AgentRecord, project_dir: str | None) -> SetupOrigin:
    """Return whether the user's checkout contains the commit that the agent starts from, and who may reuse its set-up.

    Set-up can read any file of the commit. Results for the checked-out branch count for the whole project only if it is
    the default branch: the user may have checked out another branch to review it.
    """
    from mngr.agents.workdir.project_setup import SetupOrigin

    if project_dir is not None and record.base is not None and _is_in_checkout(ctx, plan, record, project_dir):
        host = _get_project_host(ctx, plan)
        return SetupOrigin(is_trusted=True, cache_name=_find_branch_cache(host, project_dir, record.base))
    return SetupOrigin(is_trusted=False, cache_name="" if plan.copies_dirty_files else record.base or "")


def _is_in_checkout(ctx: Context, plan: CreatePlan, record: AgentRecord, project_dir: str | None) -> bool:
    source = plan.source
    is_agent_source = source.git_command not in (git.GIT, git.SAFE_GIT) or ctx.is_agent_work_dir(source.path)
    if project_dir is None or record.base is None or is_agent_source:
        return False
    if source.repo is not None and record.base == source.repo.head and project_dir == source.root_dir:
        return True
    return _is_ancestor(_get_project_host(ctx, plan), project_dir, record.base, "HEAD")


def _get_project_host(ctx: Context, plan: CreatePlan) -> Host:
    return ctx.local_host if plan.spec.settings_root is not None else plan.source.host


def _find_branch_cache(host: Host, project_dir: str, commit: str) -> str | None:
    """Return None if a commit of the checked-out branch is on the default branch, else a name for the branch.

    Without a known default branch, no branch counts for the whole project.
    """
    import hashlib

    listed = git.run(host, project_dir, "symbolic-ref", "-q", "refs/remotes/origin/HEAD", git_command=git.SAFE_GIT)
    remote_branch = listed.text.strip()
    remote_name = remote_branch.removeprefix("refs/remotes/origin/")
    candidates = (remote_name,) if remote_name else ("main", "master")
    current = git.run(host, project_dir, "symbolic-ref", "-q", "HEAD", git_command=git.SAFE_GIT).text.strip()
    defaults = [f"refs/heads/{name}" for name in candidates]
    if current in defaults:
        return None
    known = [ref for ref in (*defaults, remote_branch) if ref and _has_ref(host, project_dir, ref)]
    if any(_is_ancestor(host, project_dir, commit, ref) for ref in known):
        return None
    return "branch-" + hashlib.sha256((current or commit).encode()).hexdigest()[:16]


def _has_ref(host: Host, repo: str, ref: str) -> bool:
    """True if a repository has this ref."""
    return git.run(host, repo, "rev-parse", "-q", "--verify", ref, git_command=git.SAFE_GIT).code == 0


def _is_ancestor(host: Host, repo: str, commit: str, ref: str) -> bool:
    """True if a ref contains the commit."""
    return git.run(host, repo, "merge-base", "--is-ancestor", commit, ref, git_command=git.SAFE_GIT).code == 0
