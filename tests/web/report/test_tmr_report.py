"""`mngr tmr report`: where it is, what is written again, and what a colleague gets."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from mngr.mapreduce.run_dir import make_slug
from tests.conftest import MngrProgram
from tests.support.runfolder import RunFolder

ONE, TWO = "tests/test_a.py::test_one", "tests/test_b.py::test_two"


@pytest.fixture
def folder(mngr: MngrProgram) -> RunFolder:
    """A run of three tasks, of which one began later."""
    folder = RunFolder(mngr.repo, "nightly")
    folder.task(ONE, 100, "fixed", "fixed", "confirmed")
    folder.task("tests/test_a.py::test_more", 100, "fixed", "fixed", "confirmed")
    folder.row(101, "task", task={"slug": make_slug(TWO), "title": TWO, "data": {"kind": "test"}})
    folder.row(9000, "launch", slug=make_slug(TWO), agent="a", attempt=1, base=folder.base)
    folder.write(until=8000)
    return folder


def test_it_is_written_and_said_where(mngr: MngrProgram, folder: RunFolder) -> None:
    first = Path(folder.run.path, "report", "index.html")
    assert mngr("tmr", "report").out == f"{first}\n"
    assert mngr("tmr", "report", "nightly", "--format", "{run} {path}").out == f"nightly {first}\n"
    done, waits = (first.parent / "tasks" / f"{make_slug(test)}.html" for test in (ONE, TWO))
    before = [page.stat().st_mtime_ns for page in (done, waits)]
    folder.write()
    mngr("tmr", "report")
    assert done.stat().st_mtime_ns == before[0]  # nothing has changed there
    assert waits.stat().st_mtime_ns != before[1] and "launching" in waits.read_text()


def test_one_file_for_a_colleague(mngr: MngrProgram, folder: RunFolder, tmp_path: Path) -> None:
    assert mngr("tmr", "report", "--export", str(tmp_path / "x.zip")).out == f"{tmp_path}/x.zip\n"
    with ZipFile(tmp_path / "x.zip") as file:
        names = set(file.namelist())
        assert all(name.startswith("report-nightly/") for name in names)
        assert {
            f"report-nightly/{name}" for name in ("index.html", "static/report.css", f"tasks/{make_slug(ONE)}.html")
        } <= names
    failed = mngr("tmr", "report", "--export", str(tmp_path / "none" / "x.zip"), code=1)
    assert "cannot be written: No such file or directory" in failed.err


def test_a_run_that_there_is_not(mngr: MngrProgram) -> None:
    assert "there is no run in" in mngr("tmr", "report", code=1).err
