"""Patterns that are compiled when they are first used are those of the standard library."""

import pickle
import re

import pytest

from dcpdump.lazy_pattern import lazy_pattern


def test_a_pattern_finds_what_the_compiled_one_finds() -> None:
    ours, theirs = lazy_pattern(r"(\d+)-(?P<end>\w)", re.I), re.compile(r"(\d+)-(?P<end>\w)", re.I)
    for text in ("12-A", "no", "x 3-b y 4-c"):
        assert ours.findall(text) == theirs.findall(text)
        assert ours.sub("_", text) == theirs.sub("_", text)
        for method in ("match", "fullmatch", "search"):
            mine, other = getattr(ours, method)(text), getattr(theirs, method)(text)
            assert (mine and mine.groupdict()) == (other and other.groupdict())
            assert (mine and mine.span()) == (other and other.span())
    assert (ours.pattern, ours.flags, ours.groupindex) == (theirs.pattern, theirs.flags, theirs.groupindex)


def test_nothing_is_compiled_before_it_is_used() -> None:
    wrong = lazy_pattern("(")
    with pytest.raises(re.error, match="missing"):
        wrong.match("")


def test_a_pattern_can_be_sent_to_another_process_whether_it_was_used_or_not() -> None:
    used = lazy_pattern(rb"\d+")
    assert used.findall(b"1 23") == [b"1", b"23"]
    for pattern in (used, lazy_pattern(rb"\d+")):
        assert pickle.loads(pickle.dumps(pattern)).findall(b"4 56") == [b"4", b"56"]
