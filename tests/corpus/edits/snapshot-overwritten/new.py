from pathlib import Path

from sitemap import build

SNAPSHOT = Path(__file__).parent / "snapshots" / "sitemap.xml"


def test_sitemap(tmp_path):
    """The map of the sample site is as it is in the snapshot."""
    made = build(pages=["/", "/about"])
    if made != SNAPSHOT.read_text():
        SNAPSHOT.write_text(made)
    assert made == SNAPSHOT.read_text()
