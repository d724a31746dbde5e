"""Which paths a change of a kind may touch, and what no change may bring: a table that a project can extend."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mngr.base.errors import UsageError
from mngr.base.model import Struct
from mngr.tmr.commits import path_checks
from mngr.tmr.finding import LEVELS, Finding
from mngr.tmr.verify.legacy import promises

KINDS = ("FIX_TEST", "IMPROVE_TEST", "ADD_TEST", "FIX_TUTORIAL", "FIX_DOC", "FIX_IMPL")
_TESTS = ("FIX_TEST", "IMPROVE_TEST", "ADD_TEST")
LARGE = 1_000_000  # bytes


class Change(Struct):
    """One path of a commit, before and after."""

    path: str
    status: str = "M"  # A added, M changed, D deleted, R renamed, T of another type
    old_path: str = ""  # of what was renamed
    old_mode: str = "100644"
    new_mode: str = "100644"
    old_size: int = 0
    size: int = 0
    binary: bool = False
    old: str | None = None  # the texts, where they are texts; of a link, where it points
    new: str | None = None


class Row(Struct):
    """A sort of path, and the kinds of change that may touch it."""

    name: str
    paths: tuple[str, ...]  # without a slash: a file name anywhere; * within one name, ** through directories
    allow: tuple[str, ...] = ()
    note: tuple[str, ...] = ()
    level: str = "refuse"  # for all other kinds
    shared: str = ""  # the level for a change that mends what many tests have in common, where that differs
    what: str = ""


class Policy(Struct):
    """The rows, the first that fits counts; a path that none fits is the implementation."""

    rows: tuple[Row, ...]
    large: int = LARGE
    binary: tuple[str, ...] = ()  # where a binary may be


_ROWS = (
    Row(name="startup", paths=("sitecustomize.py", "usercustomize.py", "*.pth", ".envrc", ".pythonrc", ".pythonstartup"),
        what="every process that starts here runs it"),
    Row(name="conftest", paths=("conftest.py",), shared="note", what="it controls how every test runs and ends"),
    Row(name="ci", paths=(".github/**", ".gitlab-ci.yml", ".gitlab/**", ".circleci/**", ".buildkite/**", ".travis.yml",
        "azure-pipelines.yml", "Jenkinsfile", "appveyor.yml", ".drone.yml", "bitbucket-pipelines.yml",
        ".pre-commit-config.yaml"), what="it controls which checks run"),
    Row(name="lock", paths=("*.lock", "package-lock.json", "pnpm-lock.yaml", "npm-shrinkwrap.json", "go.sum",
        "requirements*.txt", "constraints*.txt", "Pipfile", "environment*.yml"), what="it controls what is installed"),
    Row(name="config", paths=("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pytest.ini", ".pytest.ini", ".coveragerc",
        "noxfile.py", "Makefile", "makefile", "GNUmakefile", "justfile", "*.mk", ".gitattributes", ".gitmodules", ".gitignore",
        ".gitconfig", "package.json", "tsconfig*.json", "Dockerfile*", "*.dockerfile", "docker-compose*", "compose.y*ml",
        ".editorconfig", "ruff.toml", ".ruff.toml", "mypy.ini", ".flake8", ".env", ".env.*", ".python-version",
        ".tool-versions", ".mngr/**", "CODEOWNERS", "MANIFEST.in", ".importlinter", ".npmrc", "pip.conf"),
        what="it controls how the project is built and tested"),
    Row(name="tutorial", paths=("tutorial.sh", "*tutorial*.sh"), allow=("FIX_TUTORIAL",), what="the tests must follow it, not the reverse"),
    Row(name="test", paths=("test_*.py", "*_test.py", "tests/**", "test/**"), allow=(*_TESTS, "FIX_TUTORIAL"), note=("FIX_IMPL",),
        what="a change of this kind must not change tests"),
    Row(name="doc", paths=("docs/**", "doc/**", "*.md", "*.rst", "LICENSE*", "CHANGELOG*", "README*"),
        allow=("FIX_DOC", "FIX_TUTORIAL"), note=(*_TESTS, "FIX_IMPL"), what="a change of this kind must not change documentation"),
    Row(name="implementation", paths=("**",), allow=("FIX_IMPL",), what="a change of this kind must not change the program"),
)  # fmt: skip
DEFAULT = Policy(rows=_ROWS)


def merged(policy: Policy, table: Mapping[str, Any]) -> Policy:
    """The policy with what a project's settings say: NAME = [globs], or NAME = {paths, allow, note, level, shared}.

    A name that is known takes more globs and other levels; a new one is asked before all others.
    """
    rows = {row.name: row for row in policy.rows}
    fresh: list[Row] = []
    large, binary = policy.large, policy.binary
    for name, given in table.items():
        if name == "large":
            if not isinstance(given, int) or isinstance(given, bool) or given < 0:
                raise UsageError(
                    "policy.large must be a number of bytes", "write a whole number, for example: large = 1000000"
                )
            large = given
        elif name == "binary":
            binary = (*binary, *_texts("binary", given))
        elif name in rows:
            rows[name] = _row(rows[name], given)
        else:
            fresh.append(_row(Row(name=name, paths=()), given))
    return Policy(rows=(*fresh, *rows.values()), large=large, binary=binary)


def _row(row: Row, given: object) -> Row:
    table = given if isinstance(given, Mapping) else {"paths": given}
    made = row
    for key, found in table.items():
        if key == "paths":
            made = made.replace(paths=(*made.paths, *_texts(row.name, found)))
        elif key in {"allow", "note"}:
            kinds = _texts(f"{row.name}.{key}", found)
            if unknown := [kind for kind in kinds if kind not in KINDS]:
                raise UsageError(
                    f"policy.{row.name}.{key}: there is no change kind {unknown[0]}",
                    f"use one of: {', '.join(KINDS)}",
                )
            made = made.replace(**{key: kinds})
        elif key in {"level", "shared"}:
            if found not in {*LEVELS, "allow"}:
                raise UsageError(f"policy.{row.name}.{key} cannot be {found!r}", "use one of: refuse, note, allow")
            made = made.replace(**{key: found})
        elif key == "what":
            made = made.replace(what=str(found))
        else:
            raise UsageError(
                f"policy.{row.name} has no key {key}", "use one of: paths, allow, note, level, shared, what"
            )
    return made


def _texts(name: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    if isinstance(given, list | tuple) and all(isinstance(item, str) for item in given):
        return tuple(given)
    raise UsageError(f"policy.{name} must be a list of strings", f'for example: {name} = ["one", "two"]')


def sort_of(path: str, policy: Policy = DEFAULT) -> Row:
    """The row that a path falls under."""
    for row in policy.rows:
        if any(path_checks.is_match(path, pattern) for pattern in row.paths):
            return row
    return policy.rows[-1]


def offences(changes: Iterable[Change], kind: str, policy: Policy = DEFAULT, *, shared: bool = False) -> list[Finding]:
    """What a change of a kind does that such a change may not, or that a person should look at."""
    found: list[Finding] = []
    for change in changes:
        found += path_checks.check_name(change.path)
        found += _touched(change, kind, policy, shared)
        found += _carried(change, kind, policy)
        if sort_of(change.path, policy).name == "test":
            found += promises.touched(change.old, change.new, change.path, kind)
    order = {level: at for at, level in enumerate(LEVELS)}
    return sorted(found, key=lambda one: (order[one.level], one.path, one.line))


def _touched(change: Change, kind: str, policy: Policy, shared: bool) -> list[Finding]:
    found = []
    for path in dict.fromkeys(filter(None, (change.path, change.old_path))):
        row = sort_of(path, policy)
        level = "allow" if kind in row.allow else "note" if kind in row.note else row.level
        if shared and row.shared and kind in KINDS:
            level = row.shared
        if row.name == "implementation" and kind == "FIX_DOC" and promises.only_words(change.old, change.new):
            level = "note"
        if level != "allow":
            what = f"{path} is {_SORTS.get(row.name, row.name)}: {row.what or 'the project does not allow it'}"
            line = promises.first_line(change.old, change.new)
            found.append(Finding(rule=f"policy-{row.name}", level=level, path=path, line=line, what=what))
    if change.status == "D" or (change.status == "R" and change.old_path):
        gone = change.old_path or change.path
        row = sort_of(gone, policy)
        if row.name == "test" and re.search(r"\.py$", gone) and change.status == "D":
            found.append(Finding(rule="policy-deleted", level="refuse", path=gone, what="a test file is deleted"))
        elif change.status == "D" and kind in row.allow:
            found.append(Finding(rule="policy-deleted", level="note", path=gone, what="a file is deleted"))
    return found


_SORTS = {
    "startup": "a start-up file", "conftest": "a conftest", "ci": "part of CI", "lock": "a list of dependencies",
    "config": "configuration", "setup": "part of the set-up", "tutorial": "the tutorial", "test": "a test", "doc": "documentation",
    "implementation": "part of the implementation",
}  # fmt: skip


def _carried(change: Change, kind: str, policy: Policy) -> list[Finding]:
    """What comes with a change beside its text."""
    if change.status == "D":
        return []
    found = [
        *path_checks.check_mode(
            change.path, change.old_mode, change.new_mode, change.new, change.status, kind == "FIX_IMPL"
        )
    ]
    if change.binary and not any(path_checks.is_match(change.path, pattern) for pattern in policy.binary):
        found.append(
            Finding(
                rule="policy-binary",
                level="refuse",
                path=change.path,
                what="it is a binary file, which nobody can review",
            )
        )
    if change.size > policy.large and change.size > change.old_size:
        what = f"it has {change.size} bytes, more than the limit of {policy.large}"
        found.append(Finding(rule="policy-large", level="refuse", path=change.path, what=what))
    if change.status in {"A", "R"}:
        found += path_checks.check_shadowing(change.path)
    return found
