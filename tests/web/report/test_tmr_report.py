"""Tests of `mngr tmr report`: its path, which pages it writes again, and the export."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from mngr.mapreduce.run_dir import make_slug
from tests.conftest import MngrProgram
from tests.support.own_runs import adopt_run
from tests.support.runfolder import RunFolder

ONE, TWO = "tests/test_a.py::test_one", "tests/test_b.py::test_two"


@pytest.fixture
def folder(mngr: MngrProgram) -> RunFolder:
    """A run of three tasks, one of which starts later."""
    folder = RunFolder(mngr.repo, "nightly")
    adopt_run(mngr.home, folder.run)
    folder.task(ONE, 100, ("fixed", "fixed", "confirmed"))
    folder.task("tests/test_a.py::test_more", 100, ("fixed", "fixed", "confirmed"))
    folder.row(101, "task", task={"slug": make_slug(TWO), "title": TWO, "data": {"kind": "test"}})
    folder.row(9000, "launch", slug=make_slug(TWO), agent="a", attempt=1, base=folder.base)
    folder.write(until=8000)
    return folder


def test_report_prints_its_path_and_rewrites_only_changed_pages(mngr: MngrProgram, folder: RunFolder) -> None:
    index_path = Path(folder.run.path, "report", "index.html")
    assert mngr("tmr", "report").out == f"{index_path}\n"
    assert mngr("tmr", "report", "nightly", "--format", "{run} {path}").out == f"nightly {index_path}\n"
    finished_page, waiting_page = (index_path.parent / "tasks" / f"{make_slug(test)}.html" for test in (ONE, TWO))
    before = [page.stat().st_mtime_ns for page in (finished_page, waiting_page)]
    folder.write()
    mngr("tmr", "report")
    assert finished_page.stat().st_mtime_ns == before[0]  # Its facts have not changed.
    assert waiting_page.stat().st_mtime_ns != before[1] and "launching" in waiting_page.read_text()


def test_export_writes_the_report_as_one_zip_file(mngr: MngrProgram, folder: RunFolder, tmp_path: Path) -> None:
    assert mngr("tmr", "report", "--export", str(tmp_path / "x.zip")).out == f"{tmp_path}/x.zip\n"
    with ZipFile(tmp_path / "x.zip") as file:
        names = set(file.namelist())
        assert all(name.startswith("report-nightly/") for name in names)
        assert {
            f"report-nightly/{name}" for name in ("index.html", "static/report.css", f"tasks/{make_slug(ONE)}.html")
        } <= names
    failed = mngr("tmr", "report", "--export", str(tmp_path / "none" / "x.zip"), code=1)
    assert "No such file or directory" in failed.err and "cannot write" in failed.err


def test_report_without_a_run_fails(mngr: MngrProgram) -> None:
    assert "there is no run in" in mngr("tmr", "report", code=1).err
