"""What the tests need of Airflow 2 and 3 alike."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from pathlib import Path

import airflow

CORPUS = Path(__file__).parents[3] / "tests" / "fixtures" / "dagfiles"
MAJOR = int(airflow.__version__.split(".")[0])

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:
    from airflow.models.dagbag import DagBag

try:
    from airflow.sdk import DAG, dag
except ImportError:
    from airflow.decorators import dag
    from airflow.models.dag import DAG

__all__ = ["CORPUS", "DAG", "MAJOR", "dag", "parse"]


def parse(path: Path) -> tuple[dict, dict]:
    """Has Airflow's own DagBag import one file: its DAGs by id, and its import errors.

    The corpus is the folder that Python imports from, as a DAG folder is.
    """
    if str(CORPUS) not in sys.path:
        sys.path.append(str(CORPUS))
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        bag = DagBag(dag_folder=str(path), safe_mode=False)
    return dict(bag.dags), dict(bag.import_errors)
