"""Limits how long an agent may be idle or exist. A watcher on the host stops it after that."""

from __future__ import annotations

import os

from mngr.agents.inspect.for_each_agent import run_on_targets
from mngr.agents.launch.launch import install_on_host
from mngr.base import time_format
from mngr.base.errors import MngrError, UsageError
from mngr.base.model import Outcome, Struct
from mngr.host import record_store, tmux_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host


ACTIVITY_KINDS = ("output", "input", "process")
NO_LIMIT = float("inf")


class LimitChanges(Struct):
    """New limits of agents. None leaves a limit as it is, and NO_LIMIT removes it."""

    idle_timeout: float | None = None  # seconds
    lifetime: float | None = None  # seconds
    activity: str | None = None  # output, input, process, or several with commas


def set_limits(ctx: Context, target_names: list[str], changes: LimitChanges) -> list[Outcome]:
    """Change the limits of agents. Each outcome has the limits in effect, also without changes."""
    check_duration(changes.idle_timeout)
    check_duration(changes.lifetime)
    if changes.activity is not None:
        check_activity(changes.activity)
    new_values = {
        key: None if value == NO_LIMIT else value for key, value in changes.to_dict().items() if value is not None
    }

    def set_one(observed: ObservedAgent, record: AgentRecord) -> Outcome:
        if new_values:
            tmux_server.get_safe_socket(observed.host)
            with observed.host.lock(os.path.join(observed.host.home.agent_dir(record.id), "lock")):
                record = record_store.save_record(
                    observed.host, record_store.get_record(observed.host, record.id).replace(**new_values)
                )
            enforce_limits(ctx, observed.host, record)
        extra = {key: getattr(record, key) for key in ("idle_timeout", "lifetime", "activity")}
        return Outcome(id=record.id, name=record.name, extra=extra)

    return run_on_targets(ctx, target_names, set_one)


def check_duration(seconds: float | None) -> None:
    """Raise UsageError for less than a second, because the watcher looks only once a second."""
    if seconds is not None and seconds < 1:
        raise UsageError(
            f"a limit of {seconds:g}s is too short", "use 1s or more; to remove a limit: mngr limit NAME --idle none"
        )


def check_activity(text: str) -> str:
    """Return the text when it lists only kinds of activity that a watcher can see. Raise UsageError otherwise."""
    unknown = [word for word in text.split(",") if word not in ACTIVITY_KINDS]
    if unknown:
        hint = "use output, input (keys and messages) or process (processor time), or several with commas"
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
    words.append(str(int(time_format.parse_timestamp(record.created_at))))
    if record.activity != "output":
        words.append(record.activity)
    host.write(path, (" ".join(words) + "\n").encode())
    ensure_watcher(ctx, host)


def ensure_watcher(ctx: Context, host: Host) -> None:
    """Start the watcher of this host unless it runs."""
    if host.run(tmux_server.build_argv(host, "has-session", "-t", f"={tmux_server.WATCHER_SESSION}")).code == 0:
        return
    lib_dir = install_on_host(ctx, host)
    grace = time_format.parse_duration(str(ctx.settings.get("stop.grace")))
    watcher_argv = ["sh", os.path.join(lib_dir, "watch.sh"), host.tmux_socket, host.home.root, lib_dir, f"{grace:g}"]
    close_pane_on_exit = ["set-option", "-w", "-t", f"={tmux_server.WATCHER_SESSION}:", "remain-on-exit", "off"]
    argv = tmux_server.build_argv(
        host,
        "-f",
        host.home.tmux_conf,
        "new-session",
        "-d",
        "-s",
        tmux_server.WATCHER_SESSION,
        *watcher_argv,
        ";",
        *close_pane_on_exit,
    )
    result = host.run(["sh", "-c", 'exec env -i PATH="$PATH" "$@"', "watch", *argv])
    if result.code and b"duplicate session" not in result.err:
        raise MngrError(
            f"mngr could not start the process that watches the limits: {result.error_line}",
            f"check the host: mngr doctor @{host.name}",
        )
