"""The data of `gc`: a task for each item to clean up, and a survey of all hosts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.saved.fetch_to_temporary_home import remove_tree
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import record_store
from mngr.host.protocol import Host

MAX_CACHE_SECONDS = 30 * 86400.0
MIN_AGE_SECONDS = 60.0  # Another command may still be writing anything newer than this.


class CleanupTask(Struct):
    """One item to clean up. Without `run`, `gc` only reports it."""

    category: str
    name: str
    id: str | None = None
    run: Callable[[], None] | None = None
    note: str | None = None
    action: str = "left"  # the outcome of a task that is only reported


class HostSurvey(Struct):
    """The agents on each host that answers, and the error of each host that does not."""

    agents_by_host: list[tuple[Host, list[ObservedAgent]]]
    errors: dict[tuple[str | None, str | None], MngrError]

    @property
    def agent_ids(self) -> set[str]:
        """The ids of all agents in the survey."""
        return {agent.id for _, agents in self.agents_by_host for agent in agents}

    def is_agent_missing(self, ctx: Context, name: str, agent_id: str) -> bool:
        """True when the host that a name points to does not have the agent, and no process is creating it."""
        address = record_store.find_host_of_name(ctx.home, name)
        surveyed = {(host.provider, host.name) for host, _ in self.agents_by_host}
        if (
            address not in surveyed
            or agent_id in self.agent_ids
            or get_file_age(os.path.join(ctx.home.names, name)) < MIN_AGE_SECONDS
        ):
            return False
        host = ctx.get_host(*address)
        return not host.has_path(host.home.agent_dir(agent_id))

    def is_agent_renamed(self, ctx: Context, name: str, agent_id: str) -> bool:
        """True when the agent that a name points to has had another name for some time."""
        names_by_id = {
            agent.id: agent.record.name for _, agents in self.agents_by_host for agent in agents if agent.record
        }
        return (
            names_by_id.get(agent_id, name) != name
            and get_file_age(os.path.join(ctx.home.names, name)) > MIN_AGE_SECONDS
        )


def survey_hosts(ctx: Context) -> HostSurvey:
    """Observe the agents on all hosts and return the survey."""
    agents_by_host: list[tuple[Host, list[ObservedAgent]]] = []
    errors: dict[tuple[str | None, str | None], MngrError] = {}
    for provider, name, result in listing.observe_all_hosts(ctx):
        if isinstance(result, MngrError):
            errors[provider, name] = result
        else:
            agents_by_host.append((ctx.get_host(provider, name), result))
    return HostSurvey(agents_by_host=agents_by_host, errors=errors)


def get_file_age(path: str) -> float:
    """Return the seconds since the last change of the file, or 0 if it does not exist."""
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return 0.0


def make_removal_task(category: str, name: str, ctx: Context, path: str, agent_id: str | None = None) -> CleanupTask:
    """Return a task that deletes a file or directory on this machine."""

    def act() -> None:
        remove_tree(ctx.local_host, path)
        if os.path.lexists(path):
            raise MngrError(f"cannot remove {path}", f"check the permissions: ls -ld {path}")

    return CleanupTask(category=category, name=name, id=agent_id, run=act)
