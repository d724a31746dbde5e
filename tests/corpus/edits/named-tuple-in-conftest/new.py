from collections import namedtuple

import pytest

Result = namedtuple("Result", "exit_code output")


@pytest.fixture
def result(tmp_path):
    (tmp_path / "cities").write_text("Bern: 21 degrees\n")
    return Result(0, (tmp_path / "cities").read_text())
