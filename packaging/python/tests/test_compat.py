"""The provider's import path, alone and beside the provider itself."""

import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest

IMPORT = "from airflow_provider_rmq.watcher.decorators import rmq_trigger"


@pytest.fixture
def provider_wheel():
    return Path(os.environ["RMQ_WATCHER_TEST_PROVIDER_WHEEL"])


def run(code, *first_on_path):
    path = os.pathsep.join([*map(str, first_on_path), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )


def shipped():
    return [str(file) for file in distribution("airflow-rmq-watcher-compat").files or []]


def test_provider_s_path_gives_the_same_decorator():
    import airflow_provider_rmq.watcher.decorators as provider_path
    import airflow_rmq_watcher

    assert provider_path.rmq_trigger is airflow_rmq_watcher.rmq_trigger


def test_no_file_has_the_place_of_one_of_the_provider_s(provider_wheel):
    ours = {name for name in shipped() if name.startswith("airflow_provider_rmq")}
    assert ours, "nothing is shipped at all"
    theirs = set(ZipFile(provider_wheel).namelist())
    assert "airflow_provider_rmq/watcher/decorators.py" in theirs
    assert not ours & theirs


def test_both_in_one_directory_is_an_import_error_that_names_both(tmp_path, provider_wheel):
    """As pip leaves them when both are installed."""
    ZipFile(provider_wheel).extractall(tmp_path)
    target = tmp_path / "airflow_provider_rmq" / "watcher" / "decorators"
    target.mkdir()
    (target / "__init__.py").write_bytes(_our_module().read_bytes())
    for code in (IMPORT, "import airflow_provider_rmq.watcher.decorators", "import airflow_provider_rmq.watcher"):
        outcome = run(code, tmp_path)
        assert outcome.returncode == 1
        last = outcome.stderr.strip().splitlines()[-1]
        assert last.startswith("ImportError: The distributions airflow-provider-rmq and airflow-rmq-watcher-compat"), last
        assert "pip uninstall airflow-provider-rmq" in last


def test_the_rest_of_the_provider_is_left_alone(tmp_path, provider_wheel):
    ZipFile(provider_wheel).extractall(tmp_path)
    target = tmp_path / "airflow_provider_rmq" / "watcher" / "decorators"
    target.mkdir()
    (target / "__init__.py").write_bytes(_our_module().read_bytes())
    outcome = run("import airflow_provider_rmq; print(airflow_provider_rmq.__version__)", tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.startswith("2.")


def test_without_the_provider_the_import_works_in_a_fresh_process():
    outcome = run(IMPORT + "; print(rmq_trigger.__module__)")
    assert outcome.stdout.strip() == "airflow_rmq_watcher._decorator", outcome.stderr


def _our_module():
    return Path(distribution("airflow-rmq-watcher-compat").locate_file("airflow_provider_rmq/watcher/decorators/__init__.py"))
