from sitegen import build


def test_build_writes_pages(tmp_path):
    src = tmp_path / "src"
    out = tmp_path / "out"
    (src / "blog").mkdir(parents=True)
    (src / "index.md").write_text("# Hi\n")
    (src / "blog" / "one.md").write_text("text\n")
    build(str(src), str(out))
    found = sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())
    assert found == ["blog/one.html", "index.html"]
    assert (out / "index.html").read_text() == "<h1>Hi</h1>\n"
