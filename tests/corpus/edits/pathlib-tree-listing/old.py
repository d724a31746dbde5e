import os

from sitegen import build


def test_build_writes_pages(tmpdir):
    src = os.path.join(str(tmpdir), "src")
    out = os.path.join(str(tmpdir), "out")
    os.makedirs(os.path.join(src, "blog"))
    with open(os.path.join(src, "index.md"), "w") as f:
        f.write("# Hi\n")
    with open(os.path.join(src, "blog", "one.md"), "w") as f:
        f.write("text\n")
    build(src, out)
    found = []
    for root, dirs, files in os.walk(out):
        for name in files:
            found.append(os.path.relpath(os.path.join(root, name), out))
    assert sorted(found) == [os.path.join("blog", "one.html"), "index.html"]
    with open(os.path.join(out, "index.html")) as f:
        assert f.read() == "<h1>Hi</h1>\n"
