"""Refuse captures and packed files, recognised by their first bytes: they are not a paste. It opens no file."""

import re

from dcpdump.errors import PasteError
from dcpdump.lazy_pattern import lazy_pattern

#: The placeholder for the file's name in a hint: a paste does not know where it came from.
NAME = "CAPTURE"

_READ = f"dcpdump read {NAME}"
_ARCHIVE = "a ZIP archive"  #: which the other commands do not read either
#: first bytes, what begins so, and what prints the bytes inside of it as they are
_KINDS: tuple[tuple["re.Pattern[bytes]", str, str], ...] = tuple(
    (lazy_pattern(begins, re.DOTALL), what, f"{unpack} {NAME} | dcpdump explain" if unpack else "")
    for begins, what, unpack in (
        (rb"\xa1\xb2(?:\xc3\xd4|\x3c\x4d|\xcd\x34)|(?:\xd4\xc3|\x4d\x3c|\x34\xcd)\xb2\xa1", "a pcap capture", ""),
        (rb"\n\r\r\n.{4}(?:\x1a\x2b\x3c\x4d|\x4d\x3c\x2b\x1a)", "a pcapng capture", ""),
        (rb"\x1f\x8b\x08", "gzip data", "gzip -dc"),
        (rb"\x28\xb5\x2f\xfd", "zstd data", "zstd -dc"),
        (rb"\xfd7zXZ\x00", "xz data", "xz -dc"),
        (rb"BZh[1-9]1AY&SY", "bzip2 data", "bzip2 -dc"),
        (rb"\x04\x22\x4d\x18", "lz4 data", "lz4 -dc"),
        (rb"PK\x03\x04", _ARCHIVE, "unzip -p"),
    )
)


def refuse_files(data: bytes) -> None:
    """Raise PasteError where ``data`` is a capture or a packed file: as a frame it could only be nonsense."""
    for begins, what, unpack in _KINDS:
        if begins.match(data):
            hints = [hint for hint in (_READ if what is not _ARCHIVE else "", unpack) if hint]
            raise PasteError(f"this is {what}, not a paste", "", hints[0], tuple(hints[1:]))
