"""Parse JSON text, and report why bytes are not JSON as the standard has it."""

import json
from collections.abc import Callable
from typing import Any, Final

from dcpdump.startup import is_compiled, lazy_pattern
from dcpdump.wire.json_scan import DEEPEST, doubtful, judge

#: How deep JSON may nest to be parsed: far deeper than the protocol's own, and not so deep that code which walks
#: through it, or writes it, could run out of stack.
MOST_NESTED = 100
#: A text with more values is not parsed: parsed they may take a hundred times its memory. A manifest has thousands.
MOST_VALUES: Final = 1 << 18
_MOST_JUDGED: Final = 1 << 19  #: the bound for text that is only judged
#: A bracket, or a string without escaped quotes: a regular expression would have to remember each escape.
_BRACKET = lazy_pattern(rb'[\[\]{}]|"[^"]*"?')
_NO_VALUE = "Expecting value"
_MORE = "Extra data"
_SPACES = lazy_pattern(r"[ \t\n\r]*")
#: What the fault of a value that should be JSON begins with.
MARKED_JSON: Final = "the body is marked JSON but is not: "
#: What the parser's complaints begin with, and what they mean.
_COMPLAINTS = {
    _NO_VALUE: "there is no value",
    _MORE: "the value is over, and more follows",
    "Unterminated string": "a string begins that does not end",
    "Invalid control character": "a control character stands in a string",
    "Invalid \\": "a string has an escape that is none",
    "Expecting property name": "there is no name in double quotes",
    "Expecting ':'": "there is no colon",
    "Expecting ','": "there is no comma",
    "Illegal trailing comma": "there is a comma, and nothing follows it",
    "Unexpected UTF-8 BOM": "there is a byte order mark",
}


_COMPILED: Final = is_compiled("dcpdump.wire.json_scan")


class NotParsed(ValueError):
    """A text is too large or too deep to be parsed, JSON or not; the message continues a sentence about it."""


def json_fault(body: bytes) -> str:
    """Return why a body that should be JSON is not; empty where it is, or where it nests too deep to tell."""
    if (_COMPILED or _has_more_values(body, _MOST_JUDGED)) and judge(body):
        return ""
    return doubtful_fault(body)


def doubtful_fault(body: bytes) -> str:
    """Return why a body that ``judge`` was in doubt about is not JSON; empty where it is."""
    if _has_more_values(body, _MOST_JUDGED):  # the parser would make all of them
        return "" if _nests_deeper(body, DEEPEST) else f"{MARKED_JSON}it is no JSON"
    try:
        text = body.decode("utf-8")
        _, end = _SCAN(text, _behind_spaces(text, 0))
        end = _behind_spaces(text, end)
        if end == len(text):
            return ""
        reason = _complaint(text, end, _MORE)
    except RecursionError:
        return ""
    except (ValueError, StopIteration) as error:
        reason = json_complaint(error, body)
    return f"{MARKED_JSON}{reason}"


def json_faults(data: bytes, starts: list[int], ends: list[int]) -> dict[int, str]:
    """Return, by index, why pieces of ``data`` that should be JSON are not."""
    rows = doubtful(data, starts, ends) if _COMPILED else range(len(starts))
    fault_of = doubtful_fault if _COMPILED else json_fault
    judged = ((row, fault_of(data[starts[row] : ends[row]])) for row in rows)
    return {row: fault for row, fault in judged if fault}


def not_json(data: bytes, starts: list[int], ends: list[int]) -> list[int]:
    """Return the indexes of the pieces of ``data`` that are not JSON."""
    if not _COMPILED:
        return list(json_faults(data, starts, ends))
    return [
        row
        for row in doubtful(data, starts, ends)
        if _is_flat(data, starts[row], ends[row]) or doubtful_fault(data[starts[row] : ends[row]])
    ]


def _is_flat(data: bytes, at: int, end: int) -> bool:
    """Return whether a piece of ``data`` has too few brackets to nest too deep for the scan."""
    return data.count(b"{", at, end) + data.count(b"[", at, end) <= DEEPEST


def json_complaint(error: ValueError | StopIteration, body: bytes) -> str:
    """Return the parser's reason for refusing a body, with the offset of the byte."""
    if isinstance(error, UnicodeDecodeError):
        return f"at byte {error.start} it is no UTF-8"
    if isinstance(error, json.JSONDecodeError):
        text, at, message = error.doc, error.pos, error.msg
    elif isinstance(error, StopIteration):  # what the scanner alone makes of a value that is not there
        text, at, message = body.decode("utf-8"), error.value, _NO_VALUE
    else:
        return str(error)
    return _complaint(text, at, message)


def _complaint(text: str, at: int, message: str) -> str:
    if at >= len(text.rstrip()):
        return "it ends too soon"
    words = _COMPLAINTS.get(message)
    if words is None:
        words = next((words for begin, words in _COMPLAINTS.items() if message.startswith(begin)), "it is no JSON")
    return f"at byte {len(text[:at].encode())} {words}"


def parse_json(text: bytes) -> Any:
    """Parse JSON as the standard has it: no NaN; numbers of any length. Raises ValueError, and of it NotParsed."""
    if _has_more_values(text, MOST_VALUES):
        raise NotParsed(f"has more than {MOST_VALUES:,} values, and is not taken apart")
    if _nests_deeper(text, MOST_NESTED):
        raise NotParsed("nests too deep to say whether it is JSON")
    return json.loads(text.decode("utf-8"), parse_int=_number, parse_float=_real, parse_constant=_no_constant)


def _behind_spaces(text: str, at: int) -> int:
    found = _SPACES.match(text, at)
    return found.end() if found else at


def _has_more_values(text: bytes, most: int) -> bool:
    """Return whether JSON may have more values."""
    return len(text) > most and sum(map(text.count, (b"[", b"{", b","))) > most


def _nests_deeper(text: bytes, most: int) -> bool:
    if text.count(b"[") + text.count(b"{") <= most:
        return False
    depth = 0
    for found in _BRACKET.finditer(text.replace(b"\\\\", b"").replace(b'\\"', b"")):
        bracket = found[0]
        if bracket in b"[{":
            depth += 1
            if depth > most:
                return True
        elif bracket in b"]}":
            depth -= 1
    return False


def _number(digits: str) -> int | str:
    return int(digits) if len(digits) < 4300 else digits  # Python refuses to convert longer ones


def _real(digits: str) -> float | str:
    number = float(digits)
    return digits if number in (float("inf"), float("-inf")) else number  # 1e400 is JSON, Infinity is not


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


#: It only judges: the values of numbers do not matter, and converting them would cost most of the time.
_JUDGE = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_no_constant)
_SCAN: Callable[[str, int], tuple[Any, int]] = _JUDGE.scan_once  # type: ignore[attr-defined]
