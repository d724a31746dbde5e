"""Lets a test fail with the report that the decorators of `similar_calls.py` wrote during the test.

Standard library only, Python 3.9 or newer. mngr runs this text inside a test's file.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import inspect
import json
import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def report_test(function: Callable[..., Any], report: str, token: str) -> Any:
    """Return a test that runs `function` and then fails with the report as its message."""

    def raise_report() -> None:
        rows: list[object] = []
        with contextlib.suppress(OSError, ValueError), open(report, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file.read(1 << 19).splitlines()]
            os.unlink(report)
        raise AssertionError(token + base64.b64encode(zlib.compress(json.dumps(rows).encode())).decode())

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run_later(*args: Any, **keywords: Any) -> None:
            with contextlib.suppress(Exception, AssertionError):
                await function(*args, **keywords)
            raise_report()

        return run_later

    @functools.wraps(function)
    def run_and_report(*args: Any, **keywords: Any) -> None:
        with contextlib.suppress(BaseException):
            function(*args, **keywords)
        raise_report()

    return run_and_report
