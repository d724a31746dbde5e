import pytest


class Result:
    def __init__(self):
        self.exit_code = 0
        self.output = "Bern: 21 degrees\n"


@pytest.fixture
def result():
    return Result()


def test_today(result):
    """Today is shown with its temperature."""
    assert result.exit_code == 0
    assert result.output == "Bern: 21 degrees\n"
