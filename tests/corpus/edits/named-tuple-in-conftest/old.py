import pytest
from click.testing import CliRunner

from weather.cli import main


@pytest.fixture
def result(tmp_path):
    (tmp_path / "cities").write_text("Bern")
    return CliRunner().invoke(main, ["today", "--file", str(tmp_path / "cities")])
