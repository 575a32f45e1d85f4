"""What may stand in the arguments of ``rmq_trigger``. Every refusal is a ``ValueError`` that names the argument."""

from __future__ import annotations

import re
from typing import Any

# The longest name that AMQP 0-9-1 carries, in bytes.
_SHORT_STRING_MAX = 255

# Exchanges of this name are the watcher's own.
_RESERVED_PREFIX = "rmq_watcher."

# Airflow's own rule for connection ids.
_CONN_ID = re.compile(r"[\w#!()\-.:/\\]{1,250}")

_CHOICES = {
    "on_paused": ("drop", "hold", "run"),
    "on_missing": ("hold", "ack"),
    "on_unreadable": ("return", "dead_letter"),
    "on_budget": ("copy", "hold", "dead_letter"),
    "on_id_collision": ("duplicate", "run"),
    "cooldown_edge": ("trailing", "leading"),
    "ack_on": ("started", "finished"),
}

_KEYS = {
    "dedup_key": ("message_id", "header:", "body:"),
    "cooldown_key": ("header:", "body:"),
}


def check_source(queue: Any, queues: Any, exchange: Any) -> None:
    """One of the three, and a name that RabbitMQ can have."""
    if sum(given is not None for given in (queue, queues, exchange)) != 1:
        raise ValueError("Specify exactly one of 'queue', 'queues' and 'exchange'.")
    if queue is not None:
        _check_name("'queue'", queue)
    if queues is not None:
        for name in _non_empty_list("queues", queues):
            _check_name("Each entry in 'queues'", name)
    if exchange is not None:
        _check_name("'exchange'", exchange)
        if exchange.startswith(_RESERVED_PREFIX):
            raise ValueError(f"'exchange' must not start with {_RESERVED_PREFIX!r}: those are the watcher's own.")


def check_conn_id(conn_id: Any) -> None:
    """An id that Airflow can store."""
    if not isinstance(conn_id, str):
        raise ValueError("'conn_id' must be a string.")
    if not _CONN_ID.fullmatch(conn_id):
        raise ValueError(
            f"'conn_id' must be 1 to 250 letters, digits or any of _ # ! ( ) - . : / \\, and it is {conn_id!r}."
        )


def check_filter(filter_data: Any) -> None:
    """A dict; what it says is for the watcher to judge."""
    if filter_data is not None and not isinstance(filter_data, dict):
        raise ValueError("'filter_data' must be a dict.")


def check_cooldown(cooldown: Any) -> None:
    """Whole seconds, 0 for none."""
    if not isinstance(cooldown, int) or isinstance(cooldown, bool):
        raise ValueError("'cooldown' must be an int, in seconds.")
    if cooldown < 0:
        raise ValueError("'cooldown' must be >= 0.")


def check_bool(name: str, value: Any) -> None:
    """A bool and nothing that only looks like one."""
    if not isinstance(value, bool):
        raise ValueError(f"'{name}' must be a bool.")


def check_routing(routing_keys: Any, routing_key_ids: Any, routing_key_status: Any) -> None:
    """At least one routing key must come out of it."""
    if not routing_keys and not routing_key_ids:
        raise ValueError("'exchange' needs at least one of 'routing_keys' and 'routing_key_ids'.")
    if routing_keys is not None:
        for key in _non_empty_list("routing_keys", routing_keys):
            _check_name("Each entry in 'routing_keys'", key)
    if routing_key_ids is None:
        return
    if isinstance(routing_key_status, str):
        statuses = [routing_key_status]
    elif isinstance(routing_key_status, list):
        statuses = routing_key_status
    else:
        raise ValueError("'routing_key_status' must be a string or a list of strings.")
    for identifier in _non_empty_list("routing_key_ids", routing_key_ids):
        _check_segment("routing_key_ids", identifier)
    for status in statuses:
        _check_segment("routing_key_status", status)
    if not statuses and not routing_keys:
        raise ValueError("'routing_key_status' must not be an empty list: no routing key is left.")


def check_options(**options: Any) -> None:
    """The watcher's own options. ``None`` leaves each at the watcher's default."""
    for name, value in options.items():
        if value is None:
            continue
        if name in _CHOICES:
            _check_choice(name, value, _CHOICES[name])
        elif name in _KEYS:
            _check_key(name, value, _KEYS[name])
        elif name == "max_concurrent_runs":
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 16:
                raise ValueError("'max_concurrent_runs' must be an int from 1 to 16.")
        elif name == "ack_deadline_override":
            check_bool(name, value)
        elif name == "inputs":
            if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
                raise ValueError("'inputs' must be a dict with strings for keys.")
        else:
            raise AssertionError(f"no rule for the option {name!r}")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"'{name}' must be one of {', '.join(map(repr, choices))}, and it is {value!r}.")


def _check_key(name: str, value: Any, forms: tuple[str, ...]) -> None:
    for form in forms:
        if value == form and not form.endswith(":"):
            return
        if isinstance(value, str) and form.endswith(":") and value.startswith(form) and len(value) > len(form):
            return
    shown = ", ".join(repr({"header:": "header:NAME", "body:": "body:PATH"}.get(form, form)) for form in forms)
    raise ValueError(f"'{name}' must be one of the forms {shown}, and it is {value!r}.")


def _check_name(what: str, name: Any) -> None:
    if not isinstance(name, str):
        raise ValueError(f"{what} must be a string.")
    if name == "":
        raise ValueError(f"{what} must be a non-empty string.")
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise ValueError(f"{what} must be a text that can be encoded as UTF-8, and it is {name!r}.") from None
    if length > _SHORT_STRING_MAX:
        raise ValueError(f"{what} must be at most {_SHORT_STRING_MAX} bytes long, and it is {length}.")
    if "\0" in name:
        raise ValueError(f"{what} must not hold a NUL character.")


def _check_segment(argument: str, segment: Any) -> None:
    _check_name(f"Each entry in '{argument}'", segment)
    if "." in segment:
        raise ValueError(
            f"'{argument}' entry {segment!r} must not contain '.': it is one of the two parts of a routing key."
        )


def _non_empty_list(argument: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"'{argument}' must be a list of strings.")
    if not value:
        raise ValueError(f"'{argument}' must not be an empty list.")
    return value
