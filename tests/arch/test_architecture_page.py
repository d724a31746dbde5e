"""ARCHITECTURE.md names packages and files that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SOURCE = ROOT / "src/mngr"
PACKAGES = [
    path.parent for path in sorted(SOURCE.rglob("__init__.py")) if "sample" not in path.parts and path.parent != SOURCE
]


def test_the_architecture_page_is_short() -> None:
    assert PAGE.count("\n") <= 200


def test_every_top_level_package_has_a_row_in_the_layers() -> None:
    packages = [path for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert [path.name for path in packages if f"`{path.name}/`" not in PAGE] == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_package_docstring_says_what_it_holds_and_where_to_start(package: Path) -> None:
    doc = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    lines = [line for line in doc.splitlines() if line]
    assert len(lines) >= 2, f"{package} needs two lines: what is here, where to start"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_file_that_a_package_docstring_names_exists(package: Path) -> None:
    doc = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    named = re.findall(r"`([\w/-]+\.(?:py|sh|md|json|css|js))`", doc)
    assert [name for name in named if not any((folder / name).exists() for folder in (package, SOURCE, ROOT))] == []


def test_every_source_file_that_the_documentation_names_exists() -> None:
    files_of_projects = {"setup.sh"}  # examples of files in a user's project
    existing = {path.name for folder in (SOURCE, ROOT / "tests") for path in folder.rglob("*")} | files_of_projects
    pages = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "reference" not in page.parts]
    named = {(page.name, name) for page in pages for name in re.findall(r"`([\w/-]+\.(?:py|sh))`", page.read_text())}
    assert sorted((page, name) for page, name in named if name.rsplit("/", 1)[-1] not in existing) == []


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`([\w/-]+\.(?:py|sh|md|json|css))`", PAGE))
    existing = {path.name for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts}
    assert len(named) > 60
    run_files = {"PR.md", "result.json", "run.json"}
    assert sorted(name for name in named - run_files if name.rsplit("/", 1)[-1] not in existing) == []
    nested = [name for name in named if name.count("/") > 1 and "NAME" not in name]
    assert [name for name in nested if not ((SOURCE / name).exists() or (ROOT / name).exists())] == []
