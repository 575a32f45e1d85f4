"""Declares, in a DAG file, which RabbitMQ queue starts the DAG.

The ``rmq-watcher`` process reads the file as text and never imports it; this package exists so that Airflow can import it.
"""

from airflow_rmq_watcher._decorator import rmq_trigger

__all__ = ["rmq_trigger"]
