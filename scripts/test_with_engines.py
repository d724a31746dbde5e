"""Runs pytest with the given arguments, and runs the tests that failed once more, one at a time.

Many tests run at the same time, beside clusters, containers, coding agents and browsers. A test that fails beside others
and passes alone is flaky: this script names it and succeeds. A test that fails twice is broken, and the script fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

MAX_FLAKY = 3  # With more failures than this, something is broken.


def main(arguments: list[str]) -> int:
    """Run the tests, and run failed ones again. Return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        failed_file = Path(folder) / "failed"
        code = run_pytest(arguments, failed_file)
        failed = failed_file.read_text().splitlines() if failed_file.exists() else []
        if code != 1 or not 0 < len(failed) <= MAX_FLAKY:
            return code
        print(f"running {len(failed)} failed test(s) once more, alone", flush=True)
        if run_pytest([*arguments, "-n", "0", *failed], failed_file) != 0:
            return 1
    for test in failed:
        print(f"FLAKY: {test} failed beside other tests and passed alone", flush=True)
    return 0


def run_pytest(arguments: list[str], failed_file: Path) -> int:
    """Run pytest, let it write the ids of failed tests to the file, and return its exit code."""
    env = {**os.environ, "MNGR_FAILED_TESTS": str(failed_file)}
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
