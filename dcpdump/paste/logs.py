"""Read log lines: text and then bytes. The last resort, so only what is unmistakable is taken.

A run of digits is bytes when it begins as a frame does and has a header's length. A line without such a run continues
the one above when it is nothing but hex after what every line begins with.
"""

import json
import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from dcpdump.errors import PasteError
from dcpdump.paste.dumps import read_dump, shows
from dcpdump.paste.encodings import read_base64, read_base64_token, with_base64_joined
from dcpdump.paste.literals import read_literal
from dcpdump.paste.pasted import CUT, Pasted, begins_frame, has_header, odd_digits, refuse_behind, refuse_odd
from dcpdump.spec import MESSAGES
from dcpdump.spec.header import CLIENT_REQUEST, CLIENT_RESPONSE, HEADER_LENGTH, MAGICS
from dcpdump.spec.names import DATATYPE
from dcpdump.startup import lazy_pattern
from dcpdump.text import counted
from dcpdump.wire.frame import Header, pack_header

_EDGE = r"(?<![0-9A-Za-z_:.\-])"
_RUNS = tuple(
    lazy_pattern(pattern)
    for pattern in (
        # One separator for the whole run, so that a time of day never becomes part of it.
        _EDGE + r"(?:0[xX]|\\{1,2}x)?[0-9a-fA-F]{48,}(?![0-9A-Za-z])",
        _EDGE + r"[0-9a-fA-F]{2}(?: {1,2}[0-9a-fA-F]{2}){7,}(?![0-9A-Za-z])",
        _EDGE + r"(?:[0-9a-fA-F]{4}(?: {1,2}[0-9a-fA-F]{4}){3,}(?: {1,2}[0-9a-fA-F]{2})?)(?![0-9A-Za-z])",
        _EDGE + r"(?:[0-9a-fA-F]{8}(?: {1,2}[0-9a-fA-F]{8}){2,}(?: {1,2}(?:[0-9a-fA-F]{2}){1,3})?)(?![0-9A-Za-z])",
        r"(?<![0-9A-Za-z])[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){7,}(?![0-9A-Za-z:])",
        r"(?<![0-9A-Za-z])[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){7,}(?![0-9A-Za-z-])",
        r"(?<![0-9A-Za-z])[0-9a-fA-F]{2}(?:, ?[0-9a-fA-F]{2}){7,}(?![0-9A-Za-z])",
        r"(?<![0-9A-Za-z])0[xX][0-9a-fA-F]{2}(?:,? ?0[xX][0-9a-fA-F]{2}){7,}(?![0-9A-Za-z])",
        r"(?:\\x[0-9a-fA-F]{2}){8,}",
    )
)
_WORD = lazy_pattern(
    r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{32,}={0,2}(?![A-Za-z0-9+/_=-])|(?<==)[A-Za-z0-9+/_-]{32,}={0,2}$"
)
_NOT_HEX = lazy_pattern(r"0[xX]|\\x|[^0-9a-fA-F]")
_PROMISING = lazy_pattern(r"(?:[0-9a-fA-F]{2}(?:[ :,-]{1,2}(?:0[xX])?|\\x)?){8}")
_WRAPPED = lazy_pattern(r"(.*?[^\s,])\s+((?:0[xX][0-9a-fA-F]{2}(?:,?\s+|,?$)){1,16})")
_DIGITS = lazy_pattern(r"\d+")
_ELLIPSIS = lazy_pattern(r"\s*(?:\.{3,}|…)")
_TAIL = lazy_pattern(r"(?:^|[\s:=\]>|])((?:0[xX])?[0-9a-fA-F]{2}(?:(?:[ :-]|, ?)?(?:0x)?[0-9a-fA-F]{2})*),?\s*$")


class _LogPiece(NamedTuple):
    data: bytes
    prefix: str  # what stands before the bytes, digits masked
    cut: bool
    skipped: int = 0  # tokens of the prefix that look like bytes: a count, an id
    behind: bool = False  # whether other text follows the bytes


def _wrapped(text: str) -> Pasted | None:
    """Return the one frame of lines that all begin alike and continue with a few ``0x`` bytes each; or None."""
    lines = [_WRAPPED.fullmatch(line) for line in text.split("\n") if line.strip()]
    if len(lines) < 2 or len({_DIGITS.sub("#", line[1]) if line else None for line in lines}) != 1:
        return None
    data = bytes.fromhex("".join(_NOT_HEX.sub("", line[2]) for line in lines if line))
    if not has_header(data):
        return None
    return Pasted("log lines", (data,), (f"what begins each of {counted(len(lines), 'line')} dropped",))


def read_log(text: str) -> Pasted | None:
    """Return the frames that log lines hold, or None."""
    pieces: list[_LogPiece] = []
    skipped = 0
    for number, line in enumerate(with_base64_joined(text).split("\n"), 1):
        piece = _piece(number, line, pieces[0] if pieces else None)
        if piece is not None:
            pieces.append(piece)
        elif line.strip():
            if pieces:
                refuse_odd(line, line=number, few=4)
            skipped += 1
    if not pieces:
        return _wrapped(text)
    parts: list[bytearray] = []
    for piece in pieces:
        if not parts or has_header(piece.data):
            parts.append(bytearray(piece.data))
        else:
            parts[-1] += piece.data
    if not all(len(part) >= HEADER_LENGTH for part in parts):
        return None
    notes = {
        "log prefix dropped": any(piece.prefix or piece.skipped for piece in pieces),
        "text behind the bytes dropped": any(piece.behind for piece in pieces),
        f"{counted(skipped, 'line')} without bytes ignored": skipped,
        CUT: any(piece.cut for piece in pieces),
    }
    return Pasted("log lines", tuple(map(bytes, parts)), tuple(note for note, holds in notes.items() if holds))


def _piece(number: int, line: str, before: _LogPiece | None) -> _LogPiece | None:
    for pattern in _RUNS if _PROMISING.search(line) else ():
        for run in pattern.finditer(line):
            data = _bytes(run[0], number)
            # A count or an id may stand before the bytes and look like one of them.
            skips = range(3) if before is None else (before.skipped,)
            for skip in skips if " " in run[0] else (0,):
                size = len(data) - skip
                if begins_frame(data[skip:]) and (size >= HEADER_LENGTH or (size >= 8 and _ends(line, run.end()))):
                    cut = bool(_ELLIPSIS.match(line, run.end()))
                    rest = line[run.end() :]
                    if not shows(rest, data):
                        refuse_behind(run[0], rest, number)
                    prefix = _masked(line[: run.start()])
                    return _LogPiece(data[skip:], prefix, cut, skip, not _ends(line, run.end()))
    for word in _WORD.finditer(line):
        frame = read_base64_token(word[0])
        if frame is not None:
            return _LogPiece(frame, _masked(line[: word.start()]), False)
    if before is None or len(line) > 2000:
        return None
    # A line continues the bytes when it has nothing else, or the same words before them.
    for tail in _TAIL.finditer(line):
        prefix = _masked(line[: tail.start(1)])
        digits = _NOT_HEX.sub("", tail[1])
        if prefix in ("", before.prefix) and not before.skipped and len(digits) % 2 == 0:
            return _LogPiece(bytes.fromhex(digits), prefix, False)
    return None


def _masked(prefix: str) -> str:
    return _DIGITS.sub("0", prefix.strip())


def _ends(line: str, position: int) -> bool:
    return not line[position:].strip(" \t\"'])}>,;.…")


def _bytes(run: str, number: int) -> bytes:
    digits = _NOT_HEX.sub("", run)
    if len(digits) % 2:
        if not re.match("8[0-3]|[01]8", digits):
            return b""
        raise odd_digits(digits[-24:], f"line {number}")
    return bytes.fromhex(digits)


# -- a dump or a literal behind what every line begins with -------------------------------------------

_STAMP = lazy_pattern(
    r"\s*(?:\[[^\]\n]{1,80}\]|\([^)\n]{1,60}\)"
    r"|\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d\d:\d\d:\d\d(?:[.,]\d+)?Z?|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+\d{1,2}\s+\d\d:\d\d:\d\d"
    r"|(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|NOTICE|CRITICAL|DBG|INF|[DIWEF])(?::|\b)(?=[\s:\[])"
    r"|[IWEF]\d{4}\b|[A-Za-z_][\w./$@-]*(?:\[\d+\])?:(?=\s)|[-–|]+(?=\s)|[A-Za-z_][\w.$/-]*(?=\s)|<[^>\n]{1,60}>(?=\s)"
    r"|[\w.:-]+=\S+(?=\s))"
)


def read_prefixed(text: str) -> Pasted | None:
    """Return the bytes of dumps and literals whose every line is preceded by a time, a level, a name; or None."""
    lines = []
    for line in text.split("\n"):
        position = 0
        while position < 300 and (stamp := _STAMP.match(line, position)):
            position = stamp.end()
        lines.append(line[position:].removeprefix(" ") if position else line)
    body = "\n".join(lines)
    if body == text:
        return None
    pasted = read_dump(body) or read_literal(body) or read_base64(body)
    return pasted and Pasted(pasted.dialect, pasted.parts, (*pasted.notes, "log prefix dropped"))


# -- frames that are printed field by field -----------------------------------------------------------

_GO_STRUCT = lazy_pattern(r"\bMC(Request|Response)\{((?:[^{}]|\{[^{}]*\})*)\}")
_GO_FIELD = lazy_pattern(r"\b([A-Z]\w*):(\[\]\w+(?:\{[^}]*\}|\(nil\))|[^,\s{}]+)")
_GO_BYTES = lazy_pattern(r"\[\](?:uint8|byte)(?:\(nil\)|\{((?:0x[0-9a-f]+(?:, )?)*)\})")
_JSON_HEADER = lazy_pattern(r'\{(?=[^{}]*"extlen":)[^{}]*"magic":[^{}]*\}')


def read_fields(text: str) -> Pasted | None:
    """Return the frames that Go's memcached client prints as structs, or headers that servers log as JSON; or None.

    Raise PasteError where a field that has to be known is not there, or is printed in words.
    """
    if structs := list(_GO_STRUCT.finditer(text)):
        what, hint = f"this MC{structs[0][1]} has no number or bytes where a frame has", "print it with %#v"
        typed = all("DataType:" in struct[2] for struct in structs)
        notes = ("put together from fields", *(("no data type is printed: taken as 0",) * (not typed)))
        return Pasted("Go struct", _frames(_of_struct, structs, what, hint), notes)
    if headers := list(_JSON_HEADER.finditer(text)):
        what, hint = "this JSON with a magic is no header of a request", "paste the frame's bytes, if there are any"
        notes = ("put together from fields", "the header alone: the log has no more of the frame")
        return Pasted("header in JSON", _frames(_of_json, headers, what, hint), notes)
    return None


def _frames(
    of_fields: Callable[["re.Match[str]"], bytes], found: list["re.Match[str]"], what: str, hint: str
) -> tuple[bytes, ...]:
    try:
        return tuple(map(of_fields, found))
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, struct.error) as error:
        raise PasteError(what, f"{error}", hint) from error


def _of_struct(printed: "re.Match[str]") -> bytes:
    """Return the frame of an MCRequest or MCResponse, as ``%#v`` prints it."""
    fields = {"DataType": "0", "ExtMeta": "[]byte(nil)", **dict(_GO_FIELD.findall(printed[2]))}
    magic, slot = (CLIENT_RESPONSE, "Status") if printed[1] == "Response" else (CLIENT_REQUEST, "VBucket")
    opcode, datatype, vbucket_or_status, opaque, cas = (
        int(fields[name], 0) for name in ("Opcode", "DataType", slot, "Opaque", "Cas")
    )
    extras, key, *value = (_go_bytes(fields[name]) for name in ("Extras", "Key", "Body", "ExtMeta"))
    body = b"".join((extras, key, *value))
    lengths = 0, len(key), len(extras)
    return pack_header(Header(magic, opcode, *lengths, datatype, vbucket_or_status, len(body), opaque, cas)) + body


def _go_bytes(printed: str) -> bytes:
    shape = _GO_BYTES.fullmatch(printed)
    if not shape:
        raise ValueError(printed)
    return bytes(int(each, 0) for each in (shape[1] or "").replace(",", " ").split())


def _of_json(printed: "re.Match[str]") -> bytes:
    """Return a header that a server logs of a request that it refuses."""
    fields = json.loads(printed[0])
    magic, opcode = _MAGICS[fields["magic"]], _OPCODES[fields["opcode"]]
    named = fields["datatype"]
    named = named if isinstance(named, list) else named.split(",")
    datatype = sum(_DATATYPES[each.strip().lower()] for each in named)
    # It logs the opaque as its own machine reads those four bytes, which is little-endian.
    opaque = int.from_bytes(fields["opaque"].to_bytes(4, "little"), "big")
    lengths = 0, fields["keylen"], fields["extlen"]
    return pack_header(
        Header(magic, opcode, *lengths, datatype, fields["vbucket"], fields["bodylen"], opaque, fields["cas"])
    )


#: Those whose bytes 2 and 3 are as the log says: it has no length of framing extras.
_MAGICS = {magic.name: magic.value for magic in MAGICS.values() if not magic.flexible and not magic.response}
_OPCODES = {message.name: message.opcode for message in MESSAGES.values()}
_DATATYPES = {"raw": 0, **{name.lower(): bit for bit, name in DATATYPE.names.items()}}
