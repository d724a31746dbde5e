"""`mngr map` elsewhere: a host that is gone for a while costs nobody's work."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from mngr.mapreduce.journal import read_journal
from mngr.mapreduce.run_dir import RunDir
from tests.conftest import BIN_DIR, MngrProgram, wait_for
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts

WORK = 'until test -e "$1"; do sleep 0.1; done; echo "$0" >$MNGR_OUTPUT_DIR/made'


def test_a_host_that_is_cut_off_in_the_middle_is_named_and_nothing_is_lost(
    mngr: MngrProgram, farm: Farm, tmp_path: Path
) -> None:
    mngr.env.update(MNGR__PROVIDERS__SSH__CONFIG=str(farm.config), MNGR__PROVIDERS__SSH__CONNECT_TIMEOUT="2")
    sign, items = tmp_path / "sign", ["a", "b", "c", "d"]
    words = [
        "map",
        *items,
        "--name",
        "r",
        "--on",
        "@h1",
        "--canary",
        "0",
        "--max-agents",
        "2",
        "--alarm",
        "2",
    ]
    words += ["--", "sh", "-c", WORK, "{item}", str(sign)]
    place = RunDir(str(mngr.repo), "r")

    def seen(kind: str) -> list[dict[str, Any]]:
        return [row for row in read_journal(place.journal) if row["type"] == kind]

    with subprocess.Popen(
        [str(BIN_DIR / "mngr"), *words],
        cwd=mngr.repo,
        env=mngr.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        wait_for(lambda: len(seen("prompted")) == 2)
        farm.cut("h1")
        sign.touch()
        alarm = wait_for(lambda: seen("alarm"))[0]
        assert (alarm["cause"], alarm["stage"]) == ("host", "work") and "h1 does not answer" in alarm["text"]
        assert next(row["text"].split(",")[0] for row in seen("alert")) == "h1 does not answer"
        farm.mend("h1")
        run.communicate(timeout=60)
        assert run.returncode == 0
    assert any(row["text"] == "h1 answers again" for row in seen("alert")) and seen("alarm_over")
    made = [Path(place.task_path(row["slug"], "outputs", "made")).read_text() for row in seen("settled")]
    assert sorted(made) == ["a\n", "b\n", "c\n", "d\n"]
