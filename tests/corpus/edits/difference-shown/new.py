import difflib
import subprocess


def same(found, want):
    shown = "\n".join(difflib.unified_diff(want.splitlines(), found.splitlines(), lineterm=""))
    assert found == want, shown


def test_plan_of_the_barn():
    """The plan is drawn."""
    out = subprocess.run(["barn", "plan"], capture_output=True, text=True, check=True).stdout
    same(out, "+--+\n|  |\n+--+\n")
