"""What `gc` works on: one thing to clean up, and what the hosts show."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import Seen
from mngr.base.errors import MngrError
from mngr.base.model import Record
from mngr.host import store
from mngr.host.protocol import Host

CACHE_TIME = 30 * 86400.0
YOUNG = 60.0  # seconds: what is this new may be somebody's half-made thing


class Task(Record):
    """One thing to clean up; without `act` it is only named."""

    what: str
    name: str
    id: str | None = None
    act: Callable[[], None] | None = None
    note: str | None = None
    action: str = "left"  # what to say if it is only named


class World(Record):
    """The agents on each host that answers, and the error of each host that does not."""

    answers: list[tuple[Host, list[Seen]]]
    errors: dict[tuple[str | None, str | None], MngrError]

    @property
    def ids(self) -> set[str]:
        """Every agent that was seen."""
        return {seen.id for _, agents in self.answers for seen in agents}

    def has_lost(self, ctx: Context, name: str, agent_id: str) -> bool:
        """Whether the host that a name points to says that there is no such agent, and nobody is just making it."""
        place = store.find_place(ctx.home, name)
        looked = {(host.provider, host.name) for host, _ in self.answers}
        if place not in looked or agent_id in self.ids or age(os.path.join(ctx.home.names, name)) < YOUNG:
            return False
        host = ctx.host(*place)
        return not host.has(host.home.agent(agent_id))

    def has_renamed(self, ctx: Context, name: str, agent_id: str) -> bool:
        """Whether the agent that a name points to is called otherwise, and that not just now."""
        called = {seen.id: seen.record.name for _, agents in self.answers for seen in agents if seen.record}
        return called.get(agent_id, name) != name and age(os.path.join(ctx.home.names, name)) > YOUNG


def look_around(ctx: Context) -> World:
    """Ask every host once."""
    answers: list[tuple[Host, list[Seen]]] = []
    errors: dict[tuple[str | None, str | None], MngrError] = {}
    for provider, name, answer in listing.look_everywhere(ctx):
        if isinstance(answer, MngrError):
            errors[provider, name] = answer
        else:
            answers.append((ctx.host(provider, name), answer))
    return World(answers=answers, errors=errors)


def age(path: str) -> float:
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return 0.0
