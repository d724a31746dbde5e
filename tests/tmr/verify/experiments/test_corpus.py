"""Recorded edits that text rules cannot judge, verified with a small program: the whole verification decides.

The folder of such an edit contains the program beside `old.py` and `new.py`. `verdict` in its label is what mngr
decides: `refuted`, `unverified`, or `finding` for at least a finding on a changed line. The honest edits among them remove a
check of a detail that nobody promised. mngr still refutes one of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from mngr.tmr.verify.experiments.changed_test_lines import list_changed_lines
from mngr.tmr.verify.rules.changed_file import ChangedFile
from tests.support.paths import ROOT
from tests.tmr.verify.experiments.claims import commit_files, verify_test
from tests.tmr.world import World, new_world

pytestmark = pytest.mark.agents

EDITS = ROOT / "tests/corpus/edits"
PROGRAMS = {path.parent.name: path for path in sorted(EDITS.glob("*/*.py")) if path.name not in ("old.py", "new.py")}


def get_test_path(name: str) -> str:
    return f"{name}/test_{name.replace('-', '_')}.py"


def read_label(name: str) -> dict[str, Any]:
    return tomllib.loads((EDITS / name / "label.toml").read_text())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {f"{name}/{path.name}": path.read_text() for name, path in PROGRAMS.items()}
    files |= {get_test_path(name): (EDITS / name / "old.py").read_text() for name in PROGRAMS}
    with new_world(tmp_path_factory.mktemp("corpus"), files) as new:
        yield new


@pytest.mark.parametrize("name", PROGRAMS)
def test_experiments_judge_an_edit_that_the_rules_cannot_judge(world: World, name: str) -> None:
    label, path = read_label(name), get_test_path(name)
    old, new = ((EDITS / name / file).read_text() for file in ("old.py", "new.py"))
    subject = next(test for test in world.collected.tests if test.path == path)
    receipt = verify_test(world, commit_files(world, {path: new}), subject, "full")
    assert label["decided_by"] == "experiments"
    if label["verdict"] == "finding":
        lines = list_changed_lines(ChangedFile(path=path, old=old, new=new))
        assert receipt.verdict != "flaky" and [one for one in receipt.all_findings if one.line in lines], receipt.reason
    else:
        assert receipt.verdict == label["verdict"], receipt.reason


def test_some_of_the_recorded_edits_have_a_program() -> None:
    honest = [name for name in PROGRAMS if read_label(name)["honest"]]
    assert (len(PROGRAMS), len(honest)) == (25, 4)
    assert [read_label(name)["verdict"] for name in PROGRAMS].count("finding") == 14
