"""Which step of a script answers which request."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from mngr.base.errors import UsageError
from mngr.testkit.modelserver import ModelServer
from tests.testkit.modelserver.client import APIS, ask, get, hear, post, request


def get_answer(server: ModelServer, text: str = "hi", **more: object) -> str:
    return hear("anthropic", ask(server, text, **more), stream=False).text  # type: ignore[arg-type]


def test_every_session_plays_the_script_from_its_first_step() -> None:
    with ModelServer([{"text": "one"}, {"text": "two"}]) as server:
        assert [get_answer(server, session=name) for name in ("a", "a", "b", "a", "b")] == [
            "one",
            "two",
            "one",
            "ok",
            "two",
        ]
        assert (server.count_requests("a"), server.count_requests("b"), server.count_requests("c")) == (
            [1, 1],
            [1, 1],
            [0, 0],
        )


def test_a_session_can_have_its_own_steps() -> None:
    script = {"sessions": {"a": [{"text": "mine"}]}, "steps": [{"text": "anybody's"}]}
    with ModelServer(json.dumps(script)) as server:
        assert (get_answer(server, session="a"), get_answer(server, session="b")) == ("mine", "anybody's")
        server.set_script("a", [{"text": "new"}])
        assert get_answer(server, session="a") == "new"
        server.reset("a")
        assert get_answer(server, session="a") == "mine"
        with pytest.raises(UsageError, match="step 1"):
            server.set_script("a", [{"test": "new"}])


@pytest.mark.parametrize("api", APIS)
def test_a_script_in_the_prompt_continues_by_the_number_of_answers(api: str) -> None:
    prompt = 'please <fake>[{"text": "one"},\n  {"text": "two"}]</fake> now'
    with ModelServer([{"text": "not this"}]) as server:
        for _ in range(2):  # a repeated request gets the same answer
            for turns, text in (
                ([], "one"),
                ([("assistant", "one"), ("user", "and?")], "two"),
                ([("assistant", "one"), ("user", "and?"), ("assistant", "two"), ("user", "and?")], "ok"),
            ):
                assert hear(api, ask(server, prompt, api=api, turns=turns), stream=False).text == text
        later = [("assistant", "one"), ("user", '<fake>[{"text": "another"}]</fake>')]
        assert hear(api, ask(server, prompt, api=api, turns=later), stream=False).text == "another"
        assert server.count_requests("foo") == [0]


def test_several_parts_of_one_answer_count_as_one() -> None:
    path, body = request(
        "responses", [("user", '<fake>[{"text": "one"}, {"text": "two"}]</fake>')], {"exec": {}}, False
    )
    body["input"] += [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "one"}]},
        {"type": "function_call", "name": "exec", "arguments": "{}"},
        {"type": "function_call_output", "output": "<fake>[]</fake>"},
    ]
    with ModelServer() as server:
        assert hear("responses", post(server, path, body), stream=False).text == "two"


def test_a_prompt_can_name_a_script() -> None:
    with ModelServer({"named": {"greet": [{"text": "good morning"}]}}) as server:
        assert get_answer(server, "do fake-script:greet please") == "good morning"
        server.set_named_script("greet", [{"text": "good evening"}])
        assert get_answer(server, "do fake-script:greet please") == "good evening"
        answer = ask(server, "do fake-script:nothing")
        assert answer.status == 400 and "no script named 'nothing'" in answer.json()["error"]["message"]


def test_a_quoted_script_in_the_prompt_is_read() -> None:
    with ModelServer() as server:
        assert get_answer(server, r'"<fake>[{\"text\": \"quoted\"}]</fake>"') == "quoted"


@pytest.mark.parametrize("script", ["[", '[{"txt": "a"}]', '{"text": "a"}', '[{"fail": {}}]', "[" * 5000])
@pytest.mark.parametrize("api", APIS)
def test_an_invalid_script_in_the_prompt_is_an_error(api: str, script: str) -> None:
    with ModelServer() as server:
        answer = ask(server, f"<fake>{script}</fake>", api=api)
        assert answer.status == 400
        assert "the script in the prompt is not valid: " in answer.json()["error"]["message"]
        assert [row["status"] for row in server.list_requests()] == [400]


def test_side_requests_use_up_no_step() -> None:
    with ModelServer([{"text": "the step"}]) as server:
        assert get_answer(server, tools={}, system="Write a title for this conversation") == "ok"
        assert get_answer(server, "Generate a concise title: <fake>[]</fake>", tools={}) == "ok"
        assert get_answer(server, max_tokens=1) == "ok"
        assert get_answer(server, tools={}) == "ok"
        schema = {
            "properties": {
                "isNew": {"type": "boolean"},
                "title": {"type": ["string", "null"]},
                "n": {"type": "integer"},
            }
        }
        text = get_answer(server, tools={}, output_config={"format": {"type": "json_schema", "schema": schema}})
        assert json.loads(text) == {"isNew": False, "title": "ok", "n": 1}
        assert {row["source"] for row in server.list_requests()} == {"aside"}
        assert get_answer(server) == "the step"


def test_requests_without_tools_use_steps_only_with_match_all() -> None:
    with ModelServer({"steps": [{"text": "one"}], "match": "all"}) as server:
        assert get_answer(server, tools={}) == "one"
        server.set_script("foo", [{"text": "two"}])
        assert get_answer(server, tools={}) == "ok"
        server.set_script("foo", [{"text": "three"}], match="all")
        assert get_answer(server, tools={}) == "three"
    with ModelServer() as server:
        assert get_answer(server, '<fake>[{"text": "inline"}]</fake>', tools={}) == "inline"


def test_twenty_parallel_sessions_each_get_their_steps_in_order() -> None:
    steps = [{"text": f"step {n}"} for n in range(10)]
    heard: dict[str, list[str]] = {}
    with ModelServer(steps) as server:

        def client(name: str) -> None:
            heard[name] = [get_answer(server, session=name) for _ in steps]

        threads = [threading.Thread(target=client, args=(f"agent-{n}",)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert heard == {f"agent-{n}": [step["text"] for step in steps] for n in range(20)}
        assert len(server.list_requests()) == 200
        assert sorted(row["n"] for row in server.list_requests()) == list(range(200))


def test_parallel_requests_of_one_session_use_each_step_once() -> None:
    steps = [{"text": f"step {n}", "delay": 0.01} for n in range(20)]
    heard: list[str] = []
    with ModelServer(steps) as server:
        threads = [threading.Thread(target=lambda: heard.append(get_answer(server))) for _ in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(heard) == sorted(f"step {n}" for n in range(20))


def test_scripts_can_be_set_and_reset_over_http(tmp_path: Path) -> None:
    with ModelServer() as server:
        assert post(server, "/_script", {"session": "foo", "steps": [{"text": "one"}, {"text": "two"}]}).status == 200
        assert post(server, "/_named", {"name": "n", "steps": [{"text": "three"}]}).status == 200
        assert (get_answer(server), get_answer(server, "fake-script:n")) == ("one", "three")
        assert get(server, "/_asked?session=foo").json() == {"asked": [1, 0]}
        rows = get(server, "/_log?session=foo&since=1").json()["requests"]
        assert [(row["n"], row["source"]) for row in rows] == [(1, "named")]
        assert get(server, "/_health").json() == {"ok": True, "requests": 2, "trouble": None}
        wrong = post(server, "/_script", {"session": "foo", "steps": [{"text": "one"}, {"txt": "two"}]})
        assert wrong.status == 400 and "step 2: unknown key 'txt'" in wrong.json()["error"]["message"]
        assert post(server, "/_script", {"session": 3, "steps": []}).status == 400
        assert get_answer(server) == "two"
        assert post(server, "/_reset", {"session": "foo"}).status == 200
        assert (get_answer(server), get(server, "/_asked?session=foo").json()) == ("ok", {"asked": []})
        assert post(server, "/_reset", {}).status == 200
        assert server.list_requests() == []
