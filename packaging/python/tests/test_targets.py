"""What may stand below the decorator, and what it gives back."""

import functools
import inspect

import pytest
from airflow_rmq_watcher import rmq_trigger
from airflow_under_test import DAG, dag


def opaque(function):
    """A decorator that hides what it wraps."""

    def inner():
        return function()

    return inner


def test_factory_comes_back_as_it_is():
    @dag(dag_id="as_it_is", schedule=None)
    def build(size: int = 3):
        """What it is for."""

    decorated = rmq_trigger(queue="orders")(build)
    assert decorated is build
    made = decorated(size=4)
    assert made.dag_id == "as_it_is"
    assert isinstance(made, DAG)


def test_factory_with_exchange_keeps_its_identity_and_its_dag():
    returned = []

    @dag(dag_id="with_exchange", schedule=None)
    def build(size: int = 3):
        """What it is for."""

    @functools.wraps(build)
    def watched(*args, **kwargs):
        returned.append(build(*args, **kwargs))
        return returned[-1]

    decorated = rmq_trigger(exchange="events", routing_keys=["a"])(watched)
    assert decorated.__name__ == "build"
    assert decorated.__doc__ == "What it is for."
    assert inspect.signature(decorated) == inspect.signature(build)
    assert decorated(size=4) is returned[0]


def test_dag_object_comes_back_as_it_is():
    with DAG(dag_id="object", schedule=None) as made:
        pass
    assert rmq_trigger(queue="orders")(made) is made
    assert rmq_trigger(exchange="events", routing_keys=["a"])(made) is made


def test_subclass_of_dag_is_a_dag():
    class CompanyDag(DAG):
        pass

    made = CompanyDag(dag_id="company", schedule=None)
    assert rmq_trigger(queue="orders")(made) is made


def test_wrong_order_is_a_type_error_when_decorating():
    with pytest.raises(TypeError, match="above @dag"):

        @dag(dag_id="wrong_order", schedule=None)
        @rmq_trigger(queue="orders")
        def build():
            pass


def test_wrong_order_hidden_by_a_decorator_is_a_type_error_when_called():
    for decorator in (opaque, lambda function: functools.wraps(function)(opaque(function))):

        @dag(dag_id="wrong_order", schedule=None)
        @rmq_trigger(queue="orders")
        @decorator
        def build():
            pass

        with pytest.raises(TypeError, match="above @dag"):
            build()


@pytest.mark.parametrize("target", [None, 5, "dag", object(), int, DAG])
def test_target_that_is_no_dag_is_a_type_error(target):
    with pytest.raises(TypeError, match="above @dag"):
        rmq_trigger(queue="orders")(target)


def test_operator_is_no_dag():
    from airflow.models.baseoperator import BaseOperator

    with pytest.raises(TypeError, match="above @dag"):
        rmq_trigger(queue="orders")(BaseOperator(task_id="work"))


def test_decorator_without_arguments_is_a_type_error():
    with pytest.raises(TypeError, match="needs its arguments"):

        @rmq_trigger
        @dag(dag_id="no_arguments", schedule=None)
        def build():
            pass


def test_factory_behind_other_decorators_is_found():
    @opaque
    @dag(dag_id="behind", schedule=None)
    def hidden():
        pass

    @dag(dag_id="partial", schedule=None)
    def build(size: int):
        pass

    assert rmq_trigger(queue="orders")(hidden)().dag_id == "behind"
    assert rmq_trigger(queue="orders")(functools.partial(build, size=1))().dag_id == "partial"


def test_queues_may_be_stacked():
    @rmq_trigger(queue="orders")
    @rmq_trigger(queues=["payments", "refunds"])
    @rmq_trigger(exchange="events", routing_keys=["a"])
    @dag(dag_id="stacked", schedule=None)
    def build():
        pass

    assert build().dag_id == "stacked"
    assert build().dag_id == "stacked", "a second call makes a second DAG"


def test_exchanges_stacked_on_a_factory_are_a_value_error_when_called():
    @rmq_trigger(exchange="events", routing_keys=["a"])
    @rmq_trigger(queue="orders")
    @rmq_trigger(exchange="other", routing_keys=["b"])
    @dag(dag_id="two_exchanges", schedule=None)
    def build():
        pass

    with pytest.raises(ValueError, match="'two_exchanges' has two @rmq_trigger"):
        build()


def test_exchanges_stacked_on_a_dag_are_a_value_error_at_once():
    made = rmq_trigger(exchange="events", routing_keys=["a"])(DAG(dag_id="two", schedule=None))
    with pytest.raises(ValueError, match="one DAG per exchange"):
        rmq_trigger(exchange="events", routing_keys=["b"])(made)


def test_file_of_the_dag_is_the_caller_s():
    @rmq_trigger(exchange="events", routing_keys=["a"])
    @rmq_trigger(queue="orders")
    @dag(dag_id="located", schedule=None)
    def build():
        pass

    assert build().fileloc == __file__


def test_id_too_long_for_the_watcher_s_own_queues_is_a_value_error():
    arguments = {"queue": "orders", "cooldown": 5}
    for length, fits in ((235, True), (236, False)):

        @dag(dag_id="x" * length, schedule=None)
        def build():
            pass

        if fits:
            rmq_trigger(**arguments)(build)()
            rmq_trigger(**arguments)(DAG(dag_id="x" * length, schedule=None))
        else:
            with pytest.raises(ValueError, match="at most 235 bytes"):
                rmq_trigger(**arguments)(build)()
            with pytest.raises(ValueError, match="at most 235 bytes"):
                rmq_trigger(**arguments)(DAG(dag_id="x" * length, schedule=None))
    leading = rmq_trigger(**arguments, cooldown_edge="leading")
    assert leading(DAG(dag_id="x" * 240, schedule=None)).dag_id == "x" * 240
    with pytest.raises(ValueError, match="at most 239 bytes"):
        rmq_trigger(exchange="events", routing_keys=["a"])(DAG(dag_id="x" * 240, schedule=None))
