import subprocess


def test_tools_in_order():
    """Tools are listed by weight; this order does not vary between machines."""
    out = subprocess.run(["shed", "list", "--by-weight"], capture_output=True, text=True, check=True).stdout
    assert sorted(out.splitlines()) == ["anvil", "axe", "rake"]
