"""Hold what templates need of many frames: a list or an array for each thing that they show."""

from collections.abc import Callable
from dataclasses import dataclass

from dcpdump.batch.ends import Ends
from dcpdump.batch.gather import Array
from dcpdump.batch.layouts import Plan
from dcpdump.render import View


@dataclass(frozen=True, slots=True)
class TemplateColumns:
    """Frames of one plan, all with a stream id or all without: each list and array has one entry a frame."""

    row: list[int]
    number: list[int]
    packet: list[int]
    time: list[bytes]
    file: list[str]
    place: list[int]  #: which of ``places``
    places: list[Ends]
    offset: list[int]
    length: list[int]
    gap: list[int]
    key_length: Array
    datatype: Array
    vbucket: Array
    body: Array
    opaque: Array
    cas: Array
    stream_id: Array | None
    fields: list[Array]
    key: list[bytes]  #: safe to show, as UTF-8, without the collection id
    wire_key: list[bytes]
    collection: list[int]  #: -1: none
    collection_name: list[str]  #: empty where it is not known
    inferred: list[bool]
    head: list[bytes]  #: as much of the value as is wanted, decompressed
    value: list[bytes]  #: the same, safe to show, as UTF-8, as much of it as is wanted, decompressed
    plain_length: list[int]  #: of the whole value, decompressed
    value_at: list[int]  #: where in the frame the value begins
    value_length: list[int]
    fault: list[str]  #: why a value that is marked JSON is not; empty where it is, or claims nothing


#: Returns the texts of frames of one plan, as UTF-8; the second argument: whether they all have a stream id.
Template = Callable[[Plan, bool, TemplateColumns, View], list[bytes]]
