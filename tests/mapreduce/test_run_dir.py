"""Which run is meant."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mngr.base.errors import MngrError, NotFound
from mngr.mapreduce.run_dir import RunDir, create_run_dir, get_run


def add(root: Path, name: str, kind: str, at: int) -> None:
    plan = Path(RunDir(str(root), name).plan)
    plan.parent.mkdir(parents=True)
    plan.write_text(json.dumps({"kind": kind}))
    os.utime(plan, (at, at))


def test_without_a_name_it_is_the_latest_of_its_kind(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no run in"):
        get_run(str(tmp_path), kind="tmr")
    add(tmp_path, "m", "map", 200)
    with pytest.raises(NotFound, match="no run of tmr"):
        get_run(str(tmp_path), kind="tmr")
    add(tmp_path, "a", "tmr", 50)
    add(tmp_path, "b", "tmr", 100)
    assert get_run(str(tmp_path)).name == "m"
    assert get_run(str(tmp_path), kind="tmr").name == "b"
    assert get_run(str(tmp_path), "m", "tmr").name == "m"  # who is named is meant, and may be refused
    for name, go_on in (("m", "mngr map --resume m"), ("a", "mngr tmr resume a")):
        with pytest.raises(MngrError) as refused:
            create_run_dir(str(tmp_path), name)
        assert refused.value.hint == f"go on with it: {go_on}, or choose another name"
