"""Which arguments are taken, and the errors of the others."""

import inspect

import pytest
from airflow_rmq_watcher import rmq_trigger

EXCHANGE = {"exchange": "events", "routing_keys": ["a.b"]}


@pytest.mark.parametrize(
    "arguments",
    [
        {"queue": "orders"},
        {"queue": "orders", "conn_id": "rmq_main", "cooldown": 300, "ack_unmatched": True},
        {"queue": "q" * 255},
        {"queue": "очередь"},
        {"queues": ["a", "b"]},
        {"queue": "a", "filter_data": {"filter_headers": {"event": "x"}}},
        {"queue": "a", "filter_data": None},
        EXCHANGE,
        {"exchange": "events", "routing_key_ids": ["1", "2"]},
        {"exchange": "events", "routing_key_ids": ["1"], "routing_key_status": "succeeded"},
        {"exchange": "events", "routing_key_ids": ["1"], "routing_key_status": ["a", "b"]},
        {"exchange": "events", "routing_keys": ["x.#"], "routing_key_ids": ["1"], "routing_key_status": []},
        {**EXCHANGE, "cooldown": 5},
        {"queue": "a", "max_concurrent_runs": 1},
        {"queue": "a", "max_concurrent_runs": 16},
        {"queue": "a", "on_paused": "drop"},
        {"queue": "a", "on_paused": "hold"},
        {"queue": "a", "on_paused": "run"},
        {"queue": "a", "on_missing": "ack"},
        {"queue": "a", "on_unreadable": "dead_letter"},
        {"queue": "a", "on_budget": "copy"},
        {"queue": "a", "on_id_collision": "run"},
        {"queue": "a", "dedup_key": "message_id"},
        {"queue": "a", "dedup_key": "header:x-id"},
        {"queue": "a", "dedup_key": "body:order.id"},
        {"queue": "a", "cooldown": 5, "cooldown_edge": "leading", "cooldown_key": "body:customer"},
        {"queue": "a", "ack_deadline_override": 1},
        {"queue": "a", "ack_deadline_override": 86400},
        {"queue": "a", "cooldown": 4294967},
        {"queue": "a", "on_id_collision": "merge"},
        {"queue": "a", "cooldown": 5, "cooldown_key": "message_id"},
        {"queue": "a", "filter_data": {"a": [1, 1.5, None, True, "x", (2, {})]}},
        {"queue": "a", "routing_key_status": "*"},
        {"queue": "a", "inputs": {"region": "eu"}},
        {"queue": "a", "ack_on": "finished"},
    ],
)
def test_arguments_that_can_be_meant_are_taken(arguments):
    assert callable(rmq_trigger(**arguments))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "exactly one of 'queue', 'queues' and 'exchange'"),
        ({"conn_id": "rmq_main"}, "exactly one of"),
        ({"queue": "a", "queues": ["b"]}, "exactly one of"),
        ({"queue": "a", **EXCHANGE}, "exactly one of"),
        ({"queue": 5}, "'queue' must be a string"),
        ({"queue": b"a"}, "'queue' must be a string"),
        ({"queue": ""}, "'queue' must be a non-empty string"),
        ({"queue": "ä" * 128}, "at most 255 bytes long, and it is 256"),
        ({"queue": "a\0b"}, "NUL"),
        ({"queue": "\ud800"}, "UTF-8"),
        ({"queues": ("a", "b")}, "'queues' must be a list of strings"),
        ({"queues": "ab"}, "'queues' must be a list of strings"),
        ({"queues": []}, "'queues' must not be an empty list"),
        ({"queues": ["a", ""]}, "Each entry in 'queues' must be a non-empty string"),
        ({"queues": ["a", 1]}, "Each entry in 'queues' must be a string"),
        ({"queue": "a", "conn_id": None}, "'conn_id' must be a string"),
        ({"queue": "a", "conn_id": ""}, "'conn_id' must be 1 to 250"),
        ({"queue": "a", "conn_id": "rmq main"}, "'conn_id' must be 1 to 250"),
        ({"queue": "a", "conn_id": "c" * 251}, "'conn_id' must be 1 to 250"),
        ({"queue": "a", "conn_id": "rmq\n"}, "'conn_id' must be 1 to 250"),
        ({"queue": "a", "cooldown": "300"}, "'cooldown' must be an int"),
        ({"queue": "a", "cooldown": True}, "'cooldown' must be an int"),
        ({"queue": "a", "cooldown": 1.5}, "'cooldown' must be an int"),
        ({"queue": "a", "cooldown": None}, "'cooldown' must be an int"),
        ({"queue": "a", "cooldown": -1}, "'cooldown' must be >= 0"),
        ({"queue": "a", "ack_unmatched": "yes"}, "'ack_unmatched' must be a bool"),
        ({"queue": "a", "ack_unmatched": 1}, "'ack_unmatched' must be a bool"),
        ({"queue": "a", "filter_data": "x"}, "'filter_data' must be a dict"),
        ({"exchange": "", "routing_keys": ["a"]}, "'exchange' must be a non-empty string"),
        ({"exchange": 1, "routing_keys": ["a"]}, "'exchange' must be a string"),
        ({"exchange": "rmq_watcher.fire", "routing_keys": ["a"]}, "'exchange' must not start with 'rmq_watcher.'"),
        ({"exchange": "events"}, "needs at least one of 'routing_keys' and 'routing_key_ids'"),
        ({"exchange": "events", "routing_keys": []}, "needs at least one of"),
        ({"exchange": "events", "routing_keys": ("a",)}, "'routing_keys' must be a list"),
        ({"exchange": "events", "routing_keys": [""]}, "Each entry in 'routing_keys'"),
        ({"exchange": "events", "routing_keys": ["a"], "routing_key_ids": []}, "'routing_key_ids' must not be an empty"),
        ({"exchange": "events", "routing_key_ids": ["a.b"]}, "'routing_key_ids' entry 'a.b' must not contain '.'"),
        ({"exchange": "events", "routing_key_ids": [1]}, "Each entry in 'routing_key_ids'"),
        (
            {"exchange": "events", "routing_key_ids": ["a"], "routing_key_status": "a.b"},
            "'routing_key_status' entry 'a.b' must not contain '.'",
        ),
        (
            {"exchange": "events", "routing_key_ids": ["a"], "routing_key_status": ("a",)},
            "'routing_key_status' must be a string or a list",
        ),
        (
            {"exchange": "events", "routing_key_ids": ["a"], "routing_key_status": [""]},
            "Each entry in 'routing_key_status'",
        ),
        ({"exchange": "events", "routing_key_ids": ["a"], "routing_key_status": []}, "must not be an empty list"),
        ({"queue": "a", "max_concurrent_runs": 0}, "from 1 to 16"),
        ({"queue": "a", "max_concurrent_runs": 17}, "from 1 to 16"),
        ({"queue": "a", "max_concurrent_runs": True}, "from 1 to 16"),
        ({"queue": "a", "on_paused": "ack"}, "'on_paused' must be one of 'drop', 'hold', 'run'"),
        ({"queue": "a", "on_missing": "drop"}, "'on_missing' must be one of"),
        ({"queue": "a", "on_unreadable": "x"}, "'on_unreadable' must be one of"),
        ({"queue": "a", "on_budget": []}, "'on_budget' must be one of"),
        ({"queue": "a", "on_id_collision": "x"}, "'on_id_collision' must be one of"),
        ({"queue": "a", "dedup_key": "header:"}, "'header:NAME', 'body:PATH'"),
        ({"queue": "a", "dedup_key": "id"}, "'message_id', 'header:NAME'"),
        ({"queue": "a", "dedup_key": 3}, "'dedup_key' must be one of the forms"),
        ({"queue": "a", "cooldown": 5, "cooldown_edge": "x"}, "'cooldown_edge' must be one of"),
        ({"queue": "a", "cooldown": 5, "cooldown_key": "id"}, "'cooldown_key' must be one of the forms"),
        ({"queue": "a", "ack_deadline_override": True}, "'ack_deadline_override' must be an int from 1"),
        ({"queue": "a", "ack_deadline_override": 0}, "'ack_deadline_override' must be an int from 1"),
        ({"queue": "a", "ack_deadline_override": 86401}, "'ack_deadline_override' must be an int from 1"),
        ({"queue": "a", "cooldown": 4294968}, "'cooldown' must be <= 4294967"),
        ({"queue": "a", "on_id_collision": "duplicate"}, "'on_id_collision' must be one of 'merge', 'run'"),
        ({"queue": "a", "routing_keys": ["a"]}, "'routing_keys' means something only together with 'exchange'"),
        ({"queue": "a", "routing_key_ids": ["a"]}, "'routing_key_ids' means something only"),
        ({"queue": "a", "routing_key_status": "a"}, "'routing_key_status' means something only"),
        ({"queue": "a", "cooldown_edge": "leading"}, "'cooldown_edge' means something only together with a 'cooldown'"),
        ({"queue": "a", "cooldown": 0, "cooldown_key": "body:a"}, "'cooldown_key' means something only"),
        ({"queue": "a", "filter_data": {"a": {1}}}, "'filter_data['a']' is {1}, and only what JSON"),
        ({"queue": "a", "filter_data": {"a": [b"x"]}}, "'filter_data['a'][0]' is b'x'"),
        ({"queue": "a", "filter_data": {"a": float("nan")}}, "only what JSON can hold"),
        ({"queue": "a", "filter_data": {"a": 2**64}}, "at most 64 bits"),
        ({"queue": "a", "filter_data": {"a": "\ud800"}}, "UTF-8"),
        ({"exchange": "e" * 247, "routing_keys": ["a"]}, "at most 246 bytes long"),
        ({"exchange": "events", "routing_key_ids": ["a" * 200], "routing_key_status": "b" * 100}, "at most 255 bytes"),
        ({"exchange": "events", "routing_keys": ["a"], "routing_key_status": None}, "must be a string or a list"),
        ({"queue": "a", "inputs": []}, "'inputs' must be a dict"),
        ({"queue": "a", "inputs": {1: 2}}, "'inputs' must have strings for keys"),
        ({"queue": "a", "ack_on": "x"}, "'ack_on' must be one of 'started', 'finished'"),
    ],
)
def test_arguments_that_cannot_be_meant_are_value_errors(arguments, text):
    with pytest.raises(ValueError) as raised:
        rmq_trigger(**arguments)
    assert text in str(raised.value)


def test_argument_unknown_is_a_type_error():
    with pytest.raises(TypeError, match="priority"):
        rmq_trigger(queue="a", priority=3)


def test_arguments_by_position_are_the_provider_s():
    positional = [
        name
        for name, parameter in inspect.signature(rmq_trigger).parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    assert positional == ["queue", "queues", "conn_id", "filter_data", "cooldown"]


def test_package_is_typed():
    from importlib.resources import files

    assert files("airflow_rmq_watcher").joinpath("py.typed").is_file()
