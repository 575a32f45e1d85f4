"""The Python provider's import path of ``rmq_trigger``, for DAG files that move to rmq-watcher unchanged."""

import sys

from airflow_rmq_watcher import rmq_trigger

__all__ = ["rmq_trigger"]

# A namespace has no file. The provider's own package has one, and then both are installed: Python prefers this directory
# to the provider's module decorators.py, so without this check the provider would silently run with half of its parts.
if getattr(sys.modules["airflow_provider_rmq"], "__file__", None) is not None:
    raise ImportError(
        "The distributions airflow-provider-rmq and airflow-rmq-watcher-compat are both installed, and each brings "
        "airflow_provider_rmq.watcher.decorators. Remove one: 'pip uninstall airflow-provider-rmq' to run rmq-watcher, or "
        "'pip uninstall airflow-rmq-watcher-compat' to stay with the provider."
    )
