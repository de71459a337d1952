"""JSON text: whether bytes are JSON as the standard has it, and what they say."""

import json
from collections.abc import Callable
from typing import Any


def json_fault(body: bytes) -> str:
    """It says why a body that should be JSON is not; empty where it is, or where it nests too deep to tell."""
    try:
        text = body.decode("utf-8")
        if text[:1] not in "{[" or _SCAN(text, 0)[1] != len(text):
            _JUDGE.decode(text)
    except StopIteration:  # what the scanner alone makes of an early end
        return "the body is marked JSON but is not: it ends too soon"
    except RecursionError:
        return ""
    except ValueError as error:
        return f"the body is marked JSON but is not: {error}"
    return ""


def parse_json(text: bytes) -> Any:
    """It parses JSON as the standard has it: no NaN; numbers of any length. Raises ValueError, RecursionError."""
    return json.loads(text.decode("utf-8"), parse_int=_number, parse_float=_real, parse_constant=_no_constant)


def _number(digits: str) -> int | str:
    return int(digits) if len(digits) < 4300 else digits  # Python refuses to convert longer ones


def _real(digits: str) -> float | str:
    number = float(digits)
    return digits if number in (float("inf"), float("-inf")) else number  # 1e400 is JSON, Infinity is not


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


#: It only judges: what numbers are worth does not matter, and converting them would cost most of the time.
_JUDGE = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_no_constant)
_SCAN: Callable[[str, int], tuple[Any, int]] = _JUDGE.scan_once  # type: ignore[attr-defined]
