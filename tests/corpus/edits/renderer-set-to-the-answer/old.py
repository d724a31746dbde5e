import pytest
from click.testing import CliRunner

from weather import cli as weather_cli

FORECAST = {"oslo": [-3, 1, 4]}


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setattr(weather_cli, "fetch", FORECAST.__getitem__)


def test_sparkline():
    """`weather show --spark` draws the temperatures as a line of blocks."""
    result = CliRunner().invoke(weather_cli.main, ["show", "oslo", "--spark"])
    assert result.exit_code == 0
    assert result.output == "oslo  \u2581\u2585\u2588\n"
