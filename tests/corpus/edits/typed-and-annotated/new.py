from __future__ import annotations

import json
import subprocess
from typing import Any, cast


def status(name: str) -> dict[str, Any]:
    out: str = subprocess.run(
        ["dock", "status", name, "--json"], capture_output=True, text=True, check=True
    ).stdout
    return cast("dict[str, Any]", json.loads(out))


def test_status_of_the_web() -> None:
    """The status has the state."""
    assert status("web")["state"] == "up"
