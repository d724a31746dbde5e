"""The command `pantry`: parse the command line, act, and print the outcome."""

from __future__ import annotations

import argparse
import csv
import difflib
import sys

from pantry import VERSION, amounts, store

RENAMED = {"--order": "--sort", "--place": "--shelf"}


def main() -> int:
    """Run a command and return the exit code."""
    parser = make_parser()
    args, rest = parser.parse_known_args()
    if rest:
        return complain(args, rest[0])
    try:
        args.action(args)
    except store.PantryError as error:
        print(f"pantry: {error}", file=sys.stderr)
        return 1
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pantry", description="what is in the pantry", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"pantry {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, action, *words: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=action.__doc__, allow_abbrev=False)
        made.set_defaults(action=action, parser=made)
        for word in words:
            made.add_argument(word)
        return made

    command("init", init)
    adding = command("add", add, "item")
    adding.add_argument("--amount", default="1")
    adding.add_argument("--unit", default="")
    adding.add_argument("--shelf", default="middle")
    command("take", take, "item").add_argument("--amount", default="1")
    listing = command("list", show_list)
    listing.add_argument("--sort", choices=["item", "amount"], default="item")
    listing.add_argument("--shelf")
    listing.add_argument("--format", choices=["table", "csv"], default="table")
    command("find", find, "text")
    command("low", low).add_argument("--below", type=int, default=3)
    command("move", move, "item", "shelf")
    command("rename", rename, "item", "name")
    command("forget", forget, "item")
    command("export", export, "file")
    command("count", count)
    command("suggest", suggest)
    return parser


def complain(args: argparse.Namespace, word: str) -> int:
    """Print that an option is unknown, and suggest a similar one."""
    known = [option for action in args.parser._actions for option in action.option_strings]
    near = RENAMED.get(word) or next(iter(difflib.get_close_matches(word, known, 1)), None)
    hint = f"; did you mean {near}?" if near in known else ""
    print(f"pantry {args.command}: there is no option {word}{hint}", file=sys.stderr)
    return 2


def init(args: argparse.Namespace) -> None:
    """make an empty pantry here"""
    store.create()
    print(f"made {store.NAME}")


def add(args: argparse.Namespace) -> None:
    """put something in"""
    things = store.load()
    more = amounts.parse(args.amount)
    old = things.get(args.item, {"amount": 0, "unit": args.unit, "shelf": args.shelf})
    things[args.item] = {**old, "amount": old["amount"] + more}
    store.save(things)
    print(f"added {args.item} to the pantry")
    print(f"{args.item}: {amounts.show(old['amount'] + more, old['unit'])}")


def take(args: argparse.Namespace) -> None:
    """take something out"""
    things = store.load()
    thing = store.get(things, args.item)
    less = amounts.parse(args.amount)
    if less > thing["amount"]:
        raise store.PantryError(f"there is only {amounts.show(thing['amount'], thing['unit'])} of {args.item}")
    thing["amount"] -= less
    store.save(things)
    print(f"{args.item}: {amounts.show(thing['amount'], thing['unit'])} left")


def show_list(args: argparse.Namespace) -> None:
    """what there is"""
    things = store.load()
    rows = [
        [item, amounts.show(things[item]["amount"], things[item]["unit"]), things[item]["shelf"]]
        for item in store.ordered(things, args.sort)
        if args.shelf in (None, things[item]["shelf"])
    ]
    if args.format == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows([["item", "amount", "shelf"], *rows])
        return
    rows.insert(0, ["ITEM", "AMOUNT", "SHELF"])
    widths = [max(len(row[at]) for row in rows) for at in range(3)]
    for row in rows:
        print("  ".join(row[at].ljust(widths[at]) for at in range(3)).rstrip())


def find(args: argparse.Namespace) -> None:
    """what has this in its name"""
    things = store.load()
    found = [item for item in sorted(things) if args.text in item]
    if not found:
        raise store.PantryError(f"nothing is called {args.text}")
    for item in found:
        print(f"{item} is on the {things[item]['shelf']} shelf")


def low(args: argparse.Namespace) -> None:
    """what runs low"""
    things = store.load()
    found = [item for item in sorted(things) if things[item]["amount"] <= args.below]
    print(f"{len(found)} things run low: {', '.join(found)}")


def move(args: argparse.Namespace) -> None:
    """put something on another shelf"""
    things = store.load()
    thing = store.get(things, args.item)
    print(f"{args.item} was on the {thing['shelf']} shelf")
    thing["shelf"] = args.shelf
    store.save(things)
    print(f"{args.item} is on the {args.shelf} shelf")


def rename(args: argparse.Namespace) -> None:
    """call something by another name"""
    things = store.load()
    thing = store.get(things, args.item)
    del things[args.item]
    things[args.name] = thing
    store.save(things)
    print(f"{args.item} is called {args.name} now")


def forget(args: argparse.Namespace) -> None:
    """there never was such a thing"""
    things = store.load()
    store.get(things, args.item)
    del things[args.item]
    store.save(things)


def export(args: argparse.Namespace) -> None:
    """write it all to a file for a spreadsheet"""
    things = store.load()
    with open(args.file, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["item", "amount", "unit", "shelf"])
        for item in sorted(things):
            writer.writerow([item, *(things[item][key] for key in ("amount", "unit", "shelf"))])


def count(args: argparse.Namespace) -> None:
    """how many things there are"""
    print(f"{len(store.load())} things")


def suggest(args: argparse.Namespace) -> None:
    """what to cook with"""
    print(f"how about {store.any_of(store.load())}?")
