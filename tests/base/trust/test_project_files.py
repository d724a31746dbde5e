from __future__ import annotations

from pathlib import Path

import pytest

from mngr.base.errors import MngrError
from mngr.base.lock import Lock
from mngr.base.trust.project_files import make_project_dir, write_new_project_file


def test_a_new_file_is_written_with_its_directories_and_an_existing_one_is_kept(tmp_path: Path) -> None:
    for text in (b"one", b"two"):
        write_new_project_file(str(tmp_path), ".mngr/runs/.gitignore", text)
    assert (tmp_path / ".mngr/runs/.gitignore").read_bytes() == b"one"
    assert make_project_dir(str(tmp_path), ".mngr/outputs/foo") == f"{tmp_path}/.mngr/outputs/foo"
    assert (tmp_path / ".mngr/outputs/foo").is_dir()


@pytest.mark.parametrize("link", [".mngr", ".mngr/runs", ".mngr/runs/.gitignore"])
def test_no_file_is_written_through_a_link_of_the_project(tmp_path: Path, link: str) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(outside / "new" if link.endswith("ignore") else outside)
    if link.endswith("ignore"):
        write_new_project_file(str(project), ".mngr/runs/.gitignore", b"*\n")
    else:
        with pytest.raises(MngrError, match="not a directory of the project"):
            write_new_project_file(str(project), ".mngr/runs/.gitignore", b"*\n")
    assert list(outside.iterdir()) == []


def test_a_lock_does_not_create_a_file_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "outside")
    with pytest.raises(MngrError, match="cannot lock"), Lock(str(tmp_path / "lock")):
        pass
    assert not (tmp_path / "outside").exists()
