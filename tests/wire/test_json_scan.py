"""JSON that is recognised without a parser is what the parser accepts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.wire import json_text
from dcpdump.wire.json_scan import IN_DOUBT, IS_JSON, IS_PLAIN_JSON, doubtful, judge

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(LEAVES, lambda each: st.lists(each, max_size=4) | st.dictionaries(TEXTS, each, max_size=4))
#: Pieces of which texts are made that are nearly JSON.
WORDS = ["true", "false", "null", "NaN", "Infinity", "tru", '"a"', '""']
NUMBERS = ["1", "-1", "01", "1.", ".5", "1e5", "1E+", "00e9"]
PIECES = st.sampled_from([*'{}[],:"\\-0 \n\té\x7f\x00', '\\"', "\\u", "\\n", *NUMBERS, *WORDS])


PIECED = st.lists(PIECES, max_size=12).map(lambda pieces: "".join(pieces).encode())


def damaged(value: object, at: int, size: int, new: bytes) -> bytes:
    """Return JSON with other bytes at a place."""
    body = json.dumps(value).encode()
    at %= len(body)
    return body[:at] + new + body[at + size :]


def is_surely_json(body: bytes) -> bool:
    """Return whether a body is JSON beyond doubt, also where it stands between others."""
    judgement = judge(body)
    assert (judgement == IN_DOUBT) == (doubtful(b'{"a":' + body + b"}1", [5], [5 + len(body)]) == [0])
    return judgement != IN_DOUBT


def parser_takes(body: bytes) -> bool:
    """Return whether the parser finds nothing wrong."""
    try:
        json_text._JUDGE.decode(body.decode("utf-8"))
    except (ValueError, StopIteration):
        return False
    return True


@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_json_is_seen_to_be_json(value: object, indent: int | str | None, ascii: bool) -> None:
    assert is_surely_json(json.dumps(value, indent=indent, ensure_ascii=ascii).encode())


def test_pieces_are_doubtful_by_their_places() -> None:
    assert doubtful(b'{}[1]"a"nul[', [0, 2, 5, 8, 11], [2, 5, 8, 11, 12]) == [3, 4]


@given(PIECED | st.builds(damaged, VALUES, st.integers(0, 1000), st.integers(0, 2), st.binary(max_size=2)))
@settings(max_examples=150)
def test_what_is_nearly_json_is_judged_like_the_parser_does(body: bytes) -> None:
    assert is_surely_json(body) == parser_takes(body)


@pytest.mark.parametrize(("depth", "sure"), [(60, True), (61, False)])
def test_what_nests_deeper_is_left_to_the_parser(depth: int, sure: bool) -> None:
    assert is_surely_json(b"[" * depth + b"]" * depth) is sure


@pytest.mark.parametrize(
    ("body", "judgement"),
    [
        (b' {"a": [1, "~"]} ', IS_PLAIN_JSON),
        (b"[1,\t2]", IS_JSON),
        (b"[1]\n", IS_JSON),
        ('"é"'.encode(), IS_JSON),
        (b'"\x7f"', IS_JSON),
        (b'"\x1f"', IN_DOUBT),
    ],
)
def test_json_is_plain_where_all_of_it_is_shown_as_it_is(body: bytes, judgement: int) -> None:
    assert judge(body) == judgement
