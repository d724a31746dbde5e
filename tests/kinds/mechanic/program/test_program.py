"""The archive of the mechanic runs with an old Python, and the search in the project's own strings."""

from __future__ import annotations

import ast
import io
import zipfile
from pathlib import Path

from mngr.kinds.mechanic.kind import build_archive
from mngr.kinds.mechanic.program.project_sources import ProjectSources
from tests.conftest import run_git


def parse_archive() -> dict[str, ast.Module]:
    """Return the modules in the archive, without those that only a project's tests import."""
    excluded = (
        "e2e/plugin.py",
        "e2e/expectations/expectation.py",
        "e2e/connect_recorder.py",
        "e2e/expectations/directory_comparison.py",
        "mechanic/recording_pytest_plugin.py",
    )
    with zipfile.ZipFile(io.BytesIO(build_archive())) as zipped:
        names = [name for name in zipped.namelist() if not name.endswith(excluded)]
        return {name: ast.parse(zipped.read(name), feature_version=(3, 9)) for name in names}


def test_the_archive_needs_only_python_3_9() -> None:
    too_new = []
    for name, tree in parse_archive().items():
        for node in ast.walk(tree):
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            is_strict_zip = called == "zip" and any(word.arg == "strict" for word in node.keywords)  # type: ignore[attr-defined]
            is_union_check = called == "isinstance" and isinstance(node.args[1], ast.BinOp)  # type: ignore[attr-defined]
            if is_strict_zip or is_union_check or isinstance(node, ast.Match):
                too_new.append(f"{name}:{node.lineno}")  # type: ignore[attr-defined]
    assert too_new == []


def test_words_are_found_only_in_the_projects_own_strings(repo: Path) -> None:
    files = {
        "src/a.py": 'NAME = f"the {1} larder"\n',
        "run": "echo pantry\n",
        "tests/test_a.py": '"shelf"\n',
        "notes.md": "cellar\n",
        "tutorial.sh": "echo attic\n",
        "b.py": "def (\n  kitchen\n",
    }
    for name, text in files.items():
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text(text)
    run_git(repo, "add", ".")
    (repo / "new.py").write_text('"garden"\n')  # git does not track it
    sources = ProjectSources(str(repo), "tutorial.sh")
    words = "the larder pantry kitchen NAME lard shelf cellar attic garden".split()
    assert [word for word in words if sources.has_word(word)] == ["the", "larder", "pantry", "kitchen"]
