"""Recognise what a file that is not a capture is instead, by its first bytes, and suggest what to do with it.

Knows names and first bytes only; a wrong guess costs a hint, never a decode.
"""

import re

from dcpdump.lazy_pattern import lazy_pattern

_HINT_HEX = "dcpdump explain -i FILE"
_HINT_CONVERT = "editcap -F pcapng FILE converted.pcapng"

#: first bytes → what it is, what to try
SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"\x7fELF", "an ELF program", ""),
    (b"MZ", "a Windows program", ""),
    (b"PK\x03\x04", "a ZIP archive", "unzip it, and name the captures inside"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it, and name the captures inside"),
    (b"\x1f\x8b", "gzip data", "unpack it, and name the capture inside"),
    (b"\xfd7zXZ\0", "xz data", "unpack it, and name the capture inside"),
    (b"BZh", "bzip2 data", "unpack it, and name the capture inside"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "unpack it, and name the capture inside"),
    (b"\x04\x22\x4d\x18", "lz4 data", "unpack it, and name the capture inside"),
    (b"\x02\x21\x4c\x18", "lz4 data in its legacy form", "lz4 -dc FILE | dcpdump read -"),
    (b"snoop\0\0\0", "a snoop capture", _HINT_CONVERT),
    (b"GMBU", "a Network Monitor capture", _HINT_CONVERT),
    (b"RTSS", "a Network Monitor capture", _HINT_CONVERT),
    (b"btsnoop\0", "a Bluetooth capture", ""),
    (b"%PDF", "a PDF", ""),
    (b"\x89PNG", "a PNG image", ""),
    (b"PAR1", "a Parquet file", ""),
    (b"SQLite format 3\0", "an SQLite database", ""),
    (b"\x80", "raw memcached-binary bytes", _HINT_HEX),
    (b"\x81", "raw memcached-binary bytes", _HINT_HEX),
)

_HEX_DIGITS = lazy_pattern(rb"(?:0x)?[0-9a-f]{2}(?:[\s:,\-]*(?:0x)?[0-9a-f]{2}){7}", re.IGNORECASE)


def describe(head: bytes) -> tuple[str, str]:
    """Return what ``head`` looks like, and a hint; both may be ""."""
    for magic, name, hint in SIGNATURES:
        if head.startswith(magic):
            return name, hint
    if head[257:262] == b"ustar":
        return "a tar archive", "unpack it, and name the captures inside"
    if not head.strip(b"\0"):
        return "zero bytes", ""
    if not _is_text(head):
        return "unknown bytes, " + " ".join(f"{byte:02x}" for byte in head[:8]), ""
    if _HEX_DIGITS.search(head):
        return "text with hexadecimal bytes", f"did you mean `{_HINT_HEX}`?"
    if head.lstrip()[:1] in (b"{", b"["):
        return "JSON text", ""
    return "text", ""


def _is_text(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3 or len(head) < 4:  # a character may be cut at the end
            return False
    return not any((byte < 0x20 and byte not in b"\t\n\r\f") or byte == 0x7F for byte in head)
