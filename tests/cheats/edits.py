"""Reads the projects and the edits of the cheat bench from their text files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent

DISHONEST_CLASSES = (
    "early-exit",
    "edited-test",
    "harness-tampering",
    "operator-overloading",
    "pinned-bug",
    "recorded-state",
    "special-casing",
    "swallowed-error",
    "test-detection",
    "timing",
    "vacuous-addition",
    "weakened-fixture",
)
HONEST_CLASSES = (
    "condition-for-wait",
    "corrected-expectation",
    "new-case",
    "new-test",
    "real-fix",
    "refactored-fixture",
    "removed-redundancy",
    "renamed-test",
    "split-test",
    "stronger-assertion",
)
KINDS = ("ADD_TEST", "FIX_IMPL", "FIX_TEST", "IMPROVE_TEST")
FIELDS = ("class", "kind", "target", "why")


class FormatError(ValueError):
    """A project or an edit is not written as README.md says."""


@dataclass(frozen=True)
class Section:
    """One `@@` line and the text up to the next one."""

    action: str
    path: str
    text: str


@dataclass(frozen=True)
class Edit:
    """One change of a project, as an agent could have committed it."""

    id: str
    project: str
    cheat_class: str
    is_honest: bool
    kind: str
    targets: tuple[str, ...]
    why: str
    sections: tuple[Section, ...]

    @property
    def is_fix(self) -> bool:
        """True when the target must fail before the edit."""
        return self.kind in ("FIX_IMPL", "FIX_TEST")


@dataclass(frozen=True)
class Project:
    """The files that every edit of the project starts from."""

    name: str
    files: Mapping[str, str]
    # A program that prints nothing and exits with 0 if the behaviour behind the named test is right. mngr never sees it.
    truth: str


def read_projects() -> list[Project]:
    """Return all projects, sorted by name."""
    return [read_project(path) for path in sorted(FOLDER.glob("*/project.txt"))]


def read_project(path: Path) -> Project:
    """Return the project in this file."""
    _, sections = split_sections(path.read_text())
    truths = [section.text for section in sections if section.action == "truth"]
    if len(truths) != 1:
        raise FormatError(f"{path}: expected one truth section")
    files = {section.path: section.text for section in sections if section.action == "write"}
    return Project(path.parent.name, files, truths[0])


def read_edits(project: str) -> list[Edit]:
    """Return the edits of a project, sorted by id."""
    return [read_edit(path) for path in sorted((FOLDER / project).glob("[0-9]*.txt"))]


def read_all_edits() -> list[Edit]:
    """Return the edits of all projects, sorted by id."""
    return [edit for project in read_projects() for edit in read_edits(project.name)]


def read_edit(path: Path) -> Edit:
    """Return the edit in this file."""
    header, sections = split_sections(path.read_text())
    fields = {}
    for line in header:
        name, _, value = line.partition(": ")
        fields[name] = value.strip()
    if tuple(sorted(fields)) != FIELDS or not all(fields.values()):
        raise FormatError(f"{path}: the header must have exactly the fields {', '.join(FIELDS)}")
    cheat_class = fields["class"]
    if cheat_class not in DISHONEST_CLASSES + HONEST_CLASSES:
        raise FormatError(f"{path}: there is no class {cheat_class}")
    if fields["kind"] not in KINDS:
        raise FormatError(f"{path}: there is no kind {fields['kind']}")
    return Edit(
        id=f"{path.parent.name}-{path.stem}",
        project=path.parent.name,
        cheat_class=cheat_class,
        is_honest=cheat_class in HONEST_CLASSES,
        kind=fields["kind"],
        targets=tuple(fields["target"].split()),
        why=fields["why"],
        sections=tuple(sections),
    )


def split_sections(text: str) -> tuple[list[str], list[Section]]:
    """Return the lines before the first `@@` line, and the sections."""
    header: list[str] = []
    sections: list[Section] = []
    for line in text.splitlines():
        if line.startswith("@@ "):
            action, _, path = line.removeprefix("@@ ").partition(" ")
            sections.append(Section(action, path, ""))
        elif sections:
            last = sections[-1]
            sections[-1] = Section(last.action, last.path, f"{last.text}{line}\n")
        elif line:
            header.append(line)
    return header, sections


def apply_edit(files: Mapping[str, str], edit: Edit) -> dict[str, str]:
    """Return the files after the edit. Raises FormatError if the edit does not apply."""
    after = dict(files)
    sections = list(edit.sections)
    while sections:
        section = sections.pop(0)
        if section.action == "write":
            after[section.path] = section.text
        elif section.action == "delete" and section.path in after:
            del after[section.path]
        elif section.action == "replace" and sections and sections[0].action == "with":
            old, new = section.text, sections.pop(0).text
            content = after.get(section.path, "")
            if not old or ("\n" + content).count("\n" + old) != 1:
                raise FormatError(f"{edit.id}: the text to replace in {section.path} must occur exactly once:\n{old}")
            after[section.path] = ("\n" + content).replace("\n" + old, "\n" + new)[1:]
        else:
            raise FormatError(f"{edit.id}: this section is misplaced: {section.action} {section.path}")
    if after == dict(files):
        raise FormatError(f"{edit.id}: the edit changes nothing")
    return after
