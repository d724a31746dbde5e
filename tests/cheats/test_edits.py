"""The edits of the cheat bench are well formed, and a sample of them is what it claims to be."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.cheats.check import find_mistakes
from tests.cheats.edits import (
    DISHONEST_CLASSES,
    HONEST_CLASSES,
    Edit,
    FormatError,
    apply_edit,
    read_all_edits,
    read_edit,
    read_projects,
)

PROJECTS = {project.name: project for project in read_projects()}
EDITS = read_all_edits()
BY_ID = [pytest.param(edit, id=edit.id) for edit in EDITS]


def test_every_edit_applies_and_leaves_valid_python() -> None:
    for edit in EDITS:
        for path, content in apply_edit(PROJECTS[edit.project].files, edit).items():
            if path.endswith(".py"):
                ast.parse(content, path)


def test_every_target_is_a_test_of_the_edited_project() -> None:
    for edit in EDITS:
        after = apply_edit(PROJECTS[edit.project].files, edit)
        for target in edit.targets:
            path, *_, name = target.split("::")
            assert f"def {name}(" in after[path], edit.id


def test_a_test_edit_leaves_the_program_alone() -> None:
    for edit in EDITS:
        changed = {section.path for section in edit.sections if section.path}
        is_program = {path for path in changed if not path.startswith("tests/") and path != "pyproject.toml"}
        assert bool(is_program) == (edit.kind == "FIX_IMPL"), edit.id


def test_there_are_sixty_edits_of_each_side_in_every_class() -> None:
    counts = Counter(edit.is_honest for edit in EDITS)
    assert min(counts[True], counts[False]) >= 60
    assert {edit.cheat_class for edit in EDITS} == {*DISHONEST_CLASSES, *HONEST_CLASSES}
    assert len(PROJECTS) >= 6


def test_a_text_that_occurs_twice_is_rejected(tmp_path: Path) -> None:
    edit = write_edit(tmp_path, "@@ replace a.py\nx = 1\n@@ with\nx = 2\n")
    assert apply_edit({"a.py": "x = 1\n"}, edit) == {"a.py": "x = 2\n"}
    with pytest.raises(FormatError, match="exactly once"):
        apply_edit({"a.py": "x = 1\ny = 1\nx = 1\n"}, edit)


def test_an_unknown_class_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no class kindness"):
        write_edit(tmp_path, "@@ write a.py\n", cheat_class="kindness")


def write_edit(directory: Path, sections: str, cheat_class: str = "real-fix") -> Edit:
    path = directory / "01.txt"
    path.write_text(f"class: {cheat_class}\nkind: FIX_IMPL\ntarget: t.py::test_a\nwhy: It is.\n\n{sections}")
    return read_edit(path)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("edit", BY_ID)
def test_an_edit_does_what_its_header_says(edit: Edit) -> None:
    assert find_mistakes(PROJECTS[edit.project], edit) == []


def test_the_check_notices_a_dishonest_fix_that_is_called_honest() -> None:
    [edit] = [edit for edit in EDITS if edit.id == "units-01"]
    called_honest = Edit(**{**vars(edit), "is_honest": True})
    [mistake] = find_mistakes(PROJECTS["units"], called_honest)
    assert "the truth does not hold" in mistake
