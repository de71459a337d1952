"""Concealed values: as long as before, other texts, and the same structure."""

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcpdump.redact import Pseudonyms
from dcpdump.rewrite.concealed_frame import conceal_strings, conceal_value, literals, origins
from dcpdump.wire.value import decompress, open_value
from tests.support.fields import snappy, xattr_block

WORDS = Pseudonyms(b"salt")
modest = settings(max_examples=40, deadline=None)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
BODIES = st.builds(lambda value, ascii: json.dumps(value, ensure_ascii=ascii).encode(), JSON, st.booleans())
NAMES, TEXTS = (st.binary(min_size=least, max_size=20).map(lambda text: text.replace(b"\0", b"n")) for least in (1, 0))
PAIRS = st.lists(st.tuples(NAMES, TEXTS), max_size=3)


def shape(value: bytes, datatype: int) -> tuple[int, int, list[tuple[int, int]] | None, bool]:
    body = open_value(value, datatype)
    pairs = None if body.xattrs is None else [(len(name), len(text)) for name, text in body.xattrs]
    return len(value), len(body.value), pairs, bool(body.faults)


@modest
@given(BODIES, PAIRS, st.integers(0, 7), st.integers(1, 3))
@example(b"5", [], 3, 1)
def test_a_concealed_value_has_the_structure_that_it_had(
    body: bytes, pairs: list[tuple[bytes, bytes]], datatype: int, times: int
) -> None:
    plain = (xattr_block(*pairs) if datatype & 4 else b"") + (body if datatype & 1 else body * times)
    value = snappy(plain) if datatype & 2 else plain
    concealed = conceal_value(WORDS, value, datatype)
    one, other = shape(concealed, datatype), shape(value, datatype)
    if datatype & 7 == 3:  # a string in literals, which hold less than copies do
        one, other = (one[0], 0, one[2], one[3]), (other[0], 0, other[2], other[3])
    assert one == other
    assert len(plain) < 24 or not datatype or concealed != value
    assert conceal_value(WORDS, value, datatype) == concealed


@modest
@given(st.binary(max_size=60), st.integers(0, 7))
@example(b"\xff85567".ljust(71, b"\xff"), 2)  # the letters that it comes to are Snappy
def test_any_bytes_stay_as_wrong_as_they_were(value: bytes, datatype: int) -> None:
    assert shape(conceal_value(WORDS, value, datatype), datatype) == shape(value, datatype)


@modest
@given(st.binary(min_size=1, max_size=20), st.integers(1, 400))
def test_the_bytes_of_a_block_come_from_its_literals(seed: bytes, times: int) -> None:
    plain = seed * times + bytes(range(70)) + seed
    compressed = snappy(plain)
    assert bytes(compressed[place] for place in origins(compressed)) == plain


def test_a_block_of_literals_has_any_size() -> None:
    text = bytes(range(256)) * 300
    for size in (*range(3, 400), 65_530, 65_540, 66_000):
        found = literals(text, size)
        assert found is not None
        assert len(found) == size
        plain, fault = decompress(found)
        assert (plain, fault) == (text[: len(plain or b"")], "")


def test_compressed_json_becomes_a_string() -> None:
    value = snappy(b"[true,[true,[null,[]]],{},{},[false]]")
    concealed = conceal_value(WORDS, value, 3)
    body = open_value(concealed, 3)
    assert (len(concealed), body.faults, type(json.loads(body.value))) == (len(value), (), str)


def test_strings_are_replaced_in_json_of_the_server_but_for_names_that_everybody_knows() -> None:
    text = b'{"name": "travel", "nodes":[1,"a\\"b"], "rev":17, "travel": "name"}'
    other = conceal_strings(WORDS, text)
    assert len(other) == len(text)
    was, now = json.loads(text), json.loads(other)
    assert (list(was)[:3], was["rev"], was["nodes"][0]) == (list(now)[:3], now["rev"], now["nodes"][0])
    assert was["name"] != now["name"]
    assert "travel" not in now
    assert "name" not in now.values()
    assert len(now["nodes"][1]) == 4
