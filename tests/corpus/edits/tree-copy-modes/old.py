import os
import stat

from treecp import copy_tree


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_copy_tree_preserves_modes(tmp_path):
    src = tmp_path / "src"
    (src / "bin").mkdir(parents=True)
    tool = src / "bin" / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o750)
    dst = tmp_path / "dst"
    copy_tree(src, dst)
    assert (dst / "bin" / "tool").read_text() == "#!/bin/sh\n"
    assert mode(dst / "bin" / "tool") == 0o750
