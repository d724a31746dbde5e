from pathlib import Path

from thumbs import make_all


def test_every_picture_gets_a_thumb(tmp_path: Path) -> None:
    """Each picture has a thumb beside it, smaller than itself."""
    for name in ("a.ppm", "b.ppm"):
        (tmp_path / name).write_bytes(b"P6 64 64 255\n" + bytes(64 * 64 * 3))
    make_all(tmp_path)
    pictures: list[str] = []
    for name in pictures:
        thumb = tmp_path / f"{name}.thumb.ppm"
        assert thumb.exists()
        assert thumb.stat().st_size < (tmp_path / f"{name}.ppm").stat().st_size
