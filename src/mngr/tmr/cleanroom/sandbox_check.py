"""Runs in the first room of a host: says what words for bubblewrap make walls there, or why there can be none.

Its one argument is what is wished for, a table as Python writes it; standard library only, Python 3.9 or newer. What is
seen behind the walls says the same program that says it for agents: its text comes along.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    import json

    words, why = build_sandbox_args(eval(sys.argv[1], {}))
    sys.stdout.write(json.dumps({"words": words, "why": why}))


def build_sandbox_args(wish: dict[str, Any]) -> tuple[list[str], str]:
    view: dict[str, Any] = {"__name__": "view"}
    exec(wish["view"], view)
    found = [path for path in (f"{place}/bwrap" for place in wish["places"]) if os.access(path, os.X_OK)]
    if not found:
        return [], "bubblewrap (bwrap) is not installed"
    home = type("Home", (), {"root": os.path.dirname(os.path.dirname(os.environ["MNGR_AGENT_DIR"]))})
    seen = view["build_clean_room_args"](home, os.environ.get("PATH", ""), wish["program"], **wish["facts"])
    words = [found[0], *wish["flags"], *seen]
    for name in wish["environments"]:
        words += view["build_virtualenv_args"](name)
    return words, ""


main()
