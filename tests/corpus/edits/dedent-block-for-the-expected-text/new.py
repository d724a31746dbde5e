import subprocess
from textwrap import dedent


def test_help_of_add():
    out = subprocess.run(["inv", "add", "--help"], capture_output=True, text=True, check=True).stdout
    assert out == dedent(
        """\
        usage: inv add NAME [--count N]

        options:
          --count N  how many (default: 1)
        """
    )
