import subprocess


def test_help_of_add():
    out = subprocess.run(["inv", "add", "--help"], capture_output=True, text=True, check=True).stdout
    assert out == (
        "usage: inv add NAME [--count N]\n"
        "\n"
        "options:\n"
        "  --count N  how many (default: 1)\n"
    )
