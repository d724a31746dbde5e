"""What `gc` works on: one thing to clean up, and what the hosts show."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import ObservedAgent
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import store
from mngr.host.protocol import Host

MAX_CACHE_SECONDS = 30 * 86400.0
MIN_AGE_SECONDS = 60.0  # seconds: what is this new may be somebody's half-made thing


class CleanupTask(Struct):
    """One thing to clean up; without `act` it is only named."""

    category: str
    name: str
    id: str | None = None
    run: Callable[[], None] | None = None
    note: str | None = None
    action: str = "left"  # what to say if it is only named


class HostSurvey(Struct):
    """The agents on each host that answers, and the error of each host that does not."""

    agents_by_host: list[tuple[Host, list[ObservedAgent]]]
    errors: dict[tuple[str | None, str | None], MngrError]

    @property
    def agent_ids(self) -> set[str]:
        """Every agent that was seen."""
        return {seen.id for _, agents in self.agents_by_host for seen in agents}

    def is_agent_missing(self, ctx: Context, name: str, agent_id: str) -> bool:
        """Whether the host that a name points to says that there is no such agent, and nobody is just making it."""
        place = store.find_host_of_name(ctx.home, name)
        looked = {(host.provider, host.name) for host, _ in self.agents_by_host}
        if (
            place not in looked
            or agent_id in self.agent_ids
            or get_file_age(os.path.join(ctx.home.names, name)) < MIN_AGE_SECONDS
        ):
            return False
        host = ctx.get_host(*place)
        return not host.has_path(host.home.agent_dir(agent_id))

    def is_agent_renamed(self, ctx: Context, name: str, agent_id: str) -> bool:
        """Whether the agent that a name points to is called otherwise, and that not just now."""
        called = {seen.id: seen.record.name for _, agents in self.agents_by_host for seen in agents if seen.record}
        return called.get(agent_id, name) != name and get_file_age(os.path.join(ctx.home.names, name)) > MIN_AGE_SECONDS


def survey_hosts(ctx: Context) -> HostSurvey:
    """Ask every host once."""
    answers: list[tuple[Host, list[ObservedAgent]]] = []
    errors: dict[tuple[str | None, str | None], MngrError] = {}
    for provider, name, answer in listing.observe_all_hosts(ctx):
        if isinstance(answer, MngrError):
            errors[provider, name] = answer
        else:
            answers.append((ctx.get_host(provider, name), answer))
    return HostSurvey(agents_by_host=answers, errors=errors)


def get_file_age(path: str) -> float:
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return 0.0
