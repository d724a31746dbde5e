"""Plugin of the observer: reports which of the project's files a test imports.

Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

observer: Any = globals().get("observer")  # set by the observer


def pytest_sessionfinish() -> None:
    """Report the files, unless the test ran other programs: nobody sees what those import."""
    if not resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss:
        names = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
        files = {os.path.realpath(name) for name in names if name}
        observer.write_row(
            "loaded",
            files=sorted(
                os.path.relpath(path, observer.WORK_DIR) for path in files if observer.belongs_to_project(path)
            ),
        )
