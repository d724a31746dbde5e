"""Which folders in `.mngr/runs` mngr takes for its own runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mngr.base.paths import Home
from mngr.mapreduce.run_dir import RunDir, create_run_dir
from mngr.mapreduce.run_repo import is_own_run, register_run
from mngr.providers.local import LocalHost


def make_run(tmp_path: Path, home: str = "home") -> tuple[LocalHost, RunDir]:
    """Return a host, and a run that its home created."""
    local = LocalHost(Home(str(tmp_path / home)))
    run = create_run_dir(str(tmp_path / "project"), "r")
    register_run(local.home, run)
    return local, run


def test_a_run_belongs_to_the_home_that_created_it_also_after_the_project_moved(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    local, run = make_run(tmp_path)
    assert is_own_run(local, run)
    assert not is_own_run(LocalHost(Home(str(tmp_path / "other"))), run)
    os.rename(tmp_path / "project", tmp_path / "moved")
    assert is_own_run(local, RunDir(str(tmp_path / "moved"), "r"))


def test_a_copy_of_a_run_in_another_project_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    local, run = make_run(tmp_path)
    shutil.copytree(tmp_path / "project", tmp_path / "copy")
    assert not is_own_run(local, RunDir(str(tmp_path / "copy"), "r"))
    assert is_own_run(local, run)


def test_a_run_folder_with_an_unknown_or_odd_id_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    local, run = make_run(tmp_path)
    (known_id,) = os.listdir(local.home.own_runs)
    id_file = Path(run.path, "id")
    for text in ("", "0" * 32, f"../own_runs/{known_id}", known_id + "\n"):
        id_file.write_text(text)
        assert not is_own_run(local, run), text
    id_file.unlink()
    id_file.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text(known_id)
    assert not is_own_run(local, run)


def test_a_run_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    local, run = make_run(tmp_path)
    if os.geteuid() == 0:
        os.chown(run.path, 65534, 65534)
        assert not is_own_run(local, run)
