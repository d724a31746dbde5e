import subprocess


def test_plan_of_the_barn():
    """The plan is drawn."""
    out = subprocess.run(["barn", "plan"], capture_output=True, text=True, check=True).stdout
    assert out == "+--+\n|  |\n+--+\n"
