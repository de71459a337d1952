"""Group captures to chains, and describe the spans between checkpoints of a chain as rows of a table."""

import io
import pickle
import re
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import fsdecode, fsencode
from typing import Any, NamedTuple

import pyarrow as pa

from dcpdump.arrow.schema import versioned
from dcpdump.batch.dissector import DissectionState, SavedConnection
from dcpdump.batch.read_blocks import Begun, TimelinePosition
from dcpdump.capture.file import Capture, CapturePosition, begin
from dcpdump.capture.pcap import InterfaceDescription, PcapState, SectionState
from dcpdump.errors import DcpdumpError
from dcpdump.net.connections import ConnectionsState
from dcpdump.net.ip import PartialDatagram
from dcpdump.net.layers import LayersState
from dcpdump.spark.filesystem import Input, RemoteSource, is_remote
from dcpdump.tls.secrets import Secrets
from dcpdump.wire.collection_names import CollectionNames, ConnectionNames


class Chain(NamedTuple):
    """Captures that are one timeline: connections and frames are numbered from its beginning."""

    name: str  #: the path below the input's name; "" for a single chain, and for files that are in no subfolder
    captures: tuple[Input, ...]
    left: str = ""  #: the file with the checkpoint from which these captures continue

    @property
    def size(self) -> int:
        """Return the bytes of its files."""
        return sum(each.size for each in self.captures)


def chains(found: Sequence[Input], by: str, names: Sequence[str]) -> list[Chain]:
    """Group captures to chains: by ``folder``, each ``file`` separately, or ``all`` together.

    A chain's name is its path below the common path of the input's ``names``, so that it does not change when other
    captures are added.
    """
    if by == "all":
        return [Chain("", tuple(found))]
    groups: dict[str, list[Input]] = {}
    for each in found:
        groups.setdefault(each.path if by == "file" else each.path.rpartition("/")[0], []).append(each)
    roots = [_words(_root(name, found)) for name in names]
    apart = (at for at, words in enumerate(zip(*roots, strict=False)) if len(set(words)) > 1)
    common = next(apart, min(map(len, roots)))
    return [Chain("~".join(_words(origin)[common:]), tuple(group)) for origin, group in groups.items()]


def _root(name: str, found: Sequence[Input]) -> str:
    """Return the folder of an input's name: itself, or that of the file."""
    folder = name.partition("?")[0].rstrip("/") if is_remote(name) else name.rstrip("/")
    if any(each.path.startswith(f"{folder}/") for each in found):
        return folder
    return folder.partition("*")[0].rpartition("/")[0]


def _words(path: str) -> list[str]:
    """Return the parts of a path, for the name of a folder on any file system."""
    return [re.sub(r"[^A-Za-z0-9._-]", "-", word) for word in re.split("/+", path.partition("?")[0])] if path else []


def opened(path: str, *, salvage: bool, secrets: Secrets | None) -> Capture:
    """Open a capture, wherever it is. Raises CaptureError."""
    source = partial(RemoteSource, path) if is_remote(path) else None
    return Capture(path, salvage=salvage, secrets=secrets, source=source)


#: How many captures in object storage are opened at a time for their first packet.
_ASKED = 32


def begun_in_time(captures: Sequence[Capture]) -> list[Begun]:
    """Return captures with their sort keys in the timeline."""
    if len(captures) == 1:
        return [Begun(-1, captures[0].name, captures[0])]
    if not any(is_remote(each.name) for each in captures):
        return [Begun(*begin(each), each) for each in captures]
    with ThreadPoolExecutor(_ASKED) as pool:
        return [Begun(*origin, each) for origin, each in zip(pool.map(begin, captures), captures, strict=True)]


# -- spans ----------------------------------------------------------------------------------------------------


class ChainSpan(NamedTuple):
    """The part of a chain between two checkpoints: a row of the table ``index``, without file and state."""

    chain: str
    number: int  #: in the chain, from 0
    first: int  #: the number of its first frame
    frames: int
    packets: int  #: -1: all packets and frames to the end
    bytes: int  #: of packets
    begins_ns: int | None  #: the time of the chain's first packet
    first_ns: int | None  #: of its packets
    last_ns: int | None
    lanes: tuple[str, ...]  #: captures open at its beginning
    begun: tuple[tuple[int, str], ...]  #: captures that begin in it, with their sort keys
    ends: bool  #: the chain ends with it
    file: str = ""  #: the file with its state, below the folder of the run or the archive
    row: int = 0  #: and the row group in that file


class ChainCheckpoint(NamedTuple):
    """A checkpoint of a chain: the state of the dissection, and the positions in its captures."""

    dissection: DissectionState | None = None  #: None: at its beginning
    lanes: tuple[TimelinePosition, ...] = ()
    spans: int = 0  #: before it in the chain
    begins_ns: int | None = None  #: the time of the chain's first packet
    last_ns: int | None = None  #: the latest time before it

    def packed(self) -> bytes:
        """Return the checkpoint as bytes."""
        return zlib.compress(pickle.dumps((_VERSION, *self), pickle.HIGHEST_PROTOCOL), 1)

    @classmethod
    def unpacked(cls, data: bytes, where: str) -> "ChainCheckpoint":
        """Read a checkpoint from ``packed``. Raises DcpdumpError for other bytes, or those of another version."""
        try:
            version, *values = _Values(io.BytesIO(zlib.decompress(data))).load()
        except (zlib.error, pickle.UnpicklingError, EOFError, TypeError, ValueError, AttributeError) as error:
            version, values = str(error), []
        if version != _VERSION:
            hint = "begin anew in another folder, or go on with the version of dcpdump that began"
            raise DcpdumpError("what was kept of the connections is of another version", where, hint)
        return cls(*values)


#: The version of states, to be increased when their parts change.
_VERSION = 5
#: All classes in a checkpoint, beside plain values: a file with others was not written by this program.
_PARTS = {
    f"{each.__module__}.{each.__qualname__}": each
    for each in (
        *(CapturePosition, CollectionNames, ConnectionNames, ConnectionsState, DissectionState, InterfaceDescription),
        *(TimelinePosition, LayersState, OrderedDict, PartialDatagram, PcapState, SavedConnection, SectionState),
    )
}


class _Values(pickle.Unpickler):
    """An unpickler of plain values and the classes of a checkpoint, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        found = _PARTS.get(f"{module}.{name}")
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a checkpoint")
        return found


_NAMED_CAPTURE = pa.struct([pa.field("first_ns", pa.int64()), pa.field("name", pa.binary())])
INDEX = versioned(
    "dcpdump.index/1",
    [
        ("chain", pa.string()),
        *((name, pa.int64()) for name in ("number", "first", "frames", "packets", "bytes")),
        *((name, pa.int64()) for name in ("begins_ns", "first_ns", "last_ns")),
        ("lanes", pa.list_(pa.binary())),  # names of files may be bytes
        ("begun", pa.list_(_NAMED_CAPTURE)),
        ("ends", pa.bool_()),
        ("state", pa.binary()),
    ],
)


def index_row(span: ChainSpan, state: bytes) -> pa.RecordBatch:
    """Return a span as a row of the table ``index``, with the checkpoint at its beginning."""
    row = span._asdict() | {"state": state}
    row["lanes"] = list(map(fsencode, span.lanes))
    row["begun"] = [{"first_ns": first_ns, "name": fsencode(name)} for first_ns, name in span.begun]
    return pa.RecordBatch.from_pylist([{name: row[name] for name in INDEX.names}], schema=INDEX)


def read_spans(file: Any, name: str) -> list[ChainSpan]:
    """Return the spans of a file of the table ``index``. A joined span replaces those before it."""
    import pyarrow.parquet as pq

    rows = pq.ParquetFile(file).read([each for each in INDEX.names if each != "state"]).to_pylist()
    found: list[ChainSpan] = []
    for at, row in enumerate(rows):
        lanes = tuple(map(fsdecode, row["lanes"]))
        begun = tuple((each["first_ns"], fsdecode(each["name"])) for each in row["begun"])
        span = ChainSpan(**row | {"lanes": lanes, "begun": begun, "file": name, "row": at})
        while found and found[-1].number >= span.number:
            found.pop()
        found.append(span)
    return found


def read_state(file: Any, span: ChainSpan) -> ChainCheckpoint:
    """Return the checkpoint at the beginning of a span, from its file, where each row is a row group."""
    import pyarrow.parquet as pq

    if not span.number:  # there is no state at the beginning of a chain
        return ChainCheckpoint()
    column = pq.ParquetFile(file).read_row_group(span.row, ["state"], use_threads=False).column(0)
    return ChainCheckpoint.unpacked(column[0].as_py(), span.file)
