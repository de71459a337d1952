"""Burst: documents of one stream that follow one another, told at once. They may be told one by one as well."""

from collections.abc import Callable
from typing import NamedTuple

from dcpdump.streams.sight import Sight


class Burst(NamedTuple):
    """Mutations, deletions and expirations, all whole, nothing lost before any of them, each with a time."""

    frames: int
    connection: int
    direction: int
    word: int  #: the vbucket
    opaque: int
    stream_id: int  #: 0: none
    size: int  #: bytes of all frames
    last_ns: int
    first_seqno: int
    last_seqno: int
    high_seqno: int  #: the largest
    kinds: tuple[tuple[int, int, int], ...]  #: opcode, frames, bytes: of mutations, deletions, expirations
    each: Callable[[], list[Sight]]  #: makes the sights of all frames
