"""Tables of tests as texts: a sentence a line, and indented below it what is given ``->`` what is wanted."""

import re
from typing import Any

import pytest


def sentences(text: str) -> list[Any]:
    """Return the cases of a text as parameters (given, wanted), each under its sentence; deeper lines continue one."""
    found: list[Any] = []
    sentence = ""
    for line in filter(str.strip, re.sub(r"\n {8,}", " ", text).splitlines()):
        if not line.startswith(" "):
            sentence = line.strip()
            continue
        given, arrow, wanted = line.strip().partition(" ->")
        assert arrow, line
        found.append(pytest.param(given, wanted.strip(), id=sentence))
    return found
