"""JSON, keys and numbers found many at a time are those found one by one."""

import json
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.batch.gather import distinct
from dcpdump.batch.plans import id_length
from dcpdump.wire.json_text import json_fault, json_faults
from dcpdump.wire.value import RESERVED_IDS, leb128, read_prefix

modest = settings(max_examples=60, deadline=None)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
texts = st.one_of(
    st.builds(lambda value, gap: json.dumps(value, indent=gap).encode(), documents, st.sampled_from([None, 0, 2])),
    st.builds(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"), documents),
    st.text(alphabet='{}[]",:0123456789.eE+-tfn\\u \n', max_size=12).map(str.encode),
    st.binary(max_size=6),
)


def faults(values: list[bytes]) -> dict[int, str]:
    ends = list(accumulate(map(len, values)))
    return json_faults(b"".join(values), [0, *ends][:-1], ends)


@modest
@given(st.lists(texts, max_size=4), st.sampled_from([1, 40]))
def test_what_is_no_json_is_what_the_parser_refuses(values: list[bytes], copies: int) -> None:
    values = values * copies
    wanted = {place: json_fault(value) for place, value in enumerate(values)}
    assert faults(values) == {place: fault for place, fault in wanted.items() if fault}


WRONG = rb"""{}{} 1,2 "a [1 2] NaN -Infinity 01 1. .5 +1 1e 'a' "\x41" "\ud83" {"a":1,} [1,] {1:2}"""
RIGHT = rb'0 -0 1E+9 "\ud83d" {"":{}} [[[[[[[[[]]]]]]]]]'
ODD = [b"", b" ", b'"\t"', b'{"a" 1}', b"\xef\xbb\xbf1", b'"\xff"', b"1\0", b"\t[ ]\r\n", b'"\x7f"']


@pytest.mark.parametrize("value", [*WRONG.split(), *RIGHT.split(), *ODD, '"é→😀"'.encode()])
def test_borderline_values_are_judged_as_the_parser_does(value: bytes) -> None:
    fault = json_fault(value)
    assert faults([value]) == ({0: fault} if fault else {})
    assert faults([value] * 150) == (dict.fromkeys(range(150), fault) if fault else {})


@modest
@given(st.lists(st.one_of(st.binary(max_size=8), st.integers(0, 2**36).map(leb128)), min_size=1, max_size=8))
def test_collection_ids_are_read_as_one_by_one(keys: list[bytes]) -> None:
    data, end = b"".join(keys), 0
    for key in keys:
        start, end = end, end + len(key)
        prefix = read_prefix(key)
        sound = prefix is not None and not prefix.fault and prefix.collection not in RESERVED_IDS
        size = prefix.size if prefix is not None and sound and prefix.size < len(key) else 0
        assert id_length(data, start, end) == size


@modest
@given(st.lists(st.integers(0, 255), max_size=30), st.sampled_from(["u1", "u2", "u4", "u8", "i8"]))
def test_distinct_is_what_unique_is(values: list[int], kind: str) -> None:
    array = np.array(values, kind)
    wanted = np.unique(array, return_index=True, return_inverse=True)
    for mine, theirs in zip(distinct(array), wanted, strict=True):
        assert mine.tolist() == theirs.tolist()
