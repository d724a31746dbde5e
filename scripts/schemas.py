"""Derives the JSON Schemas in docs/reference/schemas from the classes that read and write the documents."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from mngr.agents.inspect.events import AgentEvent
from mngr.base.model import STATES, AgentView, Struct
from mngr.tmr.verify import claim, receipt
from mngr.tmr.verify.experiments import experiment

NAMES = {"Any": Any, "Mapping": Mapping}  # modules on the start-up path import these only for type checkers
SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
RESULT = "`$MNGR_OUTPUT_DIR/result.json`: what an agent claims about its task. mngr rejects unknown fields."
RECEIPT = "`receipt.json`: what mngr saw when it re-ran a claim in a clean room."
AGENT = "One agent in the output of `mngr list --json`, `mngr create --json` and `mngr clone --json`."
EVENT = "One row in the output of `mngr events --format jsonl`."

# The documents by file name: class, description, choices of fields.
DOCUMENTS: dict[str, tuple[type[Struct], str, dict[str, tuple[str, ...]]]] = {
    "result": (
        claim.AgentClaim,
        RESULT,
        {
            "outcome": claim.OUTCOMES,
            "before": claim.VERDICTS,
            "after": claim.VERDICTS,
            "changes.kind": claim.CHANGE_KINDS,
            "escalations.kind": claim.ESCALATION_KINDS,
        },
    ),
    "receipt": (
        receipt.Receipt,
        RECEIPT,
        {"verdict": receipt.VERDICTS, "level": ("quick", "full"), "experiments.outcome": experiment.OUTCOMES},
    ),
    "agent": (AgentView, AGENT, {"state": STATES}),
    "event": (AgentEvent, EVENT, {}),
}

DESCRIPTIONS = {
    "result": {
        "v": "version of the format, 1",
        "task": "id of the task, as in the prompt",
        "outcome": "how the task ended",
        "before": "result of the test before the agent changed anything",
        "after": "result of the test after the last change",
        "summary": "what the agent did, in Markdown",
        "changes": "the changes, each with its kind and its commits",
        "escalations": "problems that somebody else must solve",
        "runs": "runs of the test that the agent points out",
    },
    "receipt": {
        "v": "version of the format, 1",
        "test": "the test that mngr ran",
        "verdict": "what mngr decided",
        "reason": "one sentence about the verdict",
        "commit": "the claimed commit",
        "base": "the commit that the agent started from",
        "tree": "hash of the files at the claimed commit",
        "level": "how deeply mngr checked the claim",
        "command": "the command that runs the test",
        "runs": "how often mngr ran the test",
        "results": "how each run ended",
        "affected_tests": "how the runs of affected tests ended",
        "rate": "share of failed runs of a flaky test",
        "imported_from": "where the code under test was imported from",
        "policy": "findings about the touched files",
        "guard": "findings about weakened tests",
        "findings": "all other findings",
        "proofs": "for each fix: whether the test fails without it",
        "experiments": "what mngr tried with the claim, and what it saw",
        "isolation": "how the clean room was isolated",
        "environment": "versions of Python, pytest and the packages",
        "hashes": "hashes of tree, command, environment, transcript and recording",
        "rerun": "what `mngr tmr verify --receipt` needs to repeat the verification",
        "seed": "the seed that decided the order of the runs",
        "seconds": "total time of all runs",
    },
    "agent": {
        "id": "id of the agent, which never changes",
        "name": "name of the agent, unique in its home",
        "kind": "kind of the agent, for example claude",
        "state": "what the agent is doing now",
        "state_reason": "the reason for the state, for example end_of_turn",
        "state_source": "the evidence that decided the state",
        "state_since": "when the state began",
        "parked_until": "when a parked agent can continue",
        "host": "host of the agent",
        "provider": "provider of the host",
        "host_state": "state of the host",
        "project": "name of the project",
        "work_dir": "directory with the agent's copy of the project",
        "branch": "branch of the agent",
        "base": "commit that the agent started from",
        "created_at": "when the agent was created",
        "activity_at": "last activity of the agent",
        "labels": "labels of the agent",
        "pid": "process id of the program",
        "exit_code": "exit code of the program, after it has ended",
        "usage": "tokens and cost",
        "unpulled": "commits that you have not pulled; null unless you ask with --git",
        "dirty": "whether the work dir has uncommitted changes; null unless you ask with --git",
    },
    "event": {
        "v": "version of the format, 1",
        "at": "time of the event",
        "agent": "id of the agent",
        "name": "name of the agent",
        "type": "type of the event, for example created, message or turn_end",
        "source": "who recorded the event",
        "data": "details, which depend on the type",
    },
}


def derive_type(hint: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in SIMPLE:
        return {"type": SIMPLE[hint]}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [derive_type(argument) for argument in arguments]}
    if origin in (list, tuple):
        return {"type": "array", "items": derive_type(arguments[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": derive_type(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, Struct):
        return derive_class(hint)
    return {}


def derive_class(struct: type[Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a class with typed fields."""
    hints = typing.get_type_hints(struct, localns=NAMES)
    return {
        "type": "object",
        "properties": {name: derive_type(hints[name]) for name in struct._fields},
        "required": list(struct._fields),
    }


def restrict(schema: dict[str, Any], field: str, choices: tuple[str, ...]) -> None:
    """Allow only these values for a field. A dot leads into the entries of a list."""
    name, _, rest = field.partition(".")
    if rest:
        restrict(schema["properties"][name]["items"], rest, choices)
    else:
        schema["properties"][name]["enum"] = list(choices)


def allow_missing_fields(schema: dict[str, Any], struct: type[Struct]) -> None:
    """Require only the fields without a default, and reject unknown fields, in a class and in the classes of its lists."""
    schema["required"] = [name for name in struct._fields if name not in struct._defaults]
    schema["additionalProperties"] = False
    for name, hint in typing.get_type_hints(struct, localns=NAMES).items():
        for argument in typing.get_args(hint):
            if isinstance(argument, type) and issubclass(argument, Struct):
                allow_missing_fields(schema["properties"][name]["items"], argument)


def derive_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document."""
    struct, description, choices = DOCUMENTS[name]
    schema = derive_class(struct)
    for field, values in choices.items():
        restrict(schema, field, values)
    for field, text in DESCRIPTIONS[name].items():
        schema["properties"][field]["description"] = text
    if name == "result":  # An agent writes it and may leave out empty lists. mngr writes the others completely.
        allow_missing_fields(schema, struct)
        schema["required"] = ["v", *schema["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": description,
        **schema,
    }
