"""`limit`: stop an agent when it is idle or too old. A small loop on the host enforces it."""

from __future__ import annotations

import os

from mngr.agents.inspect.targets import run_on_targets
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


def set_limits(ctx: Context, wanted: list[str], changes: dict[str, Any]) -> list[Outcome]:
    """Change `idle_timeout`, `lifetime` and `activity` of agents; None takes a limit away. Without changes: what they are."""
    for key, value in changes.items():
        if key == "activity":
            check_activity(value)
        else:
            check_duration(value)

    def one(seen: ObservedAgent, record: AgentRecord) -> Outcome:
        if changes:
            tmux.get_safe_socket(seen.host)
            with seen.host.lock(os.path.join(seen.host.home.agent_dir(record.id), "lock")):
                record = store.save_record(seen.host, store.get_record(seen.host, record.id).replace(**changes))
            enforce_limits(ctx, seen.host, record)
        extra = {key: getattr(record, key) for key in ("idle_timeout", "lifetime", "activity")}
        return Outcome(id=record.id, name=record.name, extra=extra)

    return run_on_targets(ctx, wanted, one)


def check_duration(seconds: float | None) -> None:
    """UsageError unless a watcher that looks every second can keep to this limit."""
    if seconds is not None and seconds < 1:
        raise UsageError(
            f"a limit of {seconds:g}s is less than a second", "give a second or more; none takes a limit away"
        )


def check_activity(text: str) -> str:
    """What counts as activity, if it is one of those a watcher can see, or several with commas."""
    wrong = [word for word in text.split(",") if word not in ACTIVITY_KINDS]
    if wrong:
        hint = "output, input (keys and messages), process (processor time), or several with commas"
        raise UsageError(f"--activity cannot be {wrong[0]!r}", hint)
    return text


def has_limit(record: AgentRecord) -> bool:
    """Whether the agent needs a watcher."""
    return record.idle_timeout is not None or record.lifetime is not None


def enforce_limits(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Write the limits where the watcher reads them, and see to it that there is one."""
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
    lib = install_on_host(ctx, host)
    grace = clock.parse_duration(str(ctx.settings.get("stop.grace")))
    loop = ["sh", os.path.join(lib, "watch.sh"), host.tmux_socket, host.home.root, lib, f"{grace:g}"]
    stays = ["set-option", "-w", "-t", f"={tmux.WATCHER_SESSION}:", "remain-on-exit", "off"]
    argv = tmux.build_argv(
        host, "-f", host.home.tmux_conf, "new-session", "-d", "-s", tmux.WATCHER_SESSION, *loop, ";", *stays
    )
    result = host.run(["sh", "-c", 'exec env -i PATH="$PATH" "$@"', "watch", *argv])
    if result.code and b"duplicate session" not in result.err:
        raise MngrError(f"the watcher could not be started: {result.error_line}", "see: mngr doctor")
