"""Decompress captures while they are read: gzip, xz, bzip2, zstd and lz4, recognised by their first bytes.

Whatever can be decompressed is returned; then ``failure`` says why there is no more. Memory stays bounded whatever the
data expands to, and whatever window the data asks for: lz4 has 64 KiB, gzip 32, bzip2 900,000 bytes, zstd and xz as
much as their header says.
"""

import bz2
import lzma
import mmap
import os
import signal
import tempfile
import threading
import zlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from dcpdump.capture.source import CHUNK, ByteSource
from dcpdump.errors import CaptureError
from dcpdump.forked_worker import started

#: The largest output of one step, so that a bomb is met in pieces; an error costs at most the step it is in.
STEP = 64 * 1024
#: The most memory that one stream may ask for: twice what `xz -9` needs (65 MiB), and the largest window that zstd
#: decompresses by default (``--long=27``), a bound that is cramjam's own.
MEMORY = 128 * 1024 * 1024
#: What lzma and zstd say of data that ask for more, and how to decompress those all the same.
_TOO_MUCH = {"Memory usage limit exceeded": "xz -dc", "too much memory": "zstd -dc --long=31"}


class Decompressor(Protocol):
    """What bz2 and lzma have in common, and gzip after a little help."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class Gzip:
    """One gzip member. An error inside a step loses nothing of what could be decompressed before it."""

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
        except zlib.error as error:  # zlib discards what it had inflated: repeat, byte by byte up to the fault
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


class StreamDecompression:
    """The bytes inside a gzip, xz or bzip2 stream, or inside several of them one after the other."""

    def __init__(self, source: ByteSource, name: str, magic: bytes, begin: Callable[[], Decompressor]) -> None:
        self.failure = ""
        self._source = source
        self._name = name
        self._magic = magic
        self._begin = begin
        self._member = begin()
        self._carried = b""  #: read, and belonging to the member that follows
        self._ended = False

    def read(self, size: int, /) -> bytes:
        while not self._ended:
            if self._member.eof:
                self._next_member()
                continue
            piece = self._input() if self._member.needs_input else b""
            if not piece and self._member.needs_input:
                self._end(self._source.failure or f"the {self._name} data is cut short")
                break
            try:
                out = self._member.decompress(piece, min(size, STEP))
            except (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
                self._end(_too_large(self._name, error) or f"the {self._name} data is damaged ({error})")
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
        """Begin the member that follows, if one does; zero bytes between them are padding."""
        rest = (self._member.unused_data + self._carried).lstrip(b"\0")
        while len(rest) < len(self._magic):
            piece = self._source.read(4096)
            if not piece:
                break
            rest = (rest + piece).lstrip(b"\0")
        if rest.startswith(self._magic):
            self._member = self._begin()
            self._carried = rest
        else:
            self._end(f"bytes that are not {self._name} data follow its end" if rest else "")

    def _end(self, failure: str) -> None:
        self.failure = failure
        self._ended = True


class PipedDecompression:
    """The bytes inside a zstd or lz4 file, written to a pipe by a thread.

    cramjam decompresses these only from one buffer into one output. The buffer is the file, mapped, and the output a
    pipe: so neither is ever in memory as a whole. What comes from a pipe is copied to an unnamed temporary file first,
    and is thus read only when its writer has finished.
    """

    def __init__(self, source: ByteSource, path: str | None, name: str) -> None:
        import cramjam  # here, because most captures are not compressed

        self.failure = ""
        self._damage = cramjam.DecompressionError
        self._name = name
        self._source = source
        self._mapped = _mapped(path) if path else _spooled(source)
        self._pipe, into = os.pipe()
        try:
            sink = cramjam.File(f"/dev/fd/{into}", read=False, write=True)
        except OSError as error:
            os.close(self._pipe)
            raise CaptureError(
                f"{name} cannot be decompressed on this system",
                path or "-",
                f"{name} -dc FILE | dcpdump read -",
            ) from error
        finally:
            os.close(into)
        sinks = [sink]
        del sink  # the thread holds the only reference: the pipe ends when it drops it
        codec = getattr(cramjam, name).decompress_into
        self._thread = threading.Thread(target=self._decompress, args=(codec, sinks), daemon=True)
        if not started(self._thread):
            sinks.clear()
            os.close(self._pipe)
            self._mapped.close()
            raise CaptureError(
                f"{name} cannot be decompressed: no thread may be started here",
                path or "-",
                f"{name} -dc FILE | dcpdump read -",
            )

    def read(self, size: int, /) -> bytes:
        piece = os.read(self._pipe, min(size, STEP))
        if not piece:
            self._thread.join()
        return piece

    def close(self) -> None:
        os.close(self._pipe)  # a thread still pouring now meets a broken pipe, and ends
        self._thread.join()
        self._mapped.close()
        self._source.close()

    def _decompress(self, codec: Callable[..., object], sinks: list[object]) -> None:
        if hasattr(signal, "pthread_sigmask"):  # closing early is no reason for SIGPIPE to end the program
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
        try:
            codec(self._mapped, sinks[0])
        except (self._damage, OSError) as error:
            damaged = f"the {self._name} data is cut short or damaged ({error})"
            self.failure = _too_large(self._name, error) or damaged
        finally:
            sinks.clear()


def _too_large(name: str, error: Exception) -> str:
    """Return the message for data that ask for too much memory, with what to try; "" for any other error."""
    way = next((way for words, way in _TOO_MUCH.items() if words in str(error)), "")
    if not way:
        return ""
    return f"the {name} data asks for more than {MEMORY >> 20} MiB of memory; try: {way} FILE | dcpdump read -"


def _mapped(path: str) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _spooled(source: ByteSource) -> mmap.mmap:
    with tempfile.TemporaryFile() as file:
        while piece := source.read(CHUNK):
            file.write(piece)
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class Compression(NamedTuple):
    """A compressed form: its name, its first bytes, and how it is opened from (source, path or None)."""

    name: str
    magic: bytes
    unpack: Callable[[ByteSource, str | None], ByteSource]


COMPRESSIONS = (
    Compression("gzip", b"\x1f\x8b", lambda source, _: StreamDecompression(source, "gzip", b"\x1f\x8b", Gzip)),
    Compression("xz", b"\xfd7zXZ\0", lambda source, _: StreamDecompression(source, "xz", b"\xfd7zXZ\0", _xz)),
    Compression("bzip2", b"BZh", lambda source, _: StreamDecompression(source, "bzip2", b"BZh", bz2.BZ2Decompressor)),
    Compression("zstd", b"\x28\xb5\x2f\xfd", lambda source, path: PipedDecompression(source, path, "zstd")),
    Compression("lz4", b"\x04\x22\x4d\x18", lambda source, path: PipedDecompression(source, path, "lz4")),
)


def compression_of(head: bytes) -> Compression | None:
    """Return the compressed form that begins with ``head``; None for any other bytes."""
    return next((form for form in COMPRESSIONS if head.startswith(form.magic)), None)
