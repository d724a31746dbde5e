"""`gc` in mngr's homes on remote hosts: one program per host, all hosts at once.

Anything that may not belong to mngr, or may still be in use, stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from mngr.agents.archive.gc.cleanup_items import CleanupTask, HostSurvey
from mngr.agents.context import Context
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.workdir.discard_agent import REMOVE_TREE
from mngr.base import names_and_addresses
from mngr.base.errors import MngrError
from mngr.base.fanout import map_parallel
from mngr.base.model import Struct
from mngr.host import host_store, record_store, scripts, tmux_server
from mngr.host.protocol import Host

UNUSED_HOST_SECONDS = 86400.0  # After this time mngr forgets a host without agents.
# Removes a name only if it still points to the id, and the agent is still gone or has another name.
_RELEASE_NAME = """
cd "$1" && [ "$(readlink "names/$2")" = "$3" ] || exit 0
if [ -d "agents/$3" ]; then ! grep -q "\\"name\\":\\"$2\\"" "agents/$3/agent.json" || exit 0; fi
rm -f "names/$2"
"""


class RemoteHomeContents(Struct):
    """The contents of mngr's home on a remote host."""

    names: list[list[str]]  # name, id
    dangling_names: list[list[str]]
    unknown_work_dirs: list[str]
    sessions: list[list[str]]  # session, name
    empty_agents: list[str]
    leftovers: list[str]
    unused_sources: list[str]


def list_remote_tasks(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return the cleanup tasks of all remote hosts."""
    remote = [(host, agents) for host, agents in survey.agents_by_host if not host.is_local]
    results = map_parallel(lambda pair: find_home_contents(pair[0]), remote, at_once=32)
    tasks: list[CleanupTask] = []
    for (host, agents), result in zip(remote, results, strict=True):
        if isinstance(result, MngrError):
            note = f"mngr could not check {host.name}: {result.message}"
            tasks.append(
                CleanupTask(category="host", name=f"@{host.name}.{host.provider}", note=note, action="unreachable")
            )
        elif isinstance(result, Exception):
            raise result
        elif result is not None:
            tasks.extend(_make_tasks(ctx, host, agents, result))
    return tasks


def find_home_contents(host: Host) -> RemoteHomeContents | None:
    """Return what mngr's home on the host holds, or None when the host has no such home."""
    argv = [
        "sh",
        "-c",
        scripts.read_program("list_leftovers.sh"),
        "list_leftovers.sh",
        host.home.root,
        host.tmux_socket,
    ]
    rows = host.run(argv, timeout=60.0).out.decode("utf-8", "surrogateescape").split("\0")[:-1]
    if rows[:1] != ["home"]:
        return None
    parts: dict[str, list[str]] = {}
    for row in rows[1:]:
        kind, _, rest = row.partition(" ")
        parts.setdefault(kind, []).append(rest)

    def split_rows(kind: str) -> list[list[str]]:
        return [list(row.partition(" ")[::2]) for row in parts.get(kind, ())]

    return RemoteHomeContents(
        names=[
            pair
            for pair in split_rows("name")
            if names_and_addresses.is_agent_name(pair[0]) and names_and_addresses.is_agent_id(pair[1])
        ],
        dangling_names=[pair for pair in split_rows("dangling") if names_and_addresses.is_agent_name(pair[0])],
        unknown_work_dirs=parts.get("work", []),
        sessions=split_rows("session"),
        empty_agents=[row for row in parts.get("empty", ()) if names_and_addresses.is_agent_id(row)],
        leftovers=[row for row in parts.get("left", ()) if _is_mngr_leftover(row)],
        unused_sources=[row for row in parts.get("source", ()) if "/" not in row and row.endswith(".git")],
    )


def _is_mngr_leftover(path: str) -> bool:
    """True when mngr itself could have left a file or directory at this path."""
    folder, _, rest = path.partition("/")
    agent_id, _, name = rest.partition("/")
    if folder != "agents" or not names_and_addresses.is_agent_id(agent_id.removesuffix(".gone")):
        return False
    return not name if agent_id.endswith(".gone") else name == "gather" or (name.endswith(".new") and "/" not in name)


def _make_tasks(
    ctx: Context, host: Host, agents: list[ObservedAgent], contents: RemoteHomeContents
) -> list[CleanupTask]:
    """Return the cleanup tasks of one remote host."""
    names_by_id = {agent.id: agent.record.name for agent in agents if agent.record}
    renamed = [pair for pair in contents.names if names_by_id.get(pair[1], pair[0]) != pair[0]]
    tasks = []

    def add(category: str, name: str, argv: list[str]) -> None:
        tasks.append(_make_command_task(category, f"{host.name}:{name}", host, argv))

    for name, holder_id in contents.dangling_names:
        add("dangling name", name, _build_release_argv(host, name, holder_id))
    for name, holder_id in renamed:
        add("old name", name, _build_release_argv(host, name, holder_id))
    for session, name in contents.sessions:
        add("stray session", name, tmux_server.build_argv(host, "kill-session", "-t", session))
    for agent_id in contents.empty_agents:
        add("interrupted create", agent_id, _build_remove_argv(host, f"agents/{agent_id}"))
    for path in contents.leftovers:
        add("interrupted command", path, _build_remove_argv(host, path))
    for name in contents.unused_sources:
        add("unused source", name, _build_remove_argv(host, f"cache/sources/{name}"))
    for name in contents.unknown_work_dirs:
        path = os.path.join(host.home.work_dirs, name)
        note = f"{path} on {host.name} belongs to no agent, and mngr left it there; if you do not need it, remove it on {host.name}: rm -r {path}"
        tasks.append(CleanupTask(category="unknown directory", name=f"{host.name}:{path}", note=note))
    if not agents and not tasks and _is_host_unused(ctx, host):
        tasks.append(
            CleanupTask(
                category="unused host",
                name=f"@{host.name}.{host.provider}",
                run=_make_forget_action(ctx, host),
            )
        )
    return tasks


def _is_host_unused(ctx: Context, host: Host) -> bool:
    """True when mngr cannot create such hosts, no name points to this host, and it is long unused."""
    if ctx.get_provider(host.provider).can_create_hosts:
        return False
    named_hosts = (record_store.find_host_of_name(ctx.home, name) for name in record_store.list_names(ctx.home))
    is_old = host_store.get_age(ctx.home, host.provider, host.name) > UNUSED_HOST_SECONDS
    return is_old and (host.provider, host.name) not in named_hosts


def _make_forget_action(ctx: Context, host: Host) -> Callable[[], None]:
    """Return a function that removes the host from the registry."""
    return lambda: host_store.forget_host(ctx.home, host.provider, host.name)


def _build_release_argv(host: Host, name: str, holder_id: str) -> list[str]:
    """Return the command that removes a name on the host."""
    return ["sh", "-c", _RELEASE_NAME, "free", host.home.root, name, holder_id]


def _build_remove_argv(host: Host, path: str) -> list[str]:
    """Return the command that deletes a path in mngr's home on the host."""
    return ["sh", "-c", REMOVE_TREE, "rm", os.path.join(host.home.root, path)]


def _make_command_task(category: str, name: str, host: Host, argv: list[str]) -> CleanupTask:
    """Return a task that runs a command on the host."""

    def act() -> None:
        result = host.run(argv)
        if result.code:
            raise MngrError(f"cannot clean up {name}: {result.error_line}", f"check the host: mngr doctor @{host.name}")

    return CleanupTask(category=category, name=name, run=act)
