from contacts import export


def test_export(tmp_path):
    """All contacts are written."""
    export([("Ann", "ann@example.org")], tmp_path / "all.csv")
    assert (tmp_path / "all.csv").read_text() == "name,mail\nAnn,ann@example.org\n"
