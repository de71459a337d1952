"""Hold rows of ndjson against what ``--schema`` says of them."""

import json
from typing import Any

import pytest

from tests.support.console import run


def validator(command: str) -> Any:
    """Return what judges rows of a command by its schema, or skip the test."""
    jsonschema = pytest.importorskip(
        "jsonschema", reason="jsonschema is not installed: no row is held against its schema"
    )
    found = run(f"dcpdump {command} --schema")
    assert (found.code, found.err) == (0, "")
    schema = json.loads(found.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def wrong(command: str, out: str, judge: Any) -> list[str]:
    """Return what is wrong with rows."""
    errors = [error for line in out.splitlines() for error in judge.iter_errors(json.loads(line))]
    return [f"{command}: {error.json_path} {error.message}" for error in errors]
