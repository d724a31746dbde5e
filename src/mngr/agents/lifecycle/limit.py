"""Limits how long an agent may be idle or exist. A watcher on the host stops it after that."""

from __future__ import annotations

import os

from mngr.agents.inspect.run_on_agents import run_on_targets
from mngr.agents.launch.launch import install_on_host
from mngr.base import clock
from mngr.base.errors import MngrError, UsageError
from mngr.base.model import Outcome
from mngr.host import store, tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host


ACTIVITY_KINDS = ("output", "input", "process")


def set_limits(ctx: Context, target_names: list[str], changes: dict[str, Any]) -> list[Outcome]:
    """Change `idle_timeout`, `lifetime` and `activity` of agents. None removes a limit.

    Each outcome has the limits in effect, also without changes.
    """
    for key, value in changes.items():
        if key == "activity":
            check_activity(value)
        else:
            check_duration(value)

    def set_one(observed: ObservedAgent, record: AgentRecord) -> Outcome:
        if changes:
            tmux.get_safe_socket(observed.host)
            with observed.host.lock(os.path.join(observed.host.home.agent_dir(record.id), "lock")):
                record = store.save_record(observed.host, store.get_record(observed.host, record.id).replace(**changes))
            enforce_limits(ctx, observed.host, record)
        extra = {key: getattr(record, key) for key in ("idle_timeout", "lifetime", "activity")}
        return Outcome(id=record.id, name=record.name, extra=extra)

    return run_on_targets(ctx, target_names, set_one)


def check_duration(seconds: float | None) -> None:
    """Raise UsageError for less than a second, because the watcher looks only once a second."""
    if seconds is not None and seconds < 1:
        raise UsageError(
            f"a limit of {seconds:g}s is less than a second", "give a second or more; none takes a limit away"
        )


def check_activity(text: str) -> str:
    """Return the text when it lists only kinds of activity that a watcher can see. Raise UsageError otherwise."""
    unknown = [word for word in text.split(",") if word not in ACTIVITY_KINDS]
    if unknown:
        hint = "output, input (keys and messages), process (processor time), or several with commas"
        raise UsageError(f"--activity cannot be {unknown[0]!r}", hint)
    return text


def has_limit(record: AgentRecord) -> bool:
    """True when the agent needs a watcher."""
    return record.idle_timeout is not None or record.lifetime is not None


def enforce_limits(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Write the limits to the file that the watcher reads, and start the watcher if necessary."""
    path = os.path.join(host.home.agent_dir(record.id), "limit")
    if not has_limit(record):
        host.run(["rm", "-f", path])
        return
    words = ["-" if value is None else str(max(1, int(value))) for value in (record.idle_timeout, record.lifetime)]
    words.append(str(int(clock.parse_timestamp(record.created_at))))
    if record.activity != "output":
        words.append(record.activity)
    host.write(path, (" ".join(words) + "\n").encode())
    ensure_watcher(ctx, host)


def ensure_watcher(ctx: Context, host: Host) -> None:
    """Start the watcher of this host unless it runs."""
    if host.run(tmux.build_argv(host, "has-session", "-t", f"={tmux.WATCHER_SESSION}")).code == 0:
        return
    lib_dir = install_on_host(ctx, host)
    grace = clock.parse_duration(str(ctx.settings.get("stop.grace")))
    watcher_argv = ["sh", os.path.join(lib_dir, "watch.sh"), host.tmux_socket, host.home.root, lib_dir, f"{grace:g}"]
    close_pane_on_exit = ["set-option", "-w", "-t", f"={tmux.WATCHER_SESSION}:", "remain-on-exit", "off"]
    argv = tmux.build_argv(
        host,
        "-f",
        host.home.tmux_conf,
        "new-session",
        "-d",
        "-s",
        tmux.WATCHER_SESSION,
        *watcher_argv,
        ";",
        *close_pane_on_exit,
    )
    result = host.run(["sh", "-c", 'exec env -i PATH="$PATH" "$@"', "watch", *argv])
    if result.code and b"duplicate session" not in result.err:
        raise MngrError(f"the watcher could not be started: {result.error_line}", "see: mngr doctor")
