"""List the forms in which a frame is printed: functions from bytes to text, for the round-trip law."""

import json
import re
import textwrap
import urllib.parse
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from html import escape

Printer = Callable[[bytes], str]


def rows(data: bytes, width: int = 16) -> Iterable[tuple[int, bytes]]:
    for at in range(0, len(data), width):
        yield at, data[at : at + width]


def shown(data: bytes) -> str:
    return "".join(chr(b) if 0x20 <= b < 0x7F else "." for b in data)


def pairs(data: bytes, separator: str = " ") -> str:
    return data.hex(separator) if separator else data.hex()


def dump(line: str, width: int = 16, head: str = "", tail: str = "", start: int = 0) -> Printer:
    """Return a printer of a line for each row.

    ``at`` in it is the offset; ``hex``, ``HEX``, ``cells`` (with 0x) and ``words`` (of two bytes) are the bytes,
    ``left`` and ``right`` halves of them, ``dashed`` these joined by a dash, and ``text`` their characters.
    """

    def write(data: bytes) -> str:
        lines = []
        for at, row in rows(data, width):
            left, right, cells = pairs(row[:8]), pairs(row[8:]), hexes(row, " ")
            dashed, words = f"{left}{'-' if right else ' '}{right}", " ".join(b.hex() for _, b in rows(row, 2))
            given = {"HEX": pairs(row).upper(), "left": left, "right": right, "dashed": dashed, "words": words}
            given |= {"hex": pairs(row), "cells": cells, "text": shown(row)}
            lines.append(line.format(at=start + at, **given))
        return head + "\n".join(lines) + tail

    return write


def xxd(data: bytes, width: int = 16, group: int = 2, upper: bool = False) -> str:
    lines = []
    size = width // group * (group * 2 + 1)
    for at, row in rows(data, width):
        cells = " ".join(row[i : i + group].hex() for i in range(0, len(row), group))
        line = f"{at:08x}: {(cells.upper() if upper else cells):{size}} {shown(row)}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def hexdump_c(data: bytes, squeeze: bool = True) -> str:
    lines, before, starred = [], None, False
    for at, row in rows(data):
        if squeeze and row == before and len(row) == 16:
            if not starred:
                lines.append("*")
            starred = True
            continue
        before, starred = row, False
        halves = "  ".join(filter(None, (pairs(row[:8]), pairs(row[8:]))))
        lines.append(f"{at:08x}  {halves:48}  |{shown(row)}|")
    return "\n".join([*lines, f"{len(data):08x}"]) + "\n"


def od(data: bytes, cell: Callable[[int], str], radix: str = "07o", text: bool = False, width: int = 16) -> str:
    lines = []
    for at, row in rows(data, width):
        cells = "".join(" " + cell(b) for b in row)
        offset = f"{at:{radix}}" if radix else ""
        gutter = f"{' ' * ((width - len(row)) * 3)}  >{shown(row)}<" if text else ""
        lines.append(offset + cells + gutter)
    return "\n".join([*lines, *([f"{len(data):{radix}}"] if radix else [])]) + "\n"


def od_character(byte: int) -> str:
    names = {0: "\\0", 7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 92: "\\"}
    return f"{names.get(byte) or (chr(byte) if 32 <= byte < 127 else f'{byte:03o}'):>3}"


def spec_grid(data: bytes, indent: str = "      ", annotate: bool = True, wide: bool = True) -> str:
    edge = "+---------------"
    lines = [
        "Byte/     0       |       1       |       2       |       3       |",
        "   /              |               |               |               |",
        "  |" + "0 1 2 3 4 5 6 7|" * 4,
        "  " + edge * 4 + "+",
    ]
    for at, row in rows(data, 4):
        cells = [f"0x{b:02x}" + (f" ('{chr(b)}')" if annotate and 33 <= b < 127 else "") for b in row]
        lines.append(f"{at:2}|" + "".join(f" {c:14}|" for c in cells))
        lines.append("  " + edge * len(row) + "+")
    text = "\n".join(indent + line for line in lines) + "\n"
    return text if wide else "\n".join(re.sub(" +", " ", line).strip() for line in text.split("\n"))


def field_table(data: bytes) -> str:
    lines, at = ["DCP_MUTATION command", "Field        (offset) (value)"], 0
    names = "Magic,Opcode,Key length,Extra length,Data type,Vbucket,Total body,Opaque,CAS".split(",")
    fields = list(zip(names, (1, 1, 2, 1, 1, 2, 4, 4, 8), strict=True))
    while fields or at < len(data):
        name, width = fields.pop(0) if fields else ("  field", min(8, len(data) - at))
        separator = "," if width == 2 else "-"
        where = f"({at})" if width == 1 else f"({at}{separator}{at + width - 1})"
        lines.append(f"{name:12} {where:7}: 0x{data[at : at + width].hex()}")
        at += width
    return "\n".join(lines) + "\n"


ESCAPES = dict(zip(b"\0\a\b\t\n\v\f\r\"'\\", "0abtnvfr\"'\\", strict=True))


def literal(data: bytes, names: str, other: Callable[[int, bytes], str], quote: str = '"') -> str:
    """Return a string literal: named escapes, characters, and what ``other`` makes of a byte and the next."""
    out = []
    for at, byte in enumerate(data):
        if ESCAPES.get(byte, "-") in names:
            out.append("\\" + ESCAPES[byte])
        else:
            out.append(chr(byte) if 32 <= byte < 127 else other(byte, data[at + 1 : at + 2]))
    return quote + "".join(out) + quote


def c_octal(data: bytes) -> str:
    """Return bytes as gdb prints a string: octal where it must, characters where it can."""
    return literal(data, 'abtnvfr"\\', lambda byte, _: f"\\{byte:03o}")


def strace(data: bytes) -> str:
    text = literal(data, 'tnvfr"\\', lambda byte, behind: f"\\{byte:03o}" if behind.isdigit() else f"\\{byte:o}")
    return f"write(12, {text}, {len(data)}) = {len(data)}"


def gdb_repeats(data: bytes) -> str:
    runs = [(run[1][0], len(run[0])) for run in re.finditer(rb"(?s)(.)\1*", data)]
    pieces = [f"0x{b:x} <repeats {n} times>" if n > 9 else ", ".join([f"0x{b:x}"] * n) for b, n in runs]
    return "$1 = {" + ", ".join(pieces) + "}"


def gdb_string_repeats(data: bytes) -> str:
    pieces: list[str] = []
    for run in re.finditer(rb"(?s)(.)\1{9,}|((?!(.)\3{9}).)+", data):
        if run[1] is None:
            pieces.append(c_octal(run[0]))
        else:
            one = literal(run[1], "abtnvfr'\\", lambda byte, _: f"\\{byte:03o}", "'")
            pieces.append(f"{one} <repeats {len(run[0])} times>")
    return "$2 = " + ", ".join(pieces)


def go_q(data: bytes) -> str:
    return literal(data, 'abtnvfr"\\', lambda byte, _: f"\\x{byte:02x}")


def rust_b(data: bytes) -> str:
    return "b" + literal(data, '0tnr"\\', lambda byte, _: f"\\x{byte:02x}")


def node_string(data: bytes) -> str:
    def other(byte: int, _: bytes) -> str:
        return f"\\x{byte:02X}" if byte < 160 else chr(byte)

    return literal(data, "btnfr'\\", other, "'")


def haskell(data: bytes) -> str:
    names = "NUL SOH STX ETX EOT ENQ ACK a b t n v f r SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"

    def other(byte: int, behind: bytes) -> str:
        if byte < 32:
            return "\\" + names.split()[byte] + "\\&" * (byte == 14 and behind == b"H")
        return "\\DEL" if byte == 127 else f"\\{byte}" + "\\&" * behind.isdigit()

    return literal(data, '"\\', other)


def lua(data: bytes) -> str:
    return literal(data, '"\\', lambda byte, behind: f"\\{byte:03d}" if behind.isdigit() else f"\\{byte}")


def signed(data: bytes) -> list[int]:
    return [b - 256 if b > 127 else b for b in data]


def numbers(data: bytes, separator: str = ", ", style: str = "d") -> str:
    return separator.join(format(b, style) for b in data)


def hexes(data: bytes, separator: str = ", ", style: str = "0x{:02x}") -> str:
    return separator.join(style.format(b) for b in data)


def wrapped(items: list[str], per_line: int, separator: str = ", ", indent: str = "  ") -> str:
    groups = [separator.join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return (separator.rstrip(" ") + "\n").join(indent + g for g in groups)


def spew(data: bytes) -> str:
    body = hexdump_c(data, squeeze=False).rstrip().rsplit("\n", 1)[0]
    return f"([]uint8) (len={len(data)} cap={len(data)}) {{\n{textwrap.indent(body, ' ')}\n}}\n"


def prefixed(prefix: str, text: str) -> str:
    return "\n".join(prefix + line for line in text.rstrip("\n").split("\n")) + "\n"


def log(text: str) -> str:
    return f"2026-11-20T10:00:00.123Z DEBUG [dcp-worker-3] conn 7: {text}"


COLUMNS = "00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F"
RADARE = "- offset -   0 1  2 3  4 5  6 7  8 9  A B  C D  E F  0123456789ABCDEF\n"


def numbered(data: bytes, line: str, separator: str = "\n") -> str:
    """Return each byte behind its place."""
    return separator.join(line.format(at, byte) for at, byte in enumerate(data))


def c_string(data: bytes) -> str:
    return f'"{hexes(data, "", chr(92) + "x{:02x}")}"'


def netty(data: bytes) -> str:
    wide, edge = "-" * 49, "-" * 8
    head = f"         +{wide}+\n         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n"
    ends = f"+{edge}+{wide}+{2 * edge}+"
    return dump("|{at:08x}| {hex:47} |{text:16}|", head=f"{head}{ends}\n", tail=f"\n{ends}")(data)


def format_hex_7(data: bytes) -> str:
    head = (
        "\n   Label: Byte[] (System.Byte[]) <1B2C3D4E>\n\n"
        f"          Offset Bytes                                           Ascii\n                 {COLUMNS}\n"
        "          ------ ----------------------------------------------- -----\n"
    )
    marks = "".join(chr(b) if 0x20 <= b < 0x7F else "�" for b in range(256))
    return head + "\n".join(
        f"{at:016X} {pairs(row).upper():47} {''.join(marks[b] for b in row)}" for at, row in rows(data)
    )


def gdb_xb(data: bytes) -> str:
    return dump("0x{at:x}:\t{cells}", 8, start=0x7FFE1000)(data).replace(" ", "\t")


def gdb_xb_symbols(data: bytes) -> str:
    return "\n".join(
        f"0x{0x4040 + at:x} <buf{f'+{at}' if at else ''}>:\t{hexes(row, chr(9))}" for at, row in rows(data, 8)
    )


def wireshark_hex(data: bytes, text: bool) -> str:
    return dump("{at:04x}   {hex:47}   {text}" if text else "{at:04x}   {hex:47}")(data)


def wireshark_c(data: bytes) -> str:
    lines = [f"{hexes(row)}{',' if at + 16 < len(data) else ' '} /* {shown(row)} */" for at, row in rows(data)]
    return f"static const unsigned char pkt1[{len(data)}] = {{\n" + "\n".join(lines) + "\n};\n"


def wireshark_follow(turns: Iterable[tuple[int, bytes]], indent: str = "\t") -> str:
    """Return two directions in turns, as Follow TCP Stream dumps them: tshark indents the second by a tab."""
    lines = []
    sent = [0, 0]
    for direction, data in turns:
        for at, row in rows(data):
            cells, text = f"{pairs(row[:8])}  {pairs(row[8:])}", f"{shown(row[:8])} {shown(row[8:])}"
            lines.append(f"{indent * direction}{sent[direction] + at:08X}  {cells:48}  {text}".rstrip(" "))
        sent[direction] += len(data)
    return "\n".join(lines) + "\n"


def erlang_mixed(data: bytes) -> str:
    key = re.search(rb"[a-z]{3,}$", data)
    if not key:
        return f"<<{numbers(data, ',')}>>"
    return f'<<{numbers(data[: key.start()], ",")},"{key[0].decode()}">>'


def percent(data: bytes) -> str:
    return "%" + f"{data[0]:02X}" + urllib.parse.quote(data[1:], safe="")


def base64(data: bytes, width: int = 0, indent: str = "") -> str:
    """Return base64 in one line, or in lines of a width."""
    text = b64encode(data).decode()
    return "\n".join(indent + line for line in textwrap.wrap(text, width)) if width else text


def html(text: str) -> str:
    return f"<pre><code>{escape(text, quote=False).replace(chr(34), '&quot;')}</code></pre>"


FORMS: dict[str, Printer] = {
    # the specification's own
    "grid": spec_grid,
    "grid, bare": lambda d: spec_grid(d, indent="", annotate=False),
    "grid, blanks collapsed": lambda d: spec_grid(d, wide=False),
    "grid, fenced": lambda d: f"Look at this:\n\n```\n{spec_grid(d)}```\n\nOdd, is it not?",
    "grid, quoted": lambda d: prefixed("> ", spec_grid(d)),
    "grid, quoted twice": lambda d: prefixed("> > ", spec_grid(d)),
    "grid, in a C comment": lambda d: "/*\n" + prefixed(" * ", spec_grid(d)) + " */",
    "grid, in // comments": lambda d: prefixed("// ", spec_grid(d)),
    "grid, in # comments": lambda d: prefixed("# ", spec_grid(d)),
    "grid and field table": lambda d: spec_grid(d) + "\n" + field_table(d),
    "grid with CRLF": lambda d: spec_grid(d).replace("\n", "\r\n"),
    "grid drawn in boxes": lambda d: spec_grid(d, annotate=False).replace("|", "│").replace("-", "─").replace("+", "┼"),
    "grid, upper case": lambda d: re.sub(
        r"0x[0-9a-f]{2}", lambda m: "0x" + m[0][2:].upper(), spec_grid(d, annotate=False)
    ),
    "field table": field_table,
    "field table, indented": lambda d: prefixed("    ", field_table(d)),
    # hexadecimal
    "hex": lambda d: d.hex(),
    "hex, upper case": lambda d: d.hex().upper(),
    "hex, newline": lambda d: d.hex() + "\n",
    "0x hex": lambda d: "0x" + d.hex(),
    "hex wrapped (xxd -p)": lambda d: "\n".join(textwrap.wrap(d.hex(), 60)) + "\n",
    "hex wrapped at an odd column": lambda d: "\n".join(textwrap.wrap(d.hex(), 33)),
    "hex pairs": pairs,
    "hex pairs, upper case": lambda d: pairs(d).upper(),
    "hex pairs, wrapped": dump("{hex}"),
    "hex pairs, wrapped and indented": dump("\t{hex} ", 8),
    "hex pairs, two gaps": dump("{left}  {right}"),
    "hex groups of 2": lambda d: d.hex(" ", -2),
    "hex groups of 4": lambda d: d.hex(" ", -4),
    "hex groups of 8": lambda d: d.hex(" ", -8),
    "hex with colons": lambda d: pairs(d, ":"),
    "hex with colons, wrapped": lambda d: ":\n".join(pairs(row, ":") for _, row in rows(d)),
    "hex with dashes (BitConverter)": lambda d: pairs(d, "-").upper(),
    "hex with dots": lambda d: pairs(d, "."),
    "hex with commas": lambda d: pairs(d, ","),
    "hex with commas and blanks": lambda d: ", ".join(pairs(d).split()),
    "hex with underscores": lambda d: d.hex("_", 4),
    "hex with slashes": lambda d: pairs(d, "/"),
    "hex with bars": lambda d: pairs(d, "|"),
    "0x bytes": lambda d: hexes(d, " "),
    "0x bytes, commas": lambda d: hexes(d),
    "0x bytes, commas only": lambda d: hexes(d, ","),
    "0x bytes, upper case": lambda d: hexes(d, " ", "0X{:02X}"),
    "0x bytes, unpadded": lambda d: hexes(d, " ", "0x{:x}"),
    "xxd -i of standard input": lambda d: wrapped([f"0x{b:02x}" for b in d], 12) + "\n",
    "80h": lambda d: hexes(d, " ", "{:02x}h"),
    "080h, commas": lambda d: hexes(d, ", ", "0{:02X}h"),
    "$80": lambda d: hexes(d, " ", "${:02x}"),
    "#80": lambda d: hexes(d, " ", "#{:02x}"),
    "#$80": lambda d: hexes(d, ",", "#${:02x}"),
    "&H80": lambda d: hexes(d, ", ", "&H{:02X}"),
    "%80": lambda d: hexes(d, "", "%{:02x}"),
    "16#80": lambda d: hexes(d, ", ", "16#{:02x}"),
    "x80": lambda d: hexes(d, " ", "x{:02x}"),
    "percent-encoded": percent,
    "\\x80 bare": lambda d: hexes(d, "", "\\x{:02x}"),
    "\\x80 bare, spaced": lambda d: hexes(d, " ", "\\x{:02X}"),
    "\\x80 bare, wrapped": lambda d: "\n".join(hexes(row, "", "\\x{:02x}") for _, row in rows(d)),
    "\\u0080 bare": lambda d: hexes(d, "", "\\u{:04x}"),
    "<80570005 1f000210> (NSData)": lambda d: f"<{d.hex(' ', -4)}>",
    "<80 57 …>": lambda d: f"<{pairs(d)}>",
    "(80 57 …)": lambda d: f"({pairs(d)})",
    "[80 57 …]": lambda d: f"[{pairs(d)}]",
    "{80 57 …}": lambda d: "{" + pairs(d) + "}",
    '"80 57 …"': lambda d: f'"{pairs(d)}"',
    '"8057…"': lambda d: f'"{d.hex()}"',
    "'8057…'": lambda d: f"'{d.hex()}'",
    "h'8057…'": lambda d: f"h'{d.hex()}'",
    "x'8057…'": lambda d: f"x'{d.hex().upper()}'",
    "X'8057…' in SQL": lambda d: f"INSERT INTO t VALUES (X'{d.hex()}');",
    "bytea": lambda d: f"\\x{d.hex()}",
    "bytea quoted": lambda d: f"'\\x{d.hex()}'::bytea",
    "bytea E''": lambda d: f"E'\\\\x{d.hex()}'",
    "backticks": lambda d: f"`{d.hex()}`",
    "backticks in prose": lambda d: f"The frame is `{pairs(d)}` here.",
    "numbered lines": lambda d: "\n".join(f"{n}: {pairs(row)}" for n, (_, row) in enumerate(rows(d), 1)),
    "numbered lines (cat -n)": lambda d: "\n".join(f"{n:6}\t{pairs(row)}" for n, (_, row) in enumerate(rows(d), 1)),
    # decimal, octal
    "decimals": lambda d: numbers(d, " "),
    "decimals, commas": lambda d: numbers(d),
    "decimals, lines (jq)": lambda d: numbers(d, "\n"),
    "decimals, signed": lambda d: ", ".join(map(str, signed(d))),
    "decimals, aligned": lambda d: "\n".join(" ".join(f"{b:3d}" for b in row) for _, row in rows(d)),
    # C
    "C array": lambda d: f"unsigned char buf[] = {{ {hexes(d)} }};",
    "C array, wrapped": lambda d: f"uint8_t frame[{len(d)}] = {{\n" + wrapped([f"0x{b:02X}" for b in d], 8) + "\n};",
    "C array, decimal": lambda d: f"const uint8_t buf[] = {{{numbers(d)}}};",
    "C array, casts": lambda d: f"char buf[] = {{ {hexes(d, ', ', '(char)0x{:02x}')} }};",
    "C array, comments": lambda d: f"uint8_t f[] = {{\n{numbered(d, '  0x{1:02x}, // 0x{0:02x} is {1}')}\n}};",
    "C array, block comments": lambda d: "{ " + ", ".join(f"0x{b:02x} /* {b} */" for b in d) + " }",
    "C array, trailing comma": lambda d: f"{{ {hexes(d)}, }}",
    "C++ vector": lambda d: f"const std::vector<uint8_t> bytes = {{\n        {{{hexes(d)}}}}};",
    "C++ std::byte": lambda d: f"std::array<std::byte, {len(d)}> a{{{hexes(d, ', ', 'std::byte{{0x{:02x}}}')}}};",
    "C string": lambda d: f"const char *f = {c_string(d)};",
    "C string, octal": lambda d: c_octal(d),
    "C strings, adjacent": lambda d: "\n".join(c_string(row) for _, row in rows(d, 8)) + ";",
    "xxd -i": lambda d: (
        f"unsigned char f_bin[] = {{\n{wrapped([f'0x{b:02x}' for b in d], 12)}\n}};\nunsigned int f_len = {len(d)};\n"
    ),
    "strace": strace,
    # Go
    "Go []byte": lambda d: f"data := []byte{{{hexes(d)}}}",
    "Go %#v": lambda d: f"[]byte{{{hexes(d, ', ', '0x{:x}')}}}",
    "Go []uint8": lambda d: f"[]uint8{{{hexes(d, ', ', '0x{:x}')}}}",
    "Go %v": lambda d: f"[{numbers(d, ' ')}]",
    "Go %q": go_q,
    "Go []byte of string": lambda d: f"[]byte({go_q(d)})",
    "Go spew": spew,
    # Rust
    "Rust u8": lambda d: f"let f = [0x{d[0]:02x}u8, {hexes(d[1:])}];",
    "Rust slice": lambda d: f"&[{hexes(d)}]",
    "Rust vec!": lambda d: f"vec![{numbers(d)}]",
    "Rust debug": lambda d: f"[{numbers(d)}]",
    "Rust debug, labelled": lambda d: f"Some(Frame {{ bytes: [{numbers(d)}] }})",
    "Rust {:#?}": lambda d: "[\n" + "".join(f"    {b},\n" for b in d) + "]",
    "Rust {:#x?}": lambda d: "[\n" + "".join(f"    0x{b:x},\n" for b in d) + "]",
    'Rust b""': rust_b,
    "Rust Bytes": lambda d: f"Bytes({rust_b(d)})",
    # Java and the JVM
    "Java array": lambda d: "new byte[] {" + ", ".join(f"(byte) 0x{b:02x}" for b in d) + "};",
    "Java array, mixed": lambda d: (
        "byte[] f = new byte[]{" + ", ".join(f"(byte)0x{b:02X}" if b > 127 else str(b) for b in d) + "};"
    ),
    "Java signed": lambda d: "byte[] f = {" + ", ".join(map(str, signed(d))) + "};",
    "Arrays.toString": lambda d: str(signed(d)),
    "Kotlin": lambda d: "byteArrayOf(" + ", ".join(f"0x{b:02x}.toByte()" if b > 127 else f"0x{b:02x}" for b in d) + ")",
    "Kotlin ubyteArrayOf": lambda d: "ubyteArrayOf(" + ", ".join(f"0x{b:02x}u" for b in d) + ")",
    "Scala": lambda d: "val f = Array[Byte](" + ", ".join(map(str, signed(d))) + ")",
    "Clojure": lambda d: "(byte-array [" + " ".join(map(str, signed(d))) + "])",
    "Netty prettyHexDump": netty,
    "Netty in a log": lambda d: (
        "10:00:00.123 [nioEventLoopGroup-2-1] DEBUG i.n.h.l.LoggingHandler - [id: 0xa1b2c3d4] READ: 65B\n" + netty(d)
    ),
    # JavaScript
    "Uint8Array(n) […]": lambda d: f"Uint8Array({len(d)}) [\n{wrapped([f'{b:3d}' for b in d], 12)}\n]",
    "Uint8Array([…])": lambda d: f"new Uint8Array([{numbers(d)}])",
    "<Buffer …>": lambda d: f"<Buffer {pairs(d)}>",
    "Buffer.from hex": lambda d: f"Buffer.from('{d.hex()}', 'hex')",
    "Buffer.from base64": lambda d: f"Buffer.from('{base64(d)}', 'base64')",
    "Buffer as JSON": lambda d: json.dumps({"type": "Buffer", "data": list(d)}),
    "object with indexes": lambda d: json.dumps({str(i): b for i, b in enumerate(d)}),
    "ArrayBuffer": lambda d: f"ArrayBuffer {{\n  [Uint8Contents]: <{pairs(d)}>,\n  byteLength: {len(d)}\n}}",
    "node string": node_string,
    "JSON array, indented": lambda d: json.dumps(list(d), indent=2),
    "JSON string": lambda d: json.dumps(d.decode("latin-1")),
    "JSON with a hex string": lambda d: json.dumps({"msg": "rx", "frame": d.hex(), "n": 3}),
    # Erlang and Elixir
    "Erlang binary": lambda d: f"<<{numbers(d, ',')}>>",
    "Erlang binary, 16#": lambda d: f"<<{hexes(d, ',', '16#{:02X}')}>>.",
    "Erlang binary with a string": erlang_mixed,
    "Elixir binary": lambda d: f"<<{numbers(d)}>>",
    "Elixir binary, hex": lambda d: f"<<{hexes(d, ', ', '0x{:02X}')}>>",
    # Python
    "Python bytes": repr,
    "Python bytearray": lambda d: repr(bytearray(d)),
    "Python bytes, adjacent": lambda d: "frame = (\n" + "\n".join(f"    {row!r}" for _, row in rows(d)) + "\n)",
    "Python fromhex": lambda d: f'bytes.fromhex("{pairs(d)}")',
    "Python bytes([…])": lambda d: f"bytes({list(d)})",
    "Python list of hex": lambda d: str([hex(b) for b in d]),
    "Python hexlify": lambda d: repr(d.hex().encode()),
    "Python REPL": lambda d: f">>> sock.recv(4096)\n{d!r}\n",
    "Python latin-1 str": lambda d: repr(d.decode("latin-1")),
    "scapy show": lambda d: f"###[ Raw ]### \n     load      = {d!r}\n",
    # other languages
    "Perl pack": lambda d: f'my $f = pack("H*", "{d.hex()}");',
    "Ruby inspect": lambda d: f"=> {go_q(d)}".replace("\\x0", "\\u000"),
    "C# array": lambda d: f"new byte[] {{ {hexes(d, ', ', '0x{:02X}')} }}",
    "Swift": lambda d: f"let f: [UInt8] = [{hexes(d)}]",
    "Haskell": haskell,
    "Haskell list": lambda d: f"pack [{numbers(d, ',')}]",
    "Lua": lua,
    "shell $''": lambda d: "$'" + hexes(d, "", "\\x{:02x}") + "'",
    "printf": lambda d: "printf '" + hexes(d, "", "\\x{:02x}") + "'",
    "printf, octal": lambda d: "printf '" + hexes(d, "", "\\{:03o}") + "'",
    "assembler .byte": lambda d: "\n".join(f"\t.byte {hexes(row)}" for _, row in rows(d, 8)),
    "assembler db": lambda d: "frame db " + hexes(d, ", ", "0{:02x}h"),
    "PHP array": lambda d: f"array({numbered(d, '{} => {}', ', ')})",
    # dumps
    "xxd": xxd,
    "xxd -u": lambda d: xxd(d, upper=True),
    "xxd -c 8": lambda d: xxd(d, 8),
    "xxd -c 32": lambda d: xxd(d, 32),
    "xxd -c 256": lambda d: xxd(d, 256),
    "xxd -g 1": lambda d: xxd(d, group=1),
    "xxd -g 4": lambda d: xxd(d, group=4),
    "xxd -g 8": lambda d: xxd(d, group=8),
    "xxd -b": lambda d: "\n".join(f"{at:08x}: {numbers(r, ' ', '08b'):53}  {shown(r)}" for at, r in rows(d, 6)),
    "xxd after its command": lambda d: "$ xxd frame.bin\n" + xxd(d),
    "xxd, fenced": lambda d: f"```\n{xxd(d)}```",
    "xxd, quoted": lambda d: prefixed("> ", xxd(d)),
    "xxd, in a comment": lambda d: prefixed("# ", xxd(d)),
    "xxd, in HTML": lambda d: html(xxd(d)),
    "xxd, in a diff": lambda d: prefixed("+", xxd(d)),
    "xxd, coloured": lambda d: re.sub(r"(?m)^(\w+):", "\x1b[1;32m\\1:\x1b[0m", xxd(d)),
    "xxd, logged": lambda d: prefixed("2026-11-20 10:00:00,123 DEBUG conn: ", xxd(d)),
    "xxd, non-breaking blanks": lambda d: xxd(d).replace(" ", "\u00a0"),
    "xxd, CRLF and a BOM": lambda d: "\ufeff" + xxd(d).replace("\n", "\r\n"),
    "hexdump -C": hexdump_c,
    "hexdump -vC": lambda d: hexdump_c(d, squeeze=False),
    "hexdump -C without its last line": lambda d: hexdump_c(d, squeeze=False).rsplit("\n", 2)[0],
    "hexdump -C in Jira": lambda d: f"{{code}}\n{hexdump_c(d)}{{code}}",
    "hexdump -C in Jira, titled": lambda d: f"{{code:title=frame|borderStyle=solid}}\n{hexdump_c(d)}{{code}}",
    "hexdump -e 1/1": lambda d: "".join(f"{b:02x} " for b in d),
    "hexdump -b": lambda d: od(d, lambda b: f"{b:03o}", "07x"),
    "hexdump -c": lambda d: od(d, od_character, "07x"),
    "od -A x -t x1": lambda d: od(d, lambda b: f"{b:02x}", "06x"),
    "od -t x1": lambda d: od(d, lambda b: f"{b:02x}"),
    "od -A d -t x1": lambda d: od(d, lambda b: f"{b:02x}", "07d"),
    "od -A n -t x1": lambda d: od(d, lambda b: f"{b:02x}", ""),
    "od -t x1z": lambda d: od(d, lambda b: f"{b:02x}", "07o", text=True),
    "od -A x -t x1z": lambda d: od(d, lambda b: f"{b:02x}", "06x", text=True),
    "od -A n -t x1z": lambda d: od(d, lambda b: f"{b:02x}", "", text=True),
    "od -w8 -t x1": lambda d: od(d, lambda b: f"{b:02x}", width=8),
    "od -t u1": lambda d: od(d, lambda b: f"{b:3d}"),
    "od -A n -t u1": lambda d: od(d, lambda b: f"{b:3d}", ""),
    "od -t d1": lambda d: od(d, lambda b: f"{b - 256 if b > 127 else b:4d}"),
    "od -t o1": lambda d: od(d, lambda b: f"{b:03o}"),
    "od -c": lambda d: od(d, od_character),
    "Wireshark hex dump": dump("{at:04x}   {hex:47}"),
    "Wireshark hex + ASCII dump": dump("{at:04x}   {hex:47}   {text}"),
    "Wireshark escaped string": lambda d: " \\\n".join(c_string(row) for _, row in rows(d)),
    "Wireshark C array": wireshark_c,
    "Format-Hex": dump("{at:08X}   {HEX:47}  {text}", head=f"\n           {COLUMNS}\n\n", tail="\n"),
    "Format-Hex, PowerShell 7": format_hex_7,
    "certutil -encodehex": dump("{at:04x}\t{left:23}  {right:23}   {text}"),
    "WinDbg db": dump("0000001f`{at:08x}  {dashed:47}  {text}", start=0x3A0),
    "gdb x/xb": gdb_xb,
    "gdb x/xb with symbols": gdb_xb_symbols,
    "gdb x/ub": lambda d: re.sub(r"\t0x(..)", lambda m: f"\t{int(m[1], 16)}", gdb_xb(d)),
    "gdb p/x": gdb_repeats,
    "gdb p": lambda d: "$1 = " + c_octal(d),
    "gdb p, repeats": gdb_string_repeats,
    "gdb p of unsigned char": lambda d: "$1 = {" + ", ".join(f"{b} '\\{b:03o}'" for b in d) + "}",
    "gdb std::vector": lambda d: f"$1 = std::vector of length {len(d)}, capacity 80 = {{{numbers(d)}}}",
    "lldb memory read": dump("0x{at:x}: {hex:47}  {text}", head="(lldb) memory read buf\n", start=0x100803200),
    "lldb memory read -f x -s 1": lambda d: re.sub(r"(?m)^0x7ffe", "0x16fdff", gdb_xb(d).replace("\t", " ")),
    "lldb vector": lambda d: f"(std::vector<uint8_t>) $0 = size={len(d)} {{\n{numbered(d, '  [{}] = 0x{:02x}')}\n}}",
    "radare2 px": dump("0x{at:08x}  {words:39}  {text}", head=RADARE),
    "IDA": dump(".data:{at:08X}  {HEX:47}  {text}", start=0x404000),
    "scapy hexdump": dump("{at:04x}  {HEX:47}  {text}"),
    "openssl BIO dump": dump("{at:04x} - {dashed:47}   {text}"),
    "UltraEdit": dump("{at:08X}h: {HEX:47} ; {text}"),
    "offsets with a colon": dump("{at:04x}: {hex}"),
    "offsets in brackets": dump("[{at:04x}] {hex}"),
    "0x offsets": dump("0x{at:04x} {hex}"),
    "decimal offsets": dump("{at:04d}: {hex}"),
    "memcached -vv": dump("<28    {cells}", 4, "<28 Read binary protocol data:\n"),
    # base64
    "base64": base64,
    "base64, unpadded": lambda d: base64(d).rstrip("="),
    "base64url": lambda d: urlsafe_b64encode(d).decode(),
    "base64, wrapped": lambda d: base64(d, 32),
    "base64, PEM": lambda d: f"-----BEGIN FRAME-----\n{base64(d, 64)}\n-----END FRAME-----\n",
    "base64, data: URI": lambda d: "data:application/octet-stream;base64," + base64(d),
    # logs
    "log, hex pairs": lambda d: log("rx " + pairs(d)),
    "log, hex": lambda d: log("frame=" + d.hex()),
    "log, quoted hex": lambda d: log(f'msg="got frame" key="{d.hex()}" len={len(d)}'),
    "log, hex with colons": lambda d: log("rx " + pairs(d, ":")),
    "log, 0x bytes": lambda d: log("rx: " + hexes(d, " ")),
    "log, 0x hex": lambda d: "[DEBUG] frame=0x" + d.hex(),
    "log, Go %v": lambda d: log(f"read {len(d)} bytes: [{numbers(d, ' ')}]"),
    "log, Python bytes": lambda d: log(f"recv {d!r}"),
    "log, base64": lambda d: log("payload=" + base64(d)),
    "log, two lines of hex": lambda d: (
        log("rx " + pairs(d[:32])) + "\n" + log("rx " + pairs(d[32:])) if len(d) > 32 else log(pairs(d))
    ),
    "label: hex": lambda d: "Frame: " + d.hex(),
    "label = hex pairs": lambda d: "data = " + pairs(d),
    "prose": lambda d: f"I see this on the wire: {pairs(d)}. What is it?",
    "smart quotes": lambda d: f"“{d.hex()}”",
    "binary": lambda d: " ".join(f"0b{b:08b}" for b in d),
    "binary, once prefixed": lambda d: "0b" + " ".join(f"{b:08b}" for b in d),
    "binary, nibbles apart": lambda d: ", ".join(f"0b{b >> 4:04b}_{b & 15:04b}" for b in d),
    "binary, one number": lambda d: f"0b{int.from_bytes(d, 'big'):0{8 * len(d)}b}",
    "zero-width blanks": lambda d: pairs(d).replace(" ", "\u200b "),
}


def pieces(data: bytes, width: int = 16) -> list[bytes]:
    return [row for _, row in rows(data, width)]


MORE: dict[str, Printer] = {
    "rows only": lambda d: "\n".join(f"{at:2}| {hexes(row, ' | ')} |" for at, row in rows(d, 4)),
    "grid tabs": lambda d: spec_grid(d).replace("      ", "\t"),
    "md table": lambda d: (
        dump("| {cells} |", 4, "| 0 | 1 | 2 | 3 |\n|---|---|---|---|\n")(d).replace(" 0x", " | 0x").replace("| |", "|")
    ),
    "md table ticks": lambda d: dump("| `{cells}` |", 4, "| b0 | b1 | b2 | b3 |\n|---|---|---|---|\n")(d).replace(
        " 0x", "` | `0x"
    ),
    "np.array": lambda d: f"array({list(d)}, dtype=uint8)",
    "np wrapped": lambda d: "array([" + wrapped([f"{b:3d}" for b in d], 12).strip() + "], dtype=uint8)",
    "triple": lambda d: 'bytes.fromhex("""\n' + "\n".join(pairs(r) for r in pieces(d)) + '\n""")',
    "go array": lambda d: f"[{len(d)}]byte{{{hexes(d)}}}",
    "rust u8s": lambda d: "[" + ", ".join(f"{b}u8" for b in d) + "]",
    "rust 02x?": lambda d: "[" + ", ".join(f"{b:02x}" for b in d) + "]",
    "erl shell": lambda d: (
        "1> gen_tcp:recv(S, 0).\n{ok,<<" + numbers(d, ",").replace(",0,0,0,", ",0,\n      0,0,", 1) + ">>}"
    ),
    "gdb x/s": lambda d: "0x404040 <buf>:\t" + c_octal(d),
    "gdb x/cb": lambda d: "\n".join(
        f"0x{0x7FFE + at:x}:\t" + "\t".join(f"{b - 256 if b > 127 else b} '\\{b:03o}'" for b in r)
        for at, r in rows(d, 8)
    ),
    "gdb x/cb2": lambda d: "\n".join(
        f"0x{0x7FFE + at:x} <buf+{at}>:\t"
        + "\t".join(
            f"{b - 256 if b > 127 else b} '"
            + (c_octal(bytes([b]))[1:-1] if b not in (39, 34) else {39: "\\'", 34: '"'}[b])
            + "'"
            for b in r
        )
        for at, r in rows(d, 8)
    ),
    "lldb p/x": lambda d: f"(uint8_t[{len(d)}]) $0 = ({numbered(d, '[{}] = 0x{:02x}', ', ')})",
    "lldb p": lambda d: f"(uint8_t[{len(d)}]) $0 = {{\n" + numbered(d, "  [{}] = '\\x{:02x}'") + "\n}",
    "json hexlist": lambda d: json.dumps([f"{b:02x}" for b in d]),
    "json 0xlist": lambda d: json.dumps([f"0x{b:02x}" for b in d]),
    "ngrep -x": dump("  {left:23}    {right:23}    {text}", head="T 10.0.0.1:11210 -> 10.0.0.2:50123 [AP] #4\n"),
    "socat -x": lambda d: "> 2026/11/20 10:00:00.123456  length=65 from=0 to=64\n " + pairs(d),
    "mysql box": lambda d: "+------+\n| HEX(v) |\n+------+\n| " + d.hex().upper() + " |\n+------+\n1 row in set",
    "psql": lambda d: "  data  \n--------\n \\x" + d.hex() + "\n(1 row)\n",
    "psql escape": lambda d: literal(d, "\\", lambda byte, _: f"\\{byte:03o}", ""),
    "redis": lambda d: "1) " + go_q(d),
    "curl": lambda d: f"<= Recv data, {len(d)} bytes (0x{len(d):x})\n" + dump("{at:04x}: {hex:47} {text}")(d),
    "perl x{}": lambda d: '"' + hexes(d, "", "\\x{{{:02x}}}") + '"',
    "pg b64": lambda d: f"decode('{base64(d)}', 'base64')",
    "scheme": lambda d: f"#vu8({numbers(d, ' ')})",
    "smalltalk": lambda d: f"#[{numbers(d, ' ')}]",
    "lisp": lambda d: "#(" + hexes(d, " ", "#x{:02x}") + ")",
    "ocaml": lambda d: literal(d, '"\\', lambda byte, _: f"\\{byte:03d}"),
    "okio": lambda d: f"[size={len(d)} hex={d.hex()}]",
    "scodec": lambda d: f"ByteVector({len(d)} bytes, 0x{d.hex()})",
    "yaml": lambda d: "frame: !!binary |\n" + base64(d, 40, "  "),
    "echo xxd": lambda d: f"$ echo {d.hex()} | xxd -r -p | nc localhost 11210",
    "b64 quoted": lambda d: f'"{base64(d)}"',
    "b64 json": lambda d: json.dumps({"payload": base64(d)}),
    "b64 ticks": lambda d: f"`{base64(d)}`",
    "js latin": lambda d: "const s = " + json.dumps(d.decode("latin-1")) + ";",
    "node util deep": lambda d: "{\n  frame: <Buffer " + pairs(d) + ">,\n  n: 1\n}",
    "ts hexlines": lambda d: "\n".join(f"{n:02d}| {pairs(r)}" for n, (_, r) in enumerate(rows(d), 1)),
    "offset dash": lambda d: "\n".join(f"{at:04x}-{at + 15:04x}  {pairs(r)}" for at, r in rows(d)),
    "hexyl": lambda d: (
        "┌────────┬─────────────────────────┬─────────────────────────┬────────┬────────┐\n"
        + "\n".join(
            f"│{at:08x}│ {pairs(r[:8]):23} ┊ {pairs(r[8:]):23} │{shown(r[:8]):8}┊{shown(r[8:]):8}│" for at, r in rows(d)
        )
        + "\n└────────┴─────────────────────────┴─────────────────────────┴────────┴────────┘"
    ),
    "pretty-hex": lambda d: (
        f"Length: {len(d)} (0x{len(d):x}) bytes\n"
        + "\n".join(
            f"{at:04x}:   " + "  ".join(pairs(r[i : i + 4]) for i in range(0, len(r), 4)).ljust(53) + "   " + shown(r)
            for at, r in rows(d)
        )
    ),
    "hexdump canonical js": dump("{at:08x}: {hex:47} | {text}"),
    "tab sep": lambda d: pairs(d, "\t"),
    "0x commas lines": lambda d: wrapped([f"0x{b:02x}" for b in d], 8),
    "0x upper no sep": lambda d: "0X" + d.hex().upper(),
    "\\X": lambda d: hexes(d, "", "\\X{:02X}"),
    "quoted pieces +": lambda d: " +\n".join(f'"{r.hex()}"' for r in pieces(d)),
    "py hexlines": lambda d: "(\n" + "\n".join(f'  "{r.hex()}"' for r in pieces(d)) + "\n)",
    "c cont": lambda d: "#define FRAME \\\n" + " \\\n".join(c_string(r) for r in pieces(d)),
    "c octal ints": lambda d: "{" + ", ".join(f"'\\{b:03o}'" for b in d) + "}",
    "c 0x u": lambda d: "{" + hexes(d, ", ", "0x{:02x}U") + "}",
    "kv dump": lambda d: "\n".join(f"> {r.hex(' ')}" for r in pieces(d)),
    "slack": lambda d: f"```{pairs(d)}```",
    "log wrapped bracket": lambda d: f"[2026-11-20 10:00:00,123] {{worker}} INFO <<< [{pairs(d)}] (conn=3)",
    "syslog": lambda d: f"Nov 20 10:00:00 host memcached[123]: rx {d.hex()}",
    "k8s json log": lambda d: json.dumps(
        {"ts": "2026-11-20T10:00:00Z", "level": "debug", "msg": "rx " + d.hex(" "), "n": 65}
    ),
    "logfmt": lambda d: f'ts=2026-11-20T10:00:00Z level=debug msg="rx frame" data={d.hex()} n=65',
    "xxd log ts": lambda d: prefixed("Nov 20 10:00:00 host app[12]: ", xxd(d)),
    "hexdump log br": lambda d: prefixed("[2026-11-20 10:00:00] DEBUG - ", hexdump_c(d)),
    "go test": lambda d: "    frame_test.go:12: got  " + hexes(d, " ", "{:02x}"),
    "pairs bracket log": lambda d: f"10:00:00 rx[65]: {pairs(d)}",
    "log trailing": lambda d: f"rx {d.hex()} ({len(d)} bytes)",
    "log len pre2": lambda d: f"recv {len(d)} {pairs(d)} done",
    "java log": lambda d: f"2026-11-20 10:00:00 [main] DEBUG c.c.Client - rx [{', '.join(map(str, signed(d)))}]",
    "hex grouped wrapped": lambda d: "\n".join(r.hex(" ", -2) for r in pieces(d)),
    "two cols": lambda d: "\n".join(r.hex(" ", -4) + "  " + shown(r) for r in pieces(d)),
    "curly u": lambda d: hexes(d, "", "\\u{{{:x}}}"),
    "swift str": lambda d: '"' + hexes(d, "", "\\u{{{:02x}}}") + '"',
}
