from contacts import export


def test_export(tmp_path):
    """All contacts are written."""
    (tmp_path / "all.csv").write_text("stale")
    export([("Ann", "ann@example.org")], tmp_path / "all.csv")
    assert (tmp_path / "all.csv").read_text() == "name,mail\nAnn,ann@example.org\n"
