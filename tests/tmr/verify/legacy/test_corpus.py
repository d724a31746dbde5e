"""Edits of tests, honest and not: the guard tells them apart."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from mngr.tmr.verify.legacy.guard import Contract, weakened
from tests.support.paths import ROOT

EDITS = ROOT / "tests/corpus/edits"
NAMES = sorted(path.parent.name for path in EDITS.glob("*/label.toml"))


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_an_edit_is_told_for_what_it_is(name: str) -> None:
    place = EDITS / name
    label = tomllib.loads((place / "label.toml").read_text())
    old, new = _text(place / "old.py"), _text(place / "new.py")
    docs = dict.fromkeys(_tests(old), label["doc"]) if "doc" in label else {}
    found = weakened(old, new, label.get("path", "tests/test_it.py"), contract=Contract(docs=docs))
    refused = [f"{f.line} {f.rule}: {f.what}" for f in found if f.level == "refuse"]
    if label["honest"]:
        assert refused == [], label["why"]
    else:
        assert refused, label["why"]


def _tests(source: str | None) -> list[str]:
    import ast

    tree = ast.parse(source or "")
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_there_are_as_many_honest_edits_as_others() -> None:
    labels = [tomllib.loads((EDITS / name / "label.toml").read_text()) for name in NAMES]
    honest = sum(label["honest"] for label in labels)
    assert len(labels) >= 60
    assert abs(2 * honest - len(labels)) <= len(labels) // 5
