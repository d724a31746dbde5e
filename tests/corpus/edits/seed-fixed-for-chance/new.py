import subprocess


def test_lot_is_drawn(monkeypatch):
    """A lot is drawn, by chance or by $BARN_SEED."""
    monkeypatch.setenv("BARN_SEED", "7")
    out = subprocess.run(["barn", "lot"], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "short"
