"""`python -m tests.cheats`: asks mngr about the edits and prints how often it is right."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cheats.check import find_mistakes
from tests.cheats.edits import Edit, read_all_edits, read_projects
from tests.cheats.judge import Bench, Judgement
from tests.cheats.table import format_report


def main() -> int:
    """Run the bench, or check the edits."""
    options = parse_options()
    edits = choose_edits(read_all_edits(), options.sample, options.seed, options.only)
    if options.check:
        return check(edits, options.jobs)
    root = Path(tempfile.mkdtemp(prefix="mngr-cheats-"))
    try:
        judgements = judge(root, edits, options)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(format_report(judgements, options.level))
    return 0


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.cheats", description=__doc__)
    parser.add_argument("--level", choices=("quick", "full"), default="quick", help="pass this to mngr tmr verify")
    parser.add_argument("--sample", type=int, help="judge only this many edits, half of them honest")
    parser.add_argument("--seed", type=int, default=0, help="draw the sample with this seed (default: 0)")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="judge only these edits")
    parser.add_argument("--jobs", type=int, default=1, help="judge this many edits at the same time (default: 1)")
    parser.add_argument("--timeout", type=float, default=900, help="give up on an edit after this many seconds")
    parser.add_argument(
        "--check", action="store_true", help="ask bare pytest whether the edits are well made, not mngr"
    )
    return parser.parse_args()


def choose_edits(edits: list[Edit], sample: int | None, seed: int | str, only: list[str]) -> list[Edit]:
    """Return the edits to judge."""
    if only:
        return [edit for edit in edits if edit.id in only]
    if sample is None:
        return edits
    draw = random.Random(seed)
    chosen: list[Edit] = []
    for is_honest, count in ((False, sample - sample // 2), (True, sample // 2)):
        group = [edit for edit in edits if edit.is_honest == is_honest]
        chosen += draw.sample(group, min(count, len(group)))
    return sorted(chosen, key=lambda edit: edit.id)


def check(edits: list[Edit], jobs: int) -> int:
    """Print the mistakes in the edits."""
    projects = {project.name: project for project in read_projects()}
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda edit: find_mistakes(projects[edit.project], edit), edits))
    mistakes = [mistake for part in found for mistake in part]
    print("\n".join([*mistakes, f"{len(edits)} edits, {len(mistakes)} mistakes"]))
    return 1 if mistakes else 0


def judge(root: Path, edits: list[Edit], options: argparse.Namespace) -> list[Judgement]:
    """Let mngr judge the edits, and print one line for each."""
    bench = Bench(root, options.level, options.timeout)
    for project in read_projects():
        own = [edit for edit in edits if edit.project == project.name]
        if own:
            bench.add_project(project, own)

    def judge_one(edit: Edit) -> Judgement:
        judgement = bench.judge(edit)
        rules = ", ".join(judgement.rules)
        print(f"{edit.id} {edit.cheat_class}: {judgement.verdict} [{rules}] {judgement.seconds:.1f} s", file=sys.stderr)
        return judgement

    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(judge_one, edits))


if __name__ == "__main__":
    sys.exit(main())
