"""What lies about on other hosts: one program each, all at once. What is not surely ours, or surely old, is left."""

from __future__ import annotations

import os
from collections.abc import Callable

from mngr.agents.archive.gc.tasks import Task, World
from mngr.agents.context import Context
from mngr.agents.inspect.list import Seen
from mngr.agents.workdir.discard import REMOVE
from mngr.base import names
from mngr.base.errors import MngrError
from mngr.base.fanout import fanout
from mngr.base.model import Record
from mngr.host import registry, scripts, store, tmux
from mngr.host.protocol import Host

UNUSED = 86400.0  # seconds that a host without agents is remembered
# A name goes only if it still points there, and its agent is still gone or called otherwise.
_FREE = """
cd "$1" && [ "$(readlink "names/$2")" = "$3" ] || exit 0
if [ -d "agents/$3" ]; then ! grep -q "\\"name\\":\\"$2\\"" "agents/$3/agent.json" || exit 0; fi
rm -f "names/$2"
"""


class Swept(Record):
    """What a host's home holds."""

    links: list[list[str]]  # name, id
    dangling: list[list[str]]
    work: list[str]
    sessions: list[list[str]]  # session, name
    empty: list[str]
    left: list[str]
    sources: list[str]


def sweep(ctx: Context, world: World) -> list[Task]:
    """Everything there is to clean up on hosts that are not this machine."""
    far = [(host, seen) for host, seen in world.answers if not host.is_here]
    answers = fanout(lambda pair: look(pair[0]), far, at_once=32)
    found: list[Task] = []
    for (host, seen), answer in zip(far, answers, strict=True):
        if isinstance(answer, MngrError):
            note = f"{host.name} was not looked at: {answer.message}"
            found.append(
                Task(what="host", name=f"@{host.name}.{host.provider}", note=note, action="unreachable")
            )
        elif isinstance(answer, Exception):
            raise answer
        elif answer is not None:
            found.extend(_tasks(ctx, host, seen, answer))
    return found


def look(host: Host) -> Swept | None:
    """Ask a host; None when it has no home of ours."""
    argv = ["sh", "-c", scripts.program("sweep.sh"), "sweep.sh", host.home.root, host.socket]
    rows = host.run(argv, timeout=60.0).out.decode("utf-8", "surrogateescape").split("\0")[:-1]
    if rows[:1] != ["home"]:
        return None
    parts: dict[str, list[str]] = {}
    for row in rows[1:]:
        kind, _, rest = row.partition(" ")
        parts.setdefault(kind, []).append(rest)

    def pairs(kind: str) -> list[list[str]]:
        return [list(row.partition(" ")[::2]) for row in parts.get(kind, ())]

    return Swept(
        links=[pair for pair in pairs("name") if names.is_name(pair[0]) and names.is_id(pair[1])],
        dangling=[pair for pair in pairs("dangling") if names.is_name(pair[0])],
        work=parts.get("work", []),
        sessions=pairs("session"),
        empty=[row for row in parts.get("empty", ()) if names.is_id(row)],
        left=[row for row in parts.get("left", ()) if _is_ours(row)],
        sources=[row for row in parts.get("source", ()) if "/" not in row and row.endswith(".git")],
    )


def _is_ours(path: str) -> bool:
    """Whether a path that a host names is one that we would leave."""
    place, _, rest = path.partition("/")
    agent_id, _, name = rest.partition("/")
    if place != "agents" or not names.is_id(agent_id.removesuffix(".gone")):
        return False
    return (
        not name
        if agent_id.endswith(".gone")
        else name == "gather" or (name.endswith(".new") and "/" not in name)
    )


def _tasks(ctx: Context, host: Host, agents: list[Seen], there: Swept) -> list[Task]:
    called = {seen.id: seen.record.name for seen in agents if seen.record}
    renamed = [pair for pair in there.links if called.get(pair[1], pair[0]) != pair[0]]
    found = []

    def add(what: str, name: str, argv: list[str]) -> None:
        found.append(_run(what, f"{host.name}:{name}", host, argv))

    for name, holder in there.dangling:
        add("dangling name", name, _free(host, name, holder))
    for name, holder in renamed:
        add("old name", name, _free(host, name, holder))
    for session, name in there.sessions:
        add("stray session", name, tmux.argv(host, "kill-session", "-t", session))
    for agent_id in there.empty:
        add("interrupted create", agent_id, _rm(host, f"agents/{agent_id}"))
    for path in there.left:
        add("interrupted command", path, _rm(host, path))
    for name in there.sources:
        add("unused source", name, _rm(host, f"cache/sources/{name}"))
    for name in there.work:
        path = os.path.join(host.home.work, name)
        note = (
            f"{path} on {host.name} belongs to no agent and was left; if you do not need it, remove it there"
        )
        found.append(Task(what="unknown directory", name=f"{host.name}:{path}", note=note))
    if not agents and not found and _is_unused(ctx, host):
        found.append(Task(what="unused host", name=f"@{host.name}.{host.provider}", act=_forget(ctx, host)))
    return found


def _is_unused(ctx: Context, host: Host) -> bool:
    """Whether nothing here speaks of a host that is not ours to destroy, for some time."""
    if ctx.provider(host.provider).can_create_hosts:
        return False
    places = (store.find_place(ctx.home, name) for name in store.list_names(ctx.home))
    is_old = registry.age(ctx.home, host.provider, host.name) > UNUSED
    return is_old and (host.provider, host.name) not in places


def _forget(ctx: Context, host: Host) -> Callable[[], None]:
    return lambda: registry.forget(ctx.home, host.provider, host.name)


def _free(host: Host, name: str, holder: str) -> list[str]:
    return ["sh", "-c", _FREE, "free", host.home.root, name, holder]


def _rm(host: Host, path: str) -> list[str]:
    return ["sh", "-c", REMOVE, "rm", os.path.join(host.home.root, path)]


def _run(what: str, name: str, host: Host, argv: list[str]) -> Task:
    def act() -> None:
        result = host.run(argv)
        if result.code:
            raise MngrError(f"{name}: {result.problem}", f"look at it on {host.name}")

    return Task(what=what, name=name, act=act)
