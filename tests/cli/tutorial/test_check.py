"""Tests of `mngr tutorial check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MngrProgram

SCRIPT = "#!/bin/sh\n\n# see it\nmngr list\n\n# end it\nmngr stop foo\n"
TESTS = '''\
def test_list(e2e):
    e2e.write_tutorial_block("""
        # see it
        mngr list
    """)


class TestLife:
    def test_stop(self, e2e):
        """It ends.

        Tutorial block:
            # end it
            mngr stop foo
        """
'''


@pytest.fixture
def project(mngr: MngrProgram) -> Path:
    (mngr.repo / "tutorial.sh").write_text(SCRIPT)
    (mngr.repo / "tests").mkdir()
    (mngr.repo / "tests" / "test_it.py").write_text(TESTS)
    return mngr.repo


def replace_in_file(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_check_passes_when_every_block_is_cited(mngr: MngrProgram, project: Path) -> None:
    assert mngr("tutorial", "check").out == "2 of 2 blocks are cited\n"
    report = mngr.run_json("tutorial", "check", "tutorial.sh", "tests/test_it.py")
    assert (report["ok"], report["findings"], report["counts"]["cited"]) == (True, [], 2)
    assert [block["tests"] for block in report["blocks"]] == [
        ["tests/test_it.py::test_list"],
        ["tests/test_it.py::TestLife::test_stop"],
    ]
    assert not mngr.home.exists()


def test_check_shows_gaps_stale_citations_and_orphans(mngr: MngrProgram, project: Path) -> None:
    replace_in_file(project / "tutorial.sh", "mngr list", "mngr list --all")
    replace_in_file(
        project / "tests/test_it.py",
        "            # end it\n            mngr stop foo",
        "            # xyzzy\n            ls",
    )
    result = mngr("tutorial", "check", code=1)
    assert result.out.splitlines() == [
        "tutorial.sh:3: gap: no test cites this block: see-it",
        "tutorial.sh:6: gap: no test cites this block: end-it",
        "tests/test_it.py:2: stale: tests/test_it.py::test_list cites a block that has changed; "
        "the most similar block is tutorial.sh:3 (see-it)",
        "--- tests/test_it.py:2",
        "+++ tutorial.sh:3",
        "@@ -1,2 +1,2 @@",
        " # see it",
        "-mngr list",
        "+mngr list --all",
        "tests/test_it.py:13: orphan: tests/test_it.py::TestLife::test_stop cites a block that is not in tutorial.sh, "
        "and no block is similar",
        "0 of 2 blocks are cited",
    ]
    assert result.err.startswith("Error: tutorial.sh and its tests differ: 2 gaps, 1 stale, 1 orphan\nHint: ")
    kinds = [finding["kind"] for finding in mngr.run_json("tutorial", "check", code=1)["findings"]]
    assert kinds == ["gap", "gap", "stale", "orphan"]
    lines = mngr("tutorial", "check", "--format", "{kind} {path} {line}", code=1).out.splitlines()
    assert lines[-1] == "orphan tests/test_it.py 13"


def test_fix_rewrites_stale_citations(mngr: MngrProgram, project: Path) -> None:
    replace_in_file(project / "tutorial.sh", "mngr list", "mngr list --all")
    replace_in_file(project / "tutorial.sh", "mngr stop foo", "mngr stop foo --timeout 5s")
    tests_dir = project / "tests"
    result = mngr("tutorial", "check", "--fix", cwd=tests_dir)
    assert result.out.splitlines() == [
        "tests/test_it.py:2: tests/test_it.py::test_list rewritten",
        "tests/test_it.py:13: tests/test_it.py::TestLife::test_stop rewritten",
        "2 of 2 blocks are cited",
    ]
    expected = TESTS.replace("mngr list", "mngr list --all").replace("stop foo", "stop foo --timeout 5s")
    assert (tests_dir / "test_it.py").read_text() == expected
    assert mngr("tutorial", "check", "--fix").out == "2 of 2 blocks are cited\n"


def test_fix_leaves_ambiguous_citations_alone(mngr: MngrProgram, project: Path) -> None:
    (project / "tutorial.sh").write_text(SCRIPT.replace("mngr list", "mngr list -a\n\n# see it\nmngr list -b"))
    result = mngr("tutorial", "check", "--fix", code=1)
    assert "test_list not rewritten: the block in line 6 is as similar as the one in line 3" in result.out
    assert (project / "tests/test_it.py").read_text() == TESTS


def test_the_github_format_prints_escaped_annotations(mngr: MngrProgram, project: Path) -> None:
    (project / "a,b:100%").mkdir()
    (project / "a,b:100%" / "test_it.py").write_text(TESTS + "def test_x(:\n")
    result = mngr("tutorial", "check", "tutorial.sh", "a,b:100%", "--format", "github", code=1)
    assert result.out.splitlines()[0] == (
        "::error file=a%2Cb%3A100%25/test_it.py,line=16,title=unreadable::is not valid Python: invalid syntax"
    )
    replace_in_file(project / "tutorial.sh", "mngr list", "mngr list --100%")
    replace_in_file(project / "tutorial.sh", "mngr stop foo\n", "mngr stop foo\n\n# end it\nmngr stop foo\n")
    lines = mngr("tutorial", "check", "--format", "github", code=1).out.splitlines()
    assert [line.split("::")[1].split(",")[0] for line in lines] == [
        "error file=tutorial.sh", "error file=tests/test_it.py", "warning file=tutorial.sh",
    ]  # fmt: skip
    assert lines[1].endswith("%0A # see it%0A-mngr list%0A+mngr list --100%25")


def test_an_unreadable_file_is_named_and_the_others_are_checked(mngr: MngrProgram, project: Path) -> None:
    (project / "tests" / "test_broken.py").write_text("\n\ndef test_x(:\n")
    result = mngr("tutorial", "check", code=1)
    assert (
        "tests/test_broken.py:3: unreadable: is not valid Python: invalid syntax\n2 of 2 blocks are cited" in result.out
    )
    result = mngr("tutorial", "check", "tutorial.sh", "nowhere", code=1)
    assert result.err.startswith("Error: there are no tests at nowhere\nHint: ")
    (project / "x.py").write_bytes(b"import os\n")
    assert "x.py:1: this is Python" in mngr("tutorial", "check", "x.py", code=1).err


def test_observed_tests_are_counted_separately(mngr: MngrProgram, project: Path) -> None:
    replace_in_file(project / "tests/test_it.py", "def test_list", "@pytest.mark.observed\ndef test_list")
    assert mngr("tutorial", "check").out == "2 of 2 blocks are cited; 1 observed but not reviewed\n"


def test_other_commands_reject_the_github_format(mngr: MngrProgram) -> None:
    assert "--format cannot be 'github'" in mngr("tutorial", "blocks", "--format", "github", code=2).err
