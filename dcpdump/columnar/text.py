"""Which of many values are JSON beyond doubt, found without parsing them: by a regular expression.

JSON nests and regular expressions do not, so this one goes a few levels deep. It takes no value that the
parser refuses; whatever it does not take, the parser itself is asked about.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dcpdump.columnar import laid
from dcpdump.columnar.plan import Array
from dcpdump.wire.value import json_fault

_SPACE = r"[ \t\n\r]*"
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'


def _pattern(character: str, depth: int) -> str:
    text = f'"(?:{character}|{_ESCAPE})*"'
    value = f"(?:{text}|{_NUMBER}|true|false|null)"
    for _ in range(depth):
        item = f"{_SPACE}{value}{_SPACE}"
        member = f"{_SPACE}{text}{_SPACE}:{item}"
        object_ = rf"\{{(?:{_SPACE}|{member}(?:,{member})*)\}}"
        array = rf"\[(?:{_SPACE}|{item}(?:,{item})*)\]"
        value = f"(?:{text}|{_NUMBER}|true|false|null|{object_}|{array})"
    return rf"\A{_SPACE}{value}{_SPACE}\z"


#: Most documents are flat ASCII, so that is tried first. With more than three levels the automaton outgrows its
#: memory, and is slower than the parser.
_FLAT = _pattern(r"[ !#-\[\]-\x7f]", 2)
_DEEP = _pattern(r'[^"\\\x00-\x1f]', 3)
_FEW = 100  #: values that the parser is done with before a pattern is compiled


def json_faults(values: pa.Array) -> dict[int, str]:
    """Return, by their places, what is wrong with those binary values that are not JSON. Null is no value."""
    few = len(values) - values.null_count <= _FEW
    suspects = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)) if few else _unmatched(values, _FLAT)
    rest = values.take(laid.places(suspects))
    if len(suspects) > _FEW:
        try:
            rest.cast(pa.string())  # UTF-8 throughout?
        except pa.ArrowInvalid:
            pass
        else:
            unmatched = _unmatched(rest, _DEEP)
            suspects, rest = suspects[unmatched], rest.take(laid.places(unmatched))
    judged = zip(suspects.tolist(), map(json_fault, rest.to_pylist()), strict=True)
    return {place: fault for place, fault in judged if fault}


def _unmatched(values: pa.Array, pattern: str) -> Array:
    matched = pc.match_substring_regex(values, pattern).fill_null(True)
    return np.flatnonzero(~matched.to_numpy(zero_copy_only=False))
