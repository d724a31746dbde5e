"""The path policy: which files a change of a kind may touch, and what no change may bring. A project can extend it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mngr.base.errors import UsageError
from mngr.base.model import Struct
from mngr.tmr.commits import path_checks
from mngr.tmr.finding import LEVELS, Finding
from mngr.tmr.verify.claim import CHANGE_KINDS
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.docstrings_and_citations import find_first_changed_line, is_only_words, list_changed_promises

_TEST_KINDS = ("FIX_TEST", "IMPROVE_TEST", "ADD_TEST")
_MAX_BYTES = 1_000_000


class PathRule(Struct):
    """A type of file, and the kinds of change that may touch it."""

    name: str
    paths: tuple[str, ...]  # without a slash: a file name anywhere; * within one name, ** through directories
    allow: tuple[str, ...] = ()
    note: tuple[str, ...] = ()
    level: str = "refuse"  # for all other kinds
    shared: str = ""  # the level for the repair of a root cause that several tests share, if it differs
    what: str = ""


class PathPolicy(Struct):
    """The rules. The first that matches a path counts; a path without a rule is the implementation."""

    rows: tuple[PathRule, ...]
    large: int = _MAX_BYTES
    binary: tuple[str, ...] = ()  # where a binary file may be


_ROWS = (
    PathRule(
        name="startup",
        paths=("sitecustomize.py", "usercustomize.py", "*.pth", ".envrc", ".pythonrc", ".pythonstartup"),
        what="every process that starts here runs it",
    ),
    PathRule(name="conftest", paths=("conftest.py",), shared="note", what="it controls how every test runs and ends"),
    PathRule(
        name="ci",
        paths=(
            ".github/**",
            ".gitlab-ci.yml",
            ".gitlab/**",
            ".circleci/**",
            ".buildkite/**",
            ".travis.yml",
            "azure-pipelines.yml",
            "Jenkinsfile",
            "appveyor.yml",
            ".drone.yml",
            "bitbucket-pipelines.yml",
            ".pre-commit-config.yaml",
        ),
        what="it controls which checks run",
    ),
    PathRule(
        name="lock",
        paths=(
            "*.lock",
            "package-lock.json",
            "pnpm-lock.yaml",
            "npm-shrinkwrap.json",
            "go.sum",
            "requirements*.txt",
            "constraints*.txt",
            "Pipfile",
            "environment*.yml",
        ),
        what="it controls what is installed",
    ),
    PathRule(
        name="config",
        paths=(
            "pyproject.toml",
            "setup.cfg",
            "setup.py",
            "tox.ini",
            "pytest.ini",
            ".pytest.ini",
            ".coveragerc",
            "noxfile.py",
            "Makefile",
            "makefile",
            "GNUmakefile",
            "justfile",
            "*.mk",
            ".gitattributes",
            ".gitmodules",
            ".gitignore",
            ".gitconfig",
            "package.json",
            "tsconfig*.json",
            "Dockerfile*",
            "*.dockerfile",
            "docker-compose*",
            "compose.y*ml",
            ".editorconfig",
            "ruff.toml",
            ".ruff.toml",
            "mypy.ini",
            ".flake8",
            ".env",
            ".env.*",
            ".python-version",
            ".tool-versions",
            ".mngr/**",
            "CODEOWNERS",
            "MANIFEST.in",
            ".importlinter",
            ".npmrc",
            "pip.conf",
        ),
        what="it controls how the project is built and tested",
    ),
    PathRule(
        name="tutorial",
        paths=("tutorial.sh", "*tutorial*.sh"),
        allow=("FIX_TUTORIAL",),
        what="the tests must follow it, not the reverse",
    ),
    PathRule(
        name="test",
        paths=("test_*.py", "*_test.py", "tests/**", "test/**"),
        allow=(*_TEST_KINDS, "FIX_TUTORIAL"),
        note=("FIX_IMPL",),
        what="a change of this kind must not change tests",
    ),
    PathRule(
        name="doc",
        paths=("docs/**", "doc/**", "*.md", "*.rst", "LICENSE*", "CHANGELOG*", "README*"),
        allow=("FIX_DOC", "FIX_TUTORIAL"),
        note=(*_TEST_KINDS, "FIX_IMPL"),
        what="a change of this kind must not change documentation",
    ),
    PathRule(
        name="implementation",
        paths=("**",),
        allow=("FIX_IMPL",),
        what="a change of this kind must not change the program",
    ),
)
DEFAULT_POLICY = PathPolicy(rows=_ROWS)


def extend_policy(policy: PathPolicy, table: Mapping[str, Any]) -> PathPolicy:
    """Return the policy with a project's settings: NAME = [globs], or NAME = {paths, allow, note, level, shared}.

    A known name gets more globs and other levels. A new name comes before all others.
    """
    rows = {row.name: row for row in policy.rows}
    new_rows: list[PathRule] = []
    large, binary = policy.large, policy.binary
    for name, value in table.items():
        if name == "large":
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise UsageError(
                    "policy.large must be a number of bytes", "write a whole number, for example: large = 1000000"
                )
            large = value
        elif name == "binary":
            binary = (*binary, *_read_texts("binary", value))
        elif name in rows:
            rows[name] = _extend_rule(rows[name], value)
        else:
            new_rows.append(_extend_rule(PathRule(name=name, paths=()), value))
    return PathPolicy(rows=(*new_rows, *rows.values()), large=large, binary=binary)


def _extend_rule(row: PathRule, settings: object) -> PathRule:
    table = settings if isinstance(settings, Mapping) else {"paths": settings}
    for key, value in table.items():
        if key == "paths":
            row = row.replace(paths=(*row.paths, *_read_texts(row.name, value)))
        elif key in {"allow", "note"}:
            kinds = _read_texts(f"{row.name}.{key}", value)
            if unknown := [kind for kind in kinds if kind not in CHANGE_KINDS]:
                raise UsageError(
                    f"policy.{row.name}.{key}: there is no change kind {unknown[0]}",
                    f"use one of: {', '.join(CHANGE_KINDS)}",
                )
            row = row.replace(**{key: kinds})
        elif key in {"level", "shared"}:
            if value not in {*LEVELS, "allow"}:
                raise UsageError(f"policy.{row.name}.{key} cannot be {value!r}", "use one of: refuse, note, allow")
            row = row.replace(**{key: value})
        elif key == "what":
            row = row.replace(what=str(value))
        else:
            raise UsageError(
                f"policy.{row.name} has no key {key}", "use one of: paths, allow, note, level, shared, what"
            )
    return row


def _read_texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise UsageError(f"policy.{name} must be a list of strings", f'for example: {name} = ["one", "two"]')


def get_path_rule(path: str, policy: PathPolicy = DEFAULT_POLICY) -> PathRule:
    """Return the first rule that matches a path."""
    for row in policy.rows:
        if any(path_checks.is_match(path, pattern) for pattern in row.paths):
            return row
    return policy.rows[-1]


def check_paths(
    changes: Iterable[ChangedFile], kind: str, policy: PathPolicy = DEFAULT_POLICY, *, shared: bool = False
) -> list[Finding]:
    """Return what a change of a kind must not do, or what a person should look at."""
    findings: list[Finding] = []
    for change in changes:
        findings += path_checks.check_name(change.path)
        findings += _check_kind(change, kind, policy, shared)
        findings += _check_deletion(change, kind, policy)
        findings += _check_content_type(change, kind, policy)
        if get_path_rule(change.path, policy).name == "test":
            findings += list_changed_promises(change.old, change.new, change.path, kind)
    order = {level: position for position, level in enumerate(LEVELS)}
    return sorted(findings, key=lambda finding: (order[finding.level], finding.path, finding.line))


def _check_kind(change: ChangedFile, kind: str, policy: PathPolicy, shared: bool) -> Iterator[Finding]:
    for path in dict.fromkeys(filter(None, (change.path, change.old_path))):
        row = get_path_rule(path, policy)
        if kind in row.allow:
            level = "allow"
        else:
            level = "note" if kind in row.note else row.level
        if shared and row.shared and kind in CHANGE_KINDS:
            level = row.shared
        if row.name == "implementation" and kind == "FIX_DOC" and is_only_words(change.old, change.new):
            level = "note"
        if level != "allow":
            what = f"{path} is {_DESCRIPTIONS.get(row.name, row.name)}: {row.what or 'the project does not allow it'}"
            line = find_first_changed_line(change.old, change.new)
            yield Finding(rule=f"policy-{row.name}", level=level, path=path, line=line, what=what)


def _check_deletion(change: ChangedFile, kind: str, policy: PathPolicy) -> Iterator[Finding]:
    if change.status != "D":
        return
    row = get_path_rule(change.path, policy)
    if row.name == "test" and change.path.endswith(".py"):
        yield Finding(rule="policy-deleted", level="refuse", path=change.path, what="a test file is deleted")
    elif kind in row.allow:
        yield Finding(rule="policy-deleted", level="note", path=change.path, what="a file is deleted")


_DESCRIPTIONS = {
    "startup": "a start-up file",
    "conftest": "a conftest",
    "ci": "part of CI",
    "lock": "a list of dependencies",
    "config": "configuration",
    "setup": "part of the set-up",
    "tutorial": "the tutorial",
    "test": "a test",
    "doc": "documentation",
    "implementation": "part of the implementation",
}


def _check_content_type(change: ChangedFile, kind: str, policy: PathPolicy) -> Iterator[Finding]:
    """Yield findings about the mode, the size and the type of a file."""
    if change.status == "D":
        return
    is_fix = kind == "FIX_IMPL"
    yield from path_checks.check_mode(change.path, change.old_mode, change.new_mode, change.new, change.status, is_fix)
    if change.binary and not any(path_checks.is_match(change.path, pattern) for pattern in policy.binary):
        what = "it is a binary file, which nobody can review"
        yield Finding(rule="policy-binary", level="refuse", path=change.path, what=what)
    if change.size > policy.large and change.size > change.old_size:
        what = f"it has {change.size} bytes, more than the limit of {policy.large}"
        yield Finding(rule="policy-large", level="refuse", path=change.path, what=what)
    if change.status in {"A", "R"}:
        yield from path_checks.check_shadowing(change.path)
