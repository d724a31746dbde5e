"""Code of the implementation that ignores errors."""

from __future__ import annotations

import pytest

from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.ignored_errors import list_ignored_errors

OLD = "def load(text):\n    if not text:\n        raise ValueError(text)\n    return int(text)\n"


def _list_findings(new: str) -> list[tuple[str, str, int]]:
    change = ChangedFile(path="src/shop/price.py", old=OLD, new=new)
    return [(finding.rule, finding.level, finding.line) for finding in list_ignored_errors(change)]


def _write(handler: str) -> str:
    return OLD.replace("    return int(text)\n", f"    try:\n        return int(text)\n    {handler}\n")


@pytest.mark.parametrize(
    "handler",
    [
        "except ValueError:\n        pass",
        "except (OSError, ValueError):\n        return 0",
        "except Exception:\n        print('bad')\n        return 1 + 1",
        "except:\n        return None",
    ],
)
def test_a_new_handler_that_ignores_errors_is_a_note(handler: str) -> None:
    assert _list_findings(_write(handler)) == [("error-ignored", "note", 6)]


@pytest.mark.parametrize(
    "handler",
    [
        "except ValueError as error:\n        raise KeyError(text) from error",
        "except ValueError:\n        return len(text)",
        "finally:\n        print(text)",
    ],
)
def test_a_handler_that_answers_an_error_is_no_finding(handler: str) -> None:
    assert _list_findings(_write(handler)) == []


def test_a_handler_that_the_base_has_is_no_finding() -> None:
    text = _write("except ValueError:\n        pass")
    change = ChangedFile(path="src/shop/price.py", old=text, new=f"import os\n{text}")
    assert list(list_ignored_errors(change)) == []


def test_new_use_of_suppress_is_a_note() -> None:
    new = f"from contextlib import suppress\n{OLD}    with suppress(OSError):\n        print(text)\n"
    assert _list_findings(new) == [("error-ignored", "note", 6)]


def test_a_removed_raise_is_a_note() -> None:
    new = "def load(text):\n    return int(text or 0)\n"
    assert _list_findings(new) == [("raise-removed", "note", 2)]
