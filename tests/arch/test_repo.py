"""What must be true of the files of this repository."""

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


def test_git_tells_what_the_files_are() -> None:
    assert ROOT / "pyproject.toml" in FILES, LISTED.stderr


def test_a_reader_can_hold_a_file_in_the_head() -> None:
    sizes = {path: path.read_text().count("\n") for path in (ROOT / "src").rglob("*.py")}
    assert {str(path): size for path, size in sizes.items() if size > 450} == {}


def test_no_file_names_a_package_index() -> None:
    # The names are put together here so that this file does not hold them.
    marks = [
        "index" + "-url",
        "find" + "-links",
        "pypi" + ".org",
        "python" + "hosted.org",
        "registry." + "npmjs",
    ]
    pattern = re.compile("|".join(re.escape(mark) for mark in marks))
    assert [str(path.relative_to(ROOT)) for path in TEXTS if pattern.search(path.read_text())] == []


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    pattern = re.compile(rf"(?<![\w.~]){re.escape(str(ROOT))}(?![\w-])|(?<![\w.~])/ro" + r"ot/|\.pye" + "nv")
    assert [str(path.relative_to(ROOT)) for path in TEXTS if pattern.search(path.read_text())] == []


@pytest.mark.parametrize("path", SHELL, ids=lambda path: str(path.relative_to(ROOT)))
def test_shell_files_are_shell(path: Path) -> None:
    first = path.read_text().split("\n", 1)[0]
    shells = ["bash"] if "bash" in first else ["sh", "dash"]
    for shell in shells:
        done = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_what_runs_on_a_host_is_plain_posix_sh() -> None:
    strange = re.compile(
        r"\[\[|\bfunction \w|\$'|(?:^|[;&|({])\s*source |<<<|<\(|\blocal \w|\bdeclare \b|&>|\bseq |\breadlink -f|\bsed -i\b|\bgrep -P"
    )
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in SHELL
        if path.is_relative_to(ROOT / "src") and "sample" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if strange.search(line.partition("#")[0] if line.lstrip().startswith("#") else line)
    ]
    assert found == []


def test_the_pinned_packages_have_hashes_and_name_no_place() -> None:
    text = (ROOT / "requirements.txt").read_text()
    packages = re.findall(r"^[A-Za-z0-9._-]+==.*$", text, re.MULTILINE)
    assert len(packages) > 10
    assert text.count("--hash=sha256:") >= len(packages)
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "    --hash=sha256:"))]
    assert lines == packages


def test_no_test_is_skipped() -> None:
    pattern = re.compile("pytest" + r"\.(mark\.)?(skip|xfail)|importor" + "skip")
    own = [path for path in (ROOT / "tests").rglob("*.py") if "corpus" not in path.parts]
    assert [str(path) for path in own if pattern.search(path.read_text())] == []
