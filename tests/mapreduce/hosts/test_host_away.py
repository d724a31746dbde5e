"""`mngr map` on a remote host: no work is lost when the host is unreachable for a while."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from mngr.mapreduce.run_dir import RunDir
from tests.conftest import BIN_DIR, MngrProgram, wait_for
from tests.support.hosts.sshd import Farm
from tests.support.journal_file import read_json_rows

pytestmark = pytest.mark.hosts

WORK = 'until test -e "$1"; do sleep 0.1; done; echo "$0" >$MNGR_OUTPUT_DIR/made'


def test_a_run_survives_a_host_that_is_unreachable_for_a_while(mngr: MngrProgram, farm: Farm, tmp_path: Path) -> None:
    mngr.env.update(MNGR__PROVIDERS__SSH__CONFIG=str(farm.config), MNGR__PROVIDERS__SSH__CONNECT_TIMEOUT="2")
    go_file, items = tmp_path / "sign", ["a", "b", "c", "d"]
    command = [
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
    command += ["--", "sh", "-c", WORK, "{item}", str(go_file)]
    run_dir = RunDir(str(mngr.repo), "r")

    def list_rows(kind: str) -> list[dict[str, Any]]:
        return [row for row in read_json_rows(run_dir.journal) if row["type"] == kind]

    with subprocess.Popen(
        [str(BIN_DIR / "mngr"), *command],
        cwd=mngr.repo,
        env=mngr.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        wait_for(lambda: len(list_rows("prompted")) == 2)
        farm.cut("h1")
        go_file.touch()
        alarm = wait_for(lambda: list_rows("alarm"))[0]
        assert (alarm["error_kind"], alarm["stage"]) == ("host", "work") and "h1 does not answer" in alarm["text"]
        assert next(row["text"].split(",")[0] for row in list_rows("alert")) == "h1 does not answer"
        farm.mend("h1")
        run.communicate(timeout=60)
        assert run.returncode == 0
    assert any(row["text"] == "h1 answers again" for row in list_rows("alert")) and list_rows("alarm_over")
    outputs = [Path(run_dir.task_path(row["slug"], "outputs", "made")).read_text() for row in list_rows("settled")]
    assert sorted(outputs) == ["a\n", "b\n", "c\n", "d\n"]
