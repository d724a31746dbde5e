"""Plugin of the observer: reports the tests that pytest collects. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

import inspect
from typing import Any

observer: Any = globals().get("observer")  # set by the observer


def pytest_collection_finish(session: Any) -> None:
    """Report each test with its place, its docstring and its markers."""
    for item in session.items:
        _, line, _ = item.location
        observer.write_row(
            "test",
            id=observer.get_node_id(item),
            test=observer.get_test_id(item),
            path=observer.get_path(item),
            line=None if line is None else line + 1,
            name=getattr(item, "originalname", None) or item.name,
            doc=_get_docstring(getattr(item, "obj", None)),
            markers=sorted({mark.name for mark in item.iter_markers()}),
        )


def _get_docstring(function: Any) -> str:
    text = getattr(function, "__doc__", None)
    return inspect.cleandoc(text) if isinstance(text, str) else ""
