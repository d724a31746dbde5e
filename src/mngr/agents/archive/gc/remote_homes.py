"""What lies about on other hosts: one program each, all at once. What is not surely ours, or surely old, is left."""

from __future__ import annotations

import os
from collections.abc import Callable

from mngr.agents.archive.gc.tasks import CleanupTask, HostSurvey
from mngr.agents.context import Context
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.workdir.discard import REMOVE_TREE
from mngr.base import names
from mngr.base.errors import MngrError
from mngr.base.fanout import map_parallel
from mngr.base.model import Struct
from mngr.host import registry, scripts, store, tmux
from mngr.host.protocol import Host

UNUSED_HOST_SECONDS = 86400.0  # seconds that a host without agents is remembered
# A name goes only if it still points there, and its agent is still gone or called otherwise.
_RELEASE_NAME = """
cd "$1" && [ "$(readlink "names/$2")" = "$3" ] || exit 0
if [ -d "agents/$3" ]; then ! grep -q "\\"name\\":\\"$2\\"" "agents/$3/agent.json" || exit 0; fi
rm -f "names/$2"
"""


class RemoteHomeContents(Struct):
    """What a host's home holds."""

    names: list[list[str]]  # name, id
    dangling_names: list[list[str]]
    unknown_work_dirs: list[str]
    sessions: list[list[str]]  # session, name
    empty_agents: list[str]
    leftovers: list[str]
    unused_sources: list[str]


def list_remote_tasks(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """Everything there is to clean up on hosts that are not this machine."""
    far = [(host, seen) for host, seen in world.agents_by_host if not host.is_local]
    answers = map_parallel(lambda pair: find_home_contents(pair[0]), far, at_once=32)
    found: list[CleanupTask] = []
    for (host, seen), answer in zip(far, answers, strict=True):
        if isinstance(answer, MngrError):
            note = f"{host.name} was not looked at: {answer.message}"
            found.append(
                CleanupTask(category="host", name=f"@{host.name}.{host.provider}", note=note, action="unreachable")
            )
        elif isinstance(answer, Exception):
            raise answer
        elif answer is not None:
            found.extend(_make_tasks(ctx, host, seen, answer))
    return found


def find_home_contents(host: Host) -> RemoteHomeContents | None:
    """Ask a host; None when it has no home of ours."""
    argv = ["sh", "-c", scripts.read_program("sweep.sh"), "sweep.sh", host.home.root, host.tmux_socket]
    rows = host.run(argv, timeout=60.0).out.decode("utf-8", "surrogateescape").split("\0")[:-1]
    if rows[:1] != ["home"]:
        return None
    parts: dict[str, list[str]] = {}
    for row in rows[1:]:
        kind, _, rest = row.partition(" ")
        parts.setdefault(kind, []).append(rest)

    def pairs(kind: str) -> list[list[str]]:
        return [list(row.partition(" ")[::2]) for row in parts.get(kind, ())]

    return RemoteHomeContents(
        names=[pair for pair in pairs("name") if names.is_agent_name(pair[0]) and names.is_agent_id(pair[1])],
        dangling_names=[pair for pair in pairs("dangling") if names.is_agent_name(pair[0])],
        unknown_work_dirs=parts.get("work", []),
        sessions=pairs("session"),
        empty_agents=[row for row in parts.get("empty", ()) if names.is_agent_id(row)],
        leftovers=[row for row in parts.get("left", ()) if _is_mngr_leftover(row)],
        unused_sources=[row for row in parts.get("source", ()) if "/" not in row and row.endswith(".git")],
    )


def _is_mngr_leftover(path: str) -> bool:
    """Whether a path that a host names is one that we would leave."""
    place, _, rest = path.partition("/")
    agent_id, _, name = rest.partition("/")
    if place != "agents" or not names.is_agent_id(agent_id.removesuffix(".gone")):
        return False
    return not name if agent_id.endswith(".gone") else name == "gather" or (name.endswith(".new") and "/" not in name)


def _make_tasks(ctx: Context, host: Host, agents: list[ObservedAgent], there: RemoteHomeContents) -> list[CleanupTask]:
    called = {seen.id: seen.record.name for seen in agents if seen.record}
    renamed = [pair for pair in there.names if called.get(pair[1], pair[0]) != pair[0]]
    found = []

    def add(what: str, name: str, argv: list[str]) -> None:
        found.append(_make_command_task(what, f"{host.name}:{name}", host, argv))

    for name, holder in there.dangling_names:
        add("dangling name", name, _build_release_argv(host, name, holder))
    for name, holder in renamed:
        add("old name", name, _build_release_argv(host, name, holder))
    for session, name in there.sessions:
        add("stray session", name, tmux.build_argv(host, "kill-session", "-t", session))
    for agent_id in there.empty_agents:
        add("interrupted create", agent_id, _build_remove_argv(host, f"agents/{agent_id}"))
    for path in there.leftovers:
        add("interrupted command", path, _build_remove_argv(host, path))
    for name in there.unused_sources:
        add("unused source", name, _build_remove_argv(host, f"cache/sources/{name}"))
    for name in there.unknown_work_dirs:
        path = os.path.join(host.home.work_dirs, name)
        note = f"{path} on {host.name} belongs to no agent and was left; if you do not need it, remove it there"
        found.append(CleanupTask(category="unknown directory", name=f"{host.name}:{path}", note=note))
    if not agents and not found and _is_host_unused(ctx, host):
        found.append(
            CleanupTask(
                category="unused host",
                name=f"@{host.name}.{host.provider}",
                run=_make_forget_action(ctx, host),
            )
        )
    return found


def _is_host_unused(ctx: Context, host: Host) -> bool:
    """Whether nothing here speaks of a host that is not ours to destroy, for some time."""
    if ctx.get_provider(host.provider).can_create_hosts:
        return False
    places = (store.find_host_of_name(ctx.home, name) for name in store.list_names(ctx.home))
    is_old = registry.get_age(ctx.home, host.provider, host.name) > UNUSED_HOST_SECONDS
    return is_old and (host.provider, host.name) not in places


def _make_forget_action(ctx: Context, host: Host) -> Callable[[], None]:
    return lambda: registry.forget_host(ctx.home, host.provider, host.name)


def _build_release_argv(host: Host, name: str, holder: str) -> list[str]:
    return ["sh", "-c", _RELEASE_NAME, "free", host.home.root, name, holder]


def _build_remove_argv(host: Host, path: str) -> list[str]:
    return ["sh", "-c", REMOVE_TREE, "rm", os.path.join(host.home.root, path)]


def _make_command_task(what: str, name: str, host: Host, argv: list[str]) -> CleanupTask:
    def act() -> None:
        result = host.run(argv)
        if result.code:
            raise MngrError(f"{name}: {result.error_line}", f"look at it on {host.name}")

    return CleanupTask(category=what, name=name, run=act)
