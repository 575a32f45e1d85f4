"""One Airflow per run of these tests, in a home of its own. ``run-tests`` runs them once for each version."""

import logging
import os
import shutil
import tempfile

_HOME = tempfile.mkdtemp(prefix="airflow-rmq-watcher-tests-")
os.environ["AIRFLOW_HOME"] = _HOME
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"
os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{_HOME}/airflow.db"


def pytest_configure():
    # DagBag logs a traceback for every file that is meant to fail.
    logging.getLogger("airflow").setLevel(logging.CRITICAL)


def pytest_unconfigure():
    shutil.rmtree(_HOME, ignore_errors=True)
