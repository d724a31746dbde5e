"""The rules on recorded edits. `decided_by` in a label names the edits that the rules alone cannot judge."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mngr.tmr.finding import Finding
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.text_checks import list_weakenings
from tests.support.paths import ROOT

EDITS = ROOT / "tests/corpus/edits"
NAMES = sorted(path.parent.name for path in EDITS.glob("*/label.toml"))


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


@functools.cache
def _label(name: str) -> dict[str, Any]:
    return tomllib.loads((EDITS / name / "label.toml").read_text())


def _findings(name: str) -> list[Finding]:
    folder = EDITS / name
    path = _label(name).get("path", "tests/test_it.py")
    change = ChangedFile(path=path, old=_read(folder / "old.py"), new=_read(folder / "new.py"))
    return list_weakenings([change])


def _is_refused(name: str) -> bool:
    return any(finding.level == "refuse" for finding in _findings(name))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name in NAMES if "decided_by" not in _label(name)])
def test_the_rules_judge_an_unambiguous_edit(name: str) -> None:
    assert _is_refused(name) != _label(name)["honest"], _label(name)["why"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name in NAMES if "decided_by" in _label(name)])
def test_the_rules_point_to_an_edit_that_they_cannot_judge(name: str) -> None:
    assert _findings(name) != []
    assert _is_refused(name) == _label(name)["honest"]


def test_the_rules_judge_as_many_edits_as_the_documentation_says() -> None:
    judged = [name for name in NAMES if "decided_by" not in _label(name)]
    refused_honest = [name for name in NAMES if "decided_by" in _label(name) and _label(name)["honest"]]
    assert (len(NAMES), len(judged), len(refused_honest)) == (780, 474, 17)
