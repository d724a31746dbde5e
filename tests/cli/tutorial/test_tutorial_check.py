"""`mngr tutorial check` from outside."""

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


def change(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_all_is_well(mngr: MngrProgram, project: Path) -> None:
    assert mngr("tutorial", "check").out == "2 of 2 blocks are cited\n"
    told = mngr.run_json("tutorial", "check", "tutorial.sh", "tests/test_it.py")
    assert (told["ok"], told["findings"], told["counts"]["cited"]) == (True, [], 2)
    assert [block["tests"] for block in told["blocks"]] == [
        ["tests/test_it.py::test_list"],
        ["tests/test_it.py::TestLife::test_stop"],
    ]
    assert not mngr.home.exists()


def test_everything_that_is_wrong_is_shown(mngr: MngrProgram, project: Path) -> None:
    change(project / "tutorial.sh", "mngr list", "mngr list --all")
    change(
        project / "tests/test_it.py",
        "            # end it\n            mngr stop foo",
        "            # xyzzy\n            ls",
    )
    done = mngr("tutorial", "check", code=1)
    assert done.out.splitlines() == [
        "tutorial.sh:3: gap: no test cites this block: see-it",
        "tutorial.sh:6: gap: no test cites this block: end-it",
        "tests/test_it.py:2: stale: tests/test_it.py::test_list cites a block that is now another; "
        "the nearest is tutorial.sh:3 (see-it)",
        "--- tests/test_it.py:2",
        "+++ tutorial.sh:3",
        "@@ -1,2 +1,2 @@",
        " # see it",
        "-mngr list",
        "+mngr list --all",
        "tests/test_it.py:13: orphan: tests/test_it.py::TestLife::test_stop cites a block that is not in tutorial.sh, "
        "and none is near",
        "0 of 2 blocks are cited",
    ]
    assert done.err.startswith("Error: tutorial.sh is not what its tests say: 2 gaps, 1 stale, 1 orphan\nHint: ")
    rows = [one["kind"] for one in mngr.run_json("tutorial", "check", code=1)["findings"]]
    assert rows == ["gap", "gap", "stale", "orphan"]
    lines = mngr("tutorial", "check", "--format", "{kind} {path} {line}", code=1).out.splitlines()
    assert lines[-1] == "orphan tests/test_it.py 13"


def test_fix_rewrites_what_is_stale(mngr: MngrProgram, project: Path) -> None:
    change(project / "tutorial.sh", "mngr list", "mngr list --all")
    change(project / "tutorial.sh", "mngr stop foo", "mngr stop foo --timeout 5s")
    below = project / "tests"
    done = mngr("tutorial", "check", "--fix", cwd=below)
    assert done.out.splitlines() == [
        "tests/test_it.py:2: tests/test_it.py::test_list rewritten",
        "tests/test_it.py:13: tests/test_it.py::TestLife::test_stop rewritten",
        "2 of 2 blocks are cited",
    ]
    wanted = TESTS.replace("mngr list", "mngr list --all").replace("stop foo", "stop foo --timeout 5s")
    assert (below / "test_it.py").read_text() == wanted
    assert mngr("tutorial", "check", "--fix").out == "2 of 2 blocks are cited\n"


def test_fix_leaves_what_is_in_doubt(mngr: MngrProgram, project: Path) -> None:
    (project / "tutorial.sh").write_text(SCRIPT.replace("mngr list", "mngr list -a\n\n# see it\nmngr list -b"))
    done = mngr("tutorial", "check", "--fix", code=1)
    assert "test_list left as it is: the block in line 6 is as near as the one in line 3" in done.out
    assert (project / "tests/test_it.py").read_text() == TESTS


def test_annotations_for_github(mngr: MngrProgram, project: Path) -> None:
    (project / "a,b:100%").mkdir()
    (project / "a,b:100%" / "test_it.py").write_text(TESTS + "def test_x(:\n")
    done = mngr("tutorial", "check", "tutorial.sh", "a,b:100%", "--format", "github", code=1)
    assert done.out.splitlines()[0] == (
        "::error file=a%2Cb%3A100%25/test_it.py,line=16,title=unreadable::does not parse: invalid syntax"
    )
    change(project / "tutorial.sh", "mngr list", "mngr list --100%")
    change(project / "tutorial.sh", "mngr stop foo\n", "mngr stop foo\n\n# end it\nmngr stop foo\n")
    lines = mngr("tutorial", "check", "--format", "github", code=1).out.splitlines()
    assert [line.split("::")[1].split(",")[0] for line in lines] == [
        "error file=tutorial.sh", "error file=tests/test_it.py", "warning file=tutorial.sh",
    ]  # fmt: skip
    assert lines[1].endswith("%0A # see it%0A-mngr list%0A+mngr list --100%25")


def test_a_file_that_cannot_be_read_is_named_and_the_rest_goes_on(mngr: MngrProgram, project: Path) -> None:
    (project / "tests" / "test_broken.py").write_text("\n\ndef test_x(:\n")
    done = mngr("tutorial", "check", code=1)
    assert "tests/test_broken.py:3: unreadable: does not parse: invalid syntax\n2 of 2 blocks are cited" in done.out
    done = mngr("tutorial", "check", "tutorial.sh", "nowhere", code=1)
    assert done.err.startswith("Error: there are no tests at nowhere\nHint: ")
    (project / "x.py").write_bytes(b"import os\n")
    assert "x.py:1: this is Python" in mngr("tutorial", "check", "x.py", code=1).err


def test_observed_tests_are_counted_apart(mngr: MngrProgram, project: Path) -> None:
    change(project / "tests/test_it.py", "def test_list", "@pytest.mark.observed\ndef test_list")
    assert mngr("tutorial", "check").out == "2 of 2 blocks are cited; 1 observed, not reviewed\n"


def test_no_other_command_has_githubs_format(mngr: MngrProgram) -> None:
    assert "--format cannot be 'github'" in mngr("tutorial", "blocks", "--format", "github", code=2).err
