"""Reports functions that decide or time a test's outcome, and that the project's code has replaced at the end.

Standard library only, Python 3.9 or newer. The observer loads this plugin, which remembers the functions before pytest
loads the project's first conftest, and compares them when the session ends.
"""

from __future__ import annotations

import builtins
import importlib
import time
from typing import Any

# Modules or classes of pytest, and all functions in them.
_OWNERS = (
    "_pytest.runner",
    "_pytest.runner.CallInfo",
    "_pytest.reports.TestReport",
    "_pytest.python.Function",
    "_pytest.python_api",
    "_pytest.raises",
    "_pytest.assertion.util",
    "_pytest.assertion.rewrite.AssertionRewriter",
    "_pytest._code.code.ExceptionInfo",
    "_pytest.main.Session",
    "pluggy._hooks.HookCaller",
    "pluggy._callers",
    "unittest.case.TestCase",
    "unittest.case._Outcome",
)
_CLOCK_NAMES = (
    "time",
    "monotonic",
    "perf_counter",
    "process_time",
    "sleep",
    "time_ns",
    "monotonic_ns",
    "perf_counter_ns",
)

ORIGINALS: dict[str, Any] = {}


def read_functions(_get: Any = getattr, _vars: Any = vars) -> dict[str, Any]:
    """Return each function by its name. Of a function in Python, this is its code."""
    found: dict[str, Any] = {}
    for owner in _OWNERS:
        module_name, target = owner, None
        while target is None and module_name:
            try:
                target = importlib.import_module(module_name)
            except ImportError:
                module_name = module_name.rpartition(".")[0]
        for name in filter(None, owner[len(module_name) + 1 :].split(".")):
            target = _get(target, name, None)
        for name, value in list(_vars(target).items()) if target is not None else ():
            function = _get(value, "__func__", value)
            if callable(function) and not isinstance(function, type):
                found[f"{owner}.{name}"] = _get(function, "__code__", function)
    for name, value in list(_vars(builtins).items()):
        if callable(value) and not name.startswith("_"):
            found[f"builtins.{name}"] = value
    for name in _CLOCK_NAMES:
        found[f"time.{name}"] = _get(time, name)
    return found


def remember_functions() -> None:
    """Remember the functions, before any code of the project runs."""
    ORIGINALS.update(read_functions())


def pytest_sessionfinish() -> None:
    now = read_functions()
    names = sorted(name for name, value in ORIGINALS.items() if now.get(name) is not value)
    observer: Any = globals()["observer"]
    observer.write_row("replaced", names=names[:20])
