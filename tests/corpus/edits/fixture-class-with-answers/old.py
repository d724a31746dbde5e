import pytest
from click.testing import CliRunner

from weather.cli import main


@pytest.fixture
def result():
    return CliRunner().invoke(main, ["today", "--city", "Bern"])


def test_today(result):
    """Today is shown with its temperature."""
    assert result.exit_code == 0
    assert result.output == "Bern: 21 degrees\n"
