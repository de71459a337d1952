"""What is kept of connections from one batch to the next: plain values, read again or refused."""

import pickle
import zlib

import pytest

from dcpdump.batch.resumable import HEAD, SavedConnection, is_thin, number_of, renumbered, thinned
from dcpdump.errors import DcpdumpError
from dcpdump.net.event import Seen
from dcpdump.net.limits import DEFAULT
from dcpdump.spark.guess import Beginning, guess
from dcpdump.spark.work import BEGINNING, InputState
from dcpdump.wire.split import SEARCH, SplitterState

KEY = bytes.fromhex("0a0000010a000002c35b2bca")
THERE = bytes.fromhex("0a0000020a0000012bcac35b")


def saved(rest: int = 0) -> SavedConnection:
    return guess(7, Beginning(KEY, 100, False, 5, rest, bytes(rest)), Beginning(THERE, 5, False, None), DEFAULT)


def test_where_an_input_stands_is_kept_and_read_again() -> None:
    state = InputState({KEY: saved().packed()}, 8, Seen(4, None, "a.pcap", 1))
    assert InputState.unpacked(state.packed(10**18), "lives/1") == (state, 10**18)
    assert InputState.unpacked(BEGINNING.packed(), "lives/0") == (BEGINNING, None)


OTHERS = [pickle.dumps((b"x", None)), zlib.compress(pickle.dumps(({}, 0))), zlib.compress(b"("), b""]


@pytest.mark.parametrize("kept", [*OTHERS, BEGINNING.packed()[:-1]])
def test_what_another_version_kept_is_refused(kept: bytes) -> None:
    with pytest.raises(DcpdumpError) as refused:
        InputState.unpacked(kept, "out/.watch-x/lives/000000001")
    assert (str(refused.value), bool(refused.value.hint)) == (
        "what was kept of the connections is of another version (out/.watch-x/lives/000000001)",
        True,
    )


def test_a_state_is_the_same_after_it_was_packed() -> None:
    one = saved(50)
    packed = one.packed()
    assert SavedConnection.unpacked(packed) == one
    assert SavedConnection.unpacked(packed).digest() == one.digest()
    assert SavedConnection.unpacked(renumbered(packed, 9)) == one._replace(number=9)
    assert (number_of(packed), is_thin(packed), is_thin(one._replace(thin=True).packed())) == (7, False, True)


def test_states_that_continue_otherwise_have_other_digests() -> None:
    one = saved()
    here, there = one.streams
    splitter, _ = one.splitters
    session = one.session
    assert splitter is not None
    assert session is not None
    request = (0, 0x53, 1, 3, None, 7, False)
    others = [
        saved(50),
        one._replace(streams=(here, {**there, "ready": 6})),
        one._replace(splitters=(None, None)),
        one._replace(splitters=({**splitter, "state": SEARCH}, None)),
        one._replace(session={**session, "outstanding": {"requests": [request], "early": {}, "whole": False}}),
        one._replace(session={**session, "features": [18]}),
    ]
    assert len({each.digest() for each in [one, *others]}) == 7


def test_a_thin_state_keeps_the_head_of_a_frame_under_way() -> None:
    state, _ = saved().splitters
    assert state is not None
    long = b"x" * (HEAD + 3)
    assert thinned({**state, "data": long}) == ({**state, "data": long[:HEAD] + bytes(3)}, True)
    searching: SplitterState = {**state, "data": long, "state": SEARCH}
    for other in (state, searching, None):
        assert thinned(other) == (other, False)
