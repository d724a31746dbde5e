from thumbs import resize, size_of


def test_resize_keeps_ratio(sample_png, tmp_path):
    out = tmp_path / "t.png"
    resize(sample_png, out, width=100)
    assert size_of(out) == (100, 75)
