import subprocess


def test_lot_is_drawn():
    """A lot is drawn, by chance or by $BARN_SEED."""
    out = subprocess.run(["barn", "lot"], capture_output=True, text=True, check=True).stdout
    assert out.strip() in {"long", "short"}
