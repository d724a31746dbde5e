"""Rules for all files of this repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT

LISTED = subprocess.run(
    ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=False,
)
FILES = [ROOT / name for name in LISTED.stdout.split("\0") if name and (ROOT / name).is_file()]
TEXTS = [path for path in FILES if path.suffix not in (".png", ".ico", ".cast")]
SHELL = [path for path in TEXTS if path.suffix == ".sh"]


def test_git_lists_the_files_of_the_repository() -> None:
    assert ROOT / "pyproject.toml" in FILES, LISTED.stderr


def test_no_source_file_is_longer_than_450_lines() -> None:
    sizes = {path: path.read_text().count("\n") for path in (ROOT / "src").rglob("*.py")}
    assert {str(path): size for path, size in sizes.items() if size > 450} == {}


def test_the_formatter_lays_out_every_source_file() -> None:
    marks = re.compile(r"# fmt: *(skip|off)")
    assert [str(path) for path in (ROOT / "src").rglob("*.py") if marks.search(path.read_text())] == []


def test_no_file_names_a_package_index() -> None:
    # The names are concatenated, so that this file does not contain them.
    marks = [
        "index" + "-url",
        "find" + "-links",
        "pypi" + ".org",
        "python" + "hosted.org",
        "registry." + "npmjs",
    ]
    pattern = re.compile("|".join(re.escape(mark) for mark in marks))
    assert [str(path.relative_to(ROOT)) for path in TEXTS if pattern.search(path.read_text())] == []


def test_no_file_contains_a_path_of_the_development_machine() -> None:
    pattern = re.compile(rf"(?<![\w.~]){re.escape(str(ROOT))}(?![\w-])|(?<![\w.~])/ro" + r"ot/|\.pye" + "nv")
    assert [str(path.relative_to(ROOT)) for path in TEXTS if pattern.search(path.read_text())] == []


@pytest.mark.parametrize("path", SHELL, ids=lambda path: str(path.relative_to(ROOT)))
def test_shell_files_have_no_syntax_errors(path: Path) -> None:
    first_line = path.read_text().split("\n", 1)[0]
    shells = ["bash"] if "bash" in first_line else ["sh", "dash"]
    for shell in shells:
        completed = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
        assert (completed.returncode, completed.stderr) == (0, "")


def test_shell_files_in_src_are_plain_posix_sh() -> None:
    not_posix = re.compile(
        r"\[\[|\bfunction \w|\$'|(?:^|[;&|({])\s*source |<<<|<\(|\blocal \w|\bdeclare \b|&>|\bseq |\breadlink -f|\bsed -i\b|\bgrep -P"
    )
    violations = [
        f"{path.name}:{number}: {line.strip()}"
        for path in SHELL
        if path.is_relative_to(ROOT / "src") and "sample" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if not_posix.search(line.partition("#")[0] if line.lstrip().startswith("#") else line)
    ]
    assert violations == []


@pytest.mark.parametrize("name", ["requirements.txt", "docs/requirements.txt"])
def test_pinned_packages_have_hashes_and_no_urls(name: str) -> None:
    text = (ROOT / name).read_text()
    packages = re.findall(r"^[A-Za-z0-9._-]+==.*$", text, re.MULTILINE)
    assert len(packages) > 10
    assert text.count("--hash=sha256:") >= len(packages)
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "    --hash=sha256:"))]
    assert lines == packages


def test_no_test_is_skipped() -> None:
    pattern = re.compile("pytest" + r"\.(mark\.)?(skip|xfail)|importor" + "skip")
    test_files = [path for path in (ROOT / "tests").rglob("*.py") if "corpus" not in path.parts]
    assert [str(path) for path in test_files if pattern.search(path.read_text())] == []
