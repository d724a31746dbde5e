"""Runs in a host's first clean room: prints the bubblewrap arguments for a sandbox, or why there can be none.

Its one argument is the request, a Python literal of a dict. Standard library only, Python 3.9 or newer. The list of
visible files comes from the same program that agents' sandboxes use: the request contains the text of that program.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    """Print the arguments and the reason as JSON."""
    import json

    sandbox_args, reason = build_sandbox_args(eval(sys.argv[1], {}))
    sys.stdout.write(json.dumps({"words": sandbox_args, "why": reason}))


def build_sandbox_args(wish: dict[str, Any]) -> tuple[list[str], str]:
    """Return the bubblewrap arguments, or an empty list and the reason."""
    visible_files: dict[str, Any] = {"__name__": "view"}
    exec(wish["view"], visible_files)
    bwrap_paths = [path for path in (f"{directory}/bwrap" for directory in wish["places"]) if os.access(path, os.X_OK)]
    if not bwrap_paths:
        return [], "bubblewrap (bwrap) is not installed"
    home = type("Home", (), {"root": os.path.dirname(os.path.dirname(os.environ["MNGR_AGENT_DIR"]))})
    visible_args = visible_files["build_clean_room_args"](
        home, os.environ.get("PATH", ""), wish["program"], **wish["facts"]
    )
    sandbox_args = [bwrap_paths[0], *wish["flags"], *visible_args]
    for name in wish["environments"]:
        sandbox_args += visible_files["build_virtualenv_args"](home, name)
    return sandbox_args, ""


main()
