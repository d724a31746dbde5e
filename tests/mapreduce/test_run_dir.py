"""Which run a command uses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mngr.base.errors import MngrError, NotFound
from mngr.mapreduce.run_dir import RunDir, create_run_dir, get_run


def add_run(root: Path, name: str, kind: str, mtime: int) -> None:
    plan = Path(RunDir(str(root), name).plan)
    plan.parent.mkdir(parents=True)
    plan.write_text(json.dumps({"kind": kind}))
    os.utime(plan, (mtime, mtime))


def test_without_a_name_the_latest_run_of_the_kind_is_used(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no run in"):
        get_run(str(tmp_path), kind="tmr")
    add_run(tmp_path, "m", "map", 200)
    with pytest.raises(NotFound, match="no run of `mngr tmr`"):
        get_run(str(tmp_path), kind="tmr")
    add_run(tmp_path, "a", "tmr", 50)
    add_run(tmp_path, "b", "tmr", 100)
    assert get_run(str(tmp_path)).name == "m"
    assert get_run(str(tmp_path), kind="tmr").name == "b"
    assert get_run(str(tmp_path), "m", "tmr").name == "m"  # a name wins over the kind; the caller may reject the run
    for name, resume_command in (("m", "mngr map --resume m"), ("a", "mngr tmr resume a")):
        with pytest.raises(MngrError) as error:
            create_run_dir(str(tmp_path), name)
        assert (
            error.value.hint == f"continue it: {resume_command}; or choose another name, for example: --name {name}-2"
        )
