"""What may stand in the arguments of ``rmq_trigger``. Every refusal is a ``ValueError`` that names the argument."""

from __future__ import annotations

import math
import re
from typing import Any

# The longest name that AMQP 0-9-1 carries, in bytes.
_SHORT_STRING_MAX = 255

# What is made beside an exchange has its name and one of these behind it.
_LONGEST_BESIDE_EXCHANGE = ".unrouted"

# The longest timer that RabbitMQ takes, in whole seconds.
_COOLDOWN_MAX = 4_294_967

_ACK_DEADLINE_MAX = 86_400

# The deepest value that the watcher keeps, in levels.
_DEPTH_MAX = 100

# What the names of a DAG's own queues begin with: the one for an exchange, and the one for a cooldown's timer.
_SUB_PREFIX = "rmq_watcher.sub."
_PENDING_PREFIX = "rmq_watcher.pending."

# Exchanges of this name are the watcher's own.
_RESERVED_PREFIX = "rmq_watcher."

# Airflow's own rule for connection ids.
_CONN_ID = re.compile(r"[\w#!()\-.:/\\]{1,250}")

_CHOICES = {
    "on_paused": ("drop", "hold", "run"),
    "on_missing": ("hold", "ack"),
    "on_unreadable": ("return", "dead_letter"),
    "on_budget": ("copy", "hold", "dead_letter"),
    "on_id_collision": ("merge", "run"),
    "cooldown_edge": ("trailing", "leading"),
    "ack_on": ("started", "finished"),
}

_KEYS = {
    "dedup_key": ("message_id", "header:", "body:"),
    "cooldown_key": ("message_id", "header:", "body:"),
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
        _check_name("'exchange'", exchange, _SHORT_STRING_MAX - len(_LONGEST_BESIDE_EXCHANGE))
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
    """A dict that JSON can hold; what it says is for the watcher to judge."""
    if filter_data is not None:
        _check_json_object("filter_data", filter_data)


def check_cooldown(cooldown: Any) -> None:
    """Whole seconds, 0 for none."""
    if not isinstance(cooldown, int) or isinstance(cooldown, bool):
        raise ValueError("'cooldown' must be an int, in seconds.")
    if cooldown < 0:
        raise ValueError("'cooldown' must be >= 0.")
    if cooldown > _COOLDOWN_MAX:
        raise ValueError(f"'cooldown' must be <= {_COOLDOWN_MAX}, which is RabbitMQ's longest timer.")


def check_bool(name: str, value: Any) -> None:
    """A bool and nothing that only looks like one."""
    if not isinstance(value, bool):
        raise ValueError(f"'{name}' must be a bool.")


def check_alone(cooldown: int, exchange: Any, **given: Any) -> None:
    """Arguments that mean something only together with another."""
    for name in ("routing_keys", "routing_key_ids", "routing_key_status"):
        is_given = given[name] != "*" if name == "routing_key_status" else given[name] is not None
        if exchange is None and is_given:
            raise ValueError(f"'{name}' means something only together with 'exchange'.")
    for name in ("cooldown_edge", "cooldown_key"):
        if cooldown == 0 and given[name] is not None:
            raise ValueError(f"'{name}' means something only together with a 'cooldown' above 0.")


def check_dag_id(dag_id: str, exchange: Any, cooldown: int, cooldown_edge: Any) -> None:
    """The watcher's own queues for the DAG need names that RabbitMQ can hold."""
    prefixes = []
    if exchange is not None:
        prefixes.append(_SUB_PREFIX)
    if cooldown > 0 and cooldown_edge != "leading":
        prefixes.append(_PENDING_PREFIX)
    for prefix in prefixes:
        if len((prefix + dag_id).encode("utf-8", "replace")) > _SHORT_STRING_MAX:
            limit = _SHORT_STRING_MAX - len(prefix)
            raise ValueError(f"The DAG id {dag_id!r} must be at most {limit} bytes long: a queue is called {prefix}{{dag_id}}.")


def check_routing(routing_keys: Any, routing_key_ids: Any, routing_key_status: Any) -> None:
    """At least one routing key must come out of it."""
    if not routing_keys and not routing_key_ids:
        raise ValueError("'exchange' needs at least one of 'routing_keys' and 'routing_key_ids'.")
    if routing_keys is not None:
        for key in _non_empty_list("routing_keys", routing_keys):
            _check_name("Each entry in 'routing_keys'", key)
    if isinstance(routing_key_status, str):
        statuses = [routing_key_status]
    elif isinstance(routing_key_status, list):
        statuses = routing_key_status
    else:
        raise ValueError("'routing_key_status' must be a string or a list of strings.")
    for status in statuses:
        _check_segment("routing_key_status", status)
    if routing_key_ids is None:
        return
    for identifier in _non_empty_list("routing_key_ids", routing_key_ids):
        _check_segment("routing_key_ids", identifier)
    for identifier in routing_key_ids:
        for status in statuses:
            _check_name("Each routing key", f"{identifier}.{status}")
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
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _ACK_DEADLINE_MAX:
                raise ValueError(f"'ack_deadline_override' must be an int from 1 to {_ACK_DEADLINE_MAX}, in seconds.")
        elif name == "inputs":
            _check_json_object(name, value)
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


def _check_json_object(argument: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"'{argument}' must be a dict.")
    _check_json(argument, value, 0)


def _check_json(where: str, value: Any, depth: int) -> None:
    """As strict as the watcher, which does not guess at what JSON has no form for."""
    if depth > _DEPTH_MAX:
        raise ValueError(f"'{where}' must not be nested deeper than {_DEPTH_MAX} levels.")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"'{where}' must have strings for keys, and one is {key!r}.")
            _check_text(where, key)
            _check_json(f"{where}[{key!r}]", item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            _check_json(f"{where}[{at}]", item, depth + 1)
    elif isinstance(value, str):
        _check_text(where, value)
    elif isinstance(value, bool) or value is None:
        pass
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise ValueError(f"'{where}' must be a whole number of at most 64 bits, and it is {value}.")
    elif not isinstance(value, float) or not math.isfinite(value):
        raise ValueError(f"'{where}' is {value!r}, and only what JSON can hold is possible.")


def _check_text(where: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"'{where}' must hold only text that can be encoded as UTF-8.") from None


def _check_name(what: str, name: Any, limit: int = _SHORT_STRING_MAX) -> None:
    if not isinstance(name, str):
        raise ValueError(f"{what} must be a string.")
    if name == "":
        raise ValueError(f"{what} must be a non-empty string.")
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise ValueError(f"{what} must be a text that can be encoded as UTF-8, and it is {name!r}.") from None
    if length > limit:
        raise ValueError(f"{what} must be at most {limit} bytes long, and it is {length}.")
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
