"""Which of the project's files a test imports: a plugin beside the probe. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

probe: Any = globals().get("probe")  # put here by the probe


def pytest_sessionfinish() -> None:
    """Say it, if it is all that there is to know: nobody sees what other programs load that the test has run."""
    if not resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss:
        names = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
        files = {os.path.realpath(name) for name in names if name}
        probe._write_row(
            "loaded",
            files=sorted(os.path.relpath(path, probe.WORK_DIR) for path in files if probe.is_project_file(path)),
        )
