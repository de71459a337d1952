"""Decompress captures while they are read: gzip, xz, bzip2, zstd and lz4, recognised by their first bytes.

All data up to a fault is returned; then ``failure`` says why there is no more. Memory is bounded for any expansion and
any window: lz4's is 64 KiB, gzip's 32 KiB, bzip2's 900,000 bytes, those of zstd and xz are in their header, and limited
here.
"""

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from dcpdump.capture.source import ByteSource

#: The largest output of one step, so that a decompression bomb comes in pieces; an error costs at most one step.
_STEP = 64 * 1024
#: The most memory that one stream may ask for: twice what `xz -9` needs (65 MiB), and the largest window that zstd
#: decompresses by default (``--long=27``).
MEMORY = 128 * 1024 * 1024
_WINDOW_LOG = 27
#: The messages of lzma and zstd for data that need more memory, and how to decompress it nevertheless.
_TOO_MUCH = {"Memory usage limit exceeded": "xz -dc", "too much memory": "zstd -dc --long=31"}


class Decompressor(Protocol):
    """The interface that the libraries' decompressors share; gzip's is adapted."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gzip:
    """A decompressor of one gzip member. An error inside a step does not lose the output before it."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._broken: zlib.error | None = None

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        return not self._inflate.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        if self._broken:
            raise self._broken
        data = self._inflate.unconsumed_tail + data
        before = self._inflate.copy()
        try:
            return self._inflate.decompress(data, max_length)
        except zlib.error as error:  # zlib discards the output of a failed step: repeat it byte by byte up to the fault
            self._broken = error
        return _inflate_until_error(before, data)


def _inflate_until_error(inflate: "zlib._Decompress", data: bytes) -> bytes:
    pieces = []
    for index in range(len(data)):
        try:
            pieces.append(inflate.decompress(data[index : index + 1]))
        except zlib.error:
            break
    return b"".join(pieces)


def _xz() -> Decompressor:
    return lzma.LZMADecompressor(memlimit=MEMORY)


def _zstd() -> Decompressor:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    decompressor: Decompressor = zstd.ZstdDecompressor(
        options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
    )
    return decompressor


def _lz4() -> Decompressor:
    from lz4.frame import LZ4FrameDecompressor

    decompressor: Decompressor = LZ4FrameDecompressor()
    return decompressor


class _StreamDecompression:
    """The decompressed bytes of a stream, or of several streams one after another."""

    def __init__(self, source: ByteSource, form: "Compression") -> None:
        self.failure = ""
        self._source = source
        self._form = form
        self._member = form.begin()
        self._carried = b""  #: read already, of the next member
        self._ended = False

    def read(self, size: int, /) -> bytes:
        while not self._ended:
            if self._member.eof:
                self._next_member()
                continue
            piece = self._input() if self._member.needs_input else b""
            if not piece and self._member.needs_input:
                self._end(self._source.failure or f"the {self._form.name} data is cut short")
                break
            try:
                out = self._member.decompress(piece, min(size, _STEP))
            except Exception as error:  # each library has its own
                self._end(_too_large(self._form.name, error) or f"the {self._form.name} data is damaged ({error})")
                break
            if out:
                return out
        return b""

    def close(self) -> None:
        self._source.close()

    def _input(self) -> bytes:
        piece, self._carried = self._carried, b""
        return piece or self._source.read(4096)

    def _next_member(self) -> None:
        """Begin the next member, if there is one; zero bytes between members are padding."""
        rest = ((self._member.unused_data or b"") + self._carried).lstrip(b"\0")
        while len(rest) < len(self._form.beginnings[0]):
            piece = self._source.read(4096)
            if not piece:
                break
            rest = (rest + piece).lstrip(b"\0")
        if rest.startswith(self._form.beginnings):
            self._member = self._form.begin()
            self._carried = rest
        else:
            self._end(f"bytes that are not {self._form.name} data follow its end" if rest else "")

    def _end(self, failure: str) -> None:
        self.failure = failure
        self._ended = True


def _too_large(name: str, error: Exception) -> str:
    """Return the message for data that needs too much memory, with a way out; "" for any other error."""
    way = next((way for words, way in _TOO_MUCH.items() if words in str(error)), "")
    if not way:
        return ""
    return f"the {name} data asks for more than {MEMORY >> 20} MiB of memory; try: {way} FILE | dcpdump read -"


class Compression(NamedTuple):
    """A compressed form: its name, how its members may begin, and what decompresses one."""

    name: str
    beginnings: tuple[bytes, ...]
    begin: Callable[[], Decompressor]

    def unpack(self, source: ByteSource) -> ByteSource:
        """Return a source of the decompressed bytes of a source."""
        return _StreamDecompression(source, self)


#: Frames of zstd and lz4 without data, such as an index at the end.
_SKIPPABLE = tuple(bytes.fromhex(f"5{digit}2a4d18") for digit in "0123456789abcdef")
_COMPRESSIONS = (
    Compression("gzip", (b"\x1f\x8b",), _Gzip),
    Compression("xz", (b"\xfd7zXZ\0",), _xz),
    Compression("bzip2", (b"BZh",), bz2.BZ2Decompressor),
    Compression("zstd", (b"\x28\xb5\x2f\xfd", *_SKIPPABLE), _zstd),
    Compression("lz4", (b"\x04\x22\x4d\x18", *_SKIPPABLE), _lz4),
)


def compression_of(head: bytes) -> Compression | None:
    """Return the compressed form that begins with ``head``; None for any other bytes."""
    return next((form for form in _COMPRESSIONS if head.startswith(form.beginnings)), None)
