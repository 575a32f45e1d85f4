"""``rmq_trigger``: checks what is declared and gives back what is decorated.

Nothing here talks to RabbitMQ or Airflow, and Airflow is not imported: its objects are recognised by where their classes
and functions come from, which is the same in Airflow 2.9 to 3.x.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, TypeVar, cast

from airflow_rmq_watcher import _arguments

_Target = TypeVar("_Target")

# On a DAG object: the exchange that an @rmq_trigger subscribed it to.
_EXCHANGE_MARK = "_rmq_trigger_exchange"

# Where the functions that @dag makes are defined: Airflow 2 and 3.
_FACTORY_MODULES = ("airflow.models.dag", "airflow.sdk.definitions.dag")

_ORDER_HINT = (
    "@rmq_trigger has to stand above @dag(...), as the outermost of the two, "
    "or be called with a DAG object: rmq_trigger(...)(dag)"
)


def rmq_trigger(
    queue: str | None = None,
    queues: list[str] | None = None,
    conn_id: str = "rmq_default",
    filter_data: dict[str, Any] | None = None,
    cooldown: int = 0,
    *,
    exchange: str | None = None,
    routing_keys: list[str] | None = None,
    routing_key_ids: list[str] | None = None,
    routing_key_status: str | list[str] = "*",
    ack_unmatched: bool = False,
    max_concurrent_runs: int | None = None,
    on_paused: str | None = None,
    on_missing: str | None = None,
    on_unreadable: str | None = None,
    on_budget: str | None = None,
    on_id_collision: str | None = None,
    dedup_key: str | None = None,
    cooldown_edge: str | None = None,
    cooldown_key: str | None = None,
    ack_deadline_override: int | None = None,
    inputs: dict[str, Any] | None = None,
    ack_on: str | None = None,
) -> Callable[[_Target], _Target]:
    """Declare that messages start the decorated DAG.

    Exactly one of ``queue``, ``queues`` and ``exchange`` names where the messages come from; ``conn_id`` is the Airflow
    connection to RabbitMQ. The watcher reads the file without executing it, so write each argument out, or as a constant of
    this file or of another file in the DAG folder.

    :param queue: consume this queue.
    :param queues: consume each of these queues.
    :param filter_data: which messages match.
    :param cooldown: seconds during which further messages start nothing; 0 is off.
    :param exchange: consume a queue of the watcher's own, bound to this topic exchange.
    :param routing_keys: the binding keys for ``exchange``.
    :param routing_key_ids: binding keys ``id.status`` for ``exchange``, one for each id and status.
    :param routing_key_status: the statuses for ``routing_key_ids``.
    :param ack_unmatched: acknowledge, and so delete, messages that do not match.

    What the other options mean, and their defaults, is the watcher's documentation; ``None`` is the default of each.

    :raises ValueError: an argument that cannot be meant, when this is called.
    :raises TypeError: what is decorated is neither a ``@dag(...)`` function nor a DAG.
    """
    if callable(queue):
        raise TypeError("@rmq_trigger needs its arguments: write @rmq_trigger(queue=\"...\").")
    _arguments.check_source(queue, queues, exchange)
    _arguments.check_conn_id(conn_id)
    _arguments.check_filter(filter_data)
    _arguments.check_cooldown(cooldown)
    _arguments.check_bool("ack_unmatched", ack_unmatched)
    if exchange is not None:
        _arguments.check_routing(routing_keys, routing_key_ids, routing_key_status)
    _arguments.check_alone(
        cooldown,
        exchange,
        routing_keys=routing_keys,
        routing_key_ids=routing_key_ids,
        routing_key_status=routing_key_status,
        cooldown_edge=cooldown_edge,
        cooldown_key=cooldown_key,
    )
    _arguments.check_options(
        max_concurrent_runs=max_concurrent_runs,
        on_paused=on_paused,
        on_missing=on_missing,
        on_unreadable=on_unreadable,
        on_budget=on_budget,
        on_id_collision=on_id_collision,
        dedup_key=dedup_key,
        cooldown_edge=cooldown_edge,
        cooldown_key=cooldown_key,
        ack_deadline_override=ack_deadline_override,
        inputs=inputs,
        ack_on=ack_on,
    )

    def accept(dag: Any) -> None:
        _arguments.check_dag_id(dag.dag_id, exchange, cooldown, cooldown_edge)
        _mark(dag, exchange)

    def decorate(target: _Target) -> _Target:
        if _is_dag(target):
            accept(target)
            return target
        if not callable(target) or isinstance(target, type):
            raise TypeError(f"@rmq_trigger decorates {_name(target)!r}: {_ORDER_HINT}.")
        if _is_factory(target):
            # The DAG does not exist before the call; only its exchange and its id have to be looked at then.
            return target if exchange is None and cooldown == 0 else _checked(target, accept)
        if _may_hide_a_factory(target):
            return _checked(target, accept)
        raise TypeError(f"@rmq_trigger decorates the plain function {_name(target)!r}: {_ORDER_HINT}.")

    return decorate


def _checked(factory: _Target, accept: Callable[[Any], None]) -> _Target:
    """The factory, with a look at what each call returns."""

    call: Any = factory

    @functools.wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        dag = call(*args, **kwargs)
        if not _is_dag(dag):
            raise TypeError(
                f"{_name(factory)!r} under @rmq_trigger returned {type(dag).__name__!r} and not a DAG: {_ORDER_HINT}."
            )
        # Airflow takes the file of whoever calls the factory for the DAG's file, and here that is this module.
        if getattr(dag, "fileloc", None) == __file__:
            dag.fileloc = sys._getframe(1).f_code.co_filename
        accept(dag)
        return dag

    return cast(_Target, checked)


def _mark(dag: Any, exchange: str | None) -> None:
    """Remember the DAG's exchange; a second one is an error, because a DAG has one queue for exchanges."""
    if exchange is None:
        return
    first = getattr(dag, _EXCHANGE_MARK, None)
    if first is not None:
        raise ValueError(
            f"DAG {dag.dag_id!r} has two @rmq_trigger(exchange=...) ({first!r} and {exchange!r}), which would share the "
            f"one queue 'rmq_watcher.sub.{dag.dag_id}'. Use one decorator with the routing keys of both, or one DAG per "
            "exchange."
        )
    setattr(dag, _EXCHANGE_MARK, exchange)


def _is_dag(target: Any) -> bool:
    return any(cls.__name__ == "DAG" and cls.__module__.startswith("airflow.") for cls in type(target).__mro__)


def _is_factory(target: Any) -> bool:
    """Whether a function made by Airflow's ``@dag`` is found in it, through decorators that keep what they wrap."""
    return any(getattr(layer, "__globals__", {}).get("__name__") in _FACTORY_MODULES for layer in _layers(target))


def _may_hide_a_factory(target: Any) -> bool:
    """Whether it may call a ``@dag`` function out of sight: anything but a function that has nothing to call."""
    innermost = _layers(target)[-1]
    code = getattr(innermost, "__code__", None)
    return code is None or innermost is not target or bool(getattr(innermost, "__closure__", None))


def _layers(target: Any) -> list[Any]:
    """The callable and what it wraps, outermost first."""
    layers = [target]
    while len(layers) < 100:
        inner = layers[-1]
        following = getattr(inner, "__wrapped__", None) or getattr(inner, "__func__", None)
        if following is None and isinstance(inner, functools.partial):
            following = inner.func
        if following is None:
            break
        layers.append(following)
    return layers


def _name(target: Any) -> str:
    return getattr(target, "__qualname__", None) or type(target).__qualname__
