"""Read and write the file pantry.json: each item by its name."""

from __future__ import annotations

import json
import os
import random

NAME = "pantry.json"


class PantryError(Exception):
    """An action is impossible; the text explains why to the person."""


def create() -> None:
    if os.path.exists(NAME):
        raise PantryError(f"{NAME} is here already")
    save({})


def load() -> dict[str, dict]:
    try:
        with open(NAME, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        raise PantryError("there is no pantry here; make one with `pantry init`") from None


def save(things: dict[str, dict]) -> None:
    with open(NAME, "w", encoding="utf-8") as file:
        json.dump(things, file, indent=1, sort_keys=True)
        file.write("\n")


def get(things: dict[str, dict], item: str) -> dict:
    if item not in things:
        raise PantryError(f"there is no {item}")
    return things[item]


def ordered(things: dict[str, dict], by: str) -> list[str]:
    """Return the names in the requested order; by amount, the largest amount comes first."""
    if by == "amount":
        return sorted(things, key=lambda item: str(things[item]["amount"]), reverse=True)
    return sorted(things)


def any_of(things: dict[str, dict]) -> str:
    if not things:
        raise PantryError("the pantry is empty")
    return random.choice(sorted(things))
