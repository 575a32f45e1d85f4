"""The corpus that the watcher's own tests read, imported by real Airflow.

Beside each file stands what the watcher reads from it. Where it accepts a declaration, Airflow has to register a DAG of just
that id, so that reading the text and running it agree.
"""

import json
from pathlib import Path

import pytest
from airflow_under_test import CORPUS, MAJOR, parse

FILES = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*.py"))


def expected_of_airflow(case):
    """The ids that Airflow registers, "import error" or "any"."""
    declared = sorted({declaration["dag_id"] for declaration in case["declarations"]})
    return case.get(f"airflow{MAJOR}", case.get("airflow", declared))


def test_corpus_is_there():
    assert len(FILES) >= 130


@pytest.mark.parametrize("name", FILES)
def test_airflow_agrees_with_the_reading(name):
    path = CORPUS / name
    case = json.loads(path.with_suffix(".json").read_text("utf-8"))
    expected = expected_of_airflow(case)
    if expected == "any":
        return
    dags, errors = parse(path)
    if expected == "import error":
        assert errors and not dags, f"{sorted(dags)} {errors}"
    else:
        assert not errors
        assert sorted(dags) == sorted(expected)
        assert all(Path(dag.fileloc).resolve() == path.resolve() for dag in dags.values())
