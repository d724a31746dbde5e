import subprocess

from tests.scale import FULL


def test_survey_of_the_fields():
    """The fields are surveyed, and the first is green."""
    only = [] if FULL else ["--field", "1"]
    done = subprocess.run(["survey", *only], capture_output=True, text=True)
    assert done.returncode == 0
    assert "field 1: green" in done.stdout
