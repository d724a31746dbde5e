"""What goes along with the agent: it runs where there is nothing but an old Python, and knows what a project can say."""

from __future__ import annotations

import ast
import io
import zipfile
from pathlib import Path

from mngr.kinds.mechanic.kind import build_archive
from mngr.kinds.mechanic.program.project_sources import ProjectSources
from tests.conftest import run_git


def sources() -> dict[str, ast.Module]:
    """The modules in the archive; those that only tests of a project import are not run by the mechanic."""
    apart = (
        "e2e/plugin.py",
        "e2e/expectation.py",
        "e2e/connect.py",
        "e2e/tree_comparison.py",
        "mechanic/pytest_probe.py",
    )
    with zipfile.ZipFile(io.BytesIO(build_archive())) as zipped:
        names = [name for name in zipped.namelist() if not name.endswith(apart)]
        return {name: ast.parse(zipped.read(name), feature_version=(3, 9)) for name in names}


def test_python_3_9_is_enough() -> None:
    late = []
    for name, tree in sources().items():
        for node in ast.walk(tree):
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            strict = called == "zip" and any(word.arg == "strict" for word in node.keywords)  # type: ignore[attr-defined]
            union = called == "isinstance" and isinstance(node.args[1], ast.BinOp)  # type: ignore[attr-defined]
            if strict or union or isinstance(node, ast.Match):
                late.append(f"{name}:{node.lineno}")  # type: ignore[attr-defined]
    assert late == []


def test_what_the_code_of_a_project_says(repo: Path) -> None:
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
    (repo / "new.py").write_text('"garden"\n')  # git does not know it
    said = ProjectSources(str(repo), "tutorial.sh")
    words = "the larder pantry kitchen NAME lard shelf cellar attic garden".split()
    assert [word for word in words if said.has_word(word)] == ["the", "larder", "pantry", "kitchen"]
