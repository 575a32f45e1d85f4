"""The quickstart's DAG: every message in the queue `quickstart.orders` starts one run of it."""

import datetime

try:
    from airflow.sdk import dag, task  # Airflow 3
except ImportError:
    from airflow.decorators import dag, task  # Airflow 2

from airflow_rmq_watcher import rmq_trigger


@rmq_trigger(queue="quickstart.orders", conn_id="rmq_default")
@dag(
    schedule=None,
    start_date=datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc),
    is_paused_upon_creation=False,
    catchup=False,
)
def quickstart_orders():
    @task
    def show(**context):
        conf = context["dag_run"].conf
        print("order:", conf["body"], "headers:", conf["headers"], "by way of", conf["routing_key"])

    show()


quickstart_orders()
