"""Wire text made safe: whatever a document holds, what is shown shows as itself and moves no cursor."""

import json
import subprocess
import sys
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.escape import safe, safe_json
from dcpdump.wire.encode import encode

EVIL = {
    "clear the screen": b"\x1b[2J\x1b[H",
    "set the title": b"\x1b]0;pwned\x07",
    "8-bit control sequence": "\x9b31m".encode(),
    "a bare C1 byte": b"\x9b31m",
    "backspaces": b"password\x08\x08\x08",
    "carriage return": b"good\rbad",
    "newline": b"one\ntwo\r\n",
    "NUL": b"a\0b",
    "DEL": b"a\x7fb",
    "right-to-left override": "abc\u202etxt.exe".encode(),
    "isolates": "\u2066\u2067\u2068\u2069".encode(),
    "zero width": "a\u200bb\u200dc\ufeffd".encode(),
    "line separator": "a\u2028b\u2029c".encode(),
    "tags": "\U000e0041\U000e007f".encode(),
    "private use": "\ue000\U000f0000".encode(),
    "overlong UTF-8": b"\xc0\x80\xe0\x80\x80",
    "surrogates": b"\xed\xa0\x80\xed\xbf\xbf",
    "noncharacters": "\ufffe\uffff\U0010ffff".encode(),
    "soft hyphen": "a\u00adb".encode(),
    "rich markup": b"[bold red]x[/] [link=http://evil]y[/link]",
    "spreadsheet formula": b'=cmd|"/c calc"!A1',
    "not UTF-8": b"\xff\xfe\x80",
    "half of a character": "é".encode()[:1],
    "CSV quotes": b'a,"b"\n,c',
}


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        (b"hello", "hello"),
        ("grüße 東京 😀".encode(), "grüße 東京 😀"),
        (b"\x1b[2J", "\\x1b[2J"),
        (b"\0\n\r\t\x7f", "\\x00\\x0a\\x0d\\x09\\x7f"),
        ("\x9b".encode(), "\\xc2\\x9b"),
        (b"\xff", "\\xff"),
        ("\u202e".encode(), "\\xe2\\x80\\xae"),
        ("\u2028".encode(), "\\xe2\\x80\\xa8"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
        ("\U000e0041".encode(), "\\xf3\\xa0\\x81\\x81"),
        ("\u00a0\u3000".encode(), "\u00a0\u3000"),
        ("a\ud800", "a\\xed\\xa0\\x80"),
        ("", ""),
    ],
)
def test_text_comes_out_as_itself_and_everything_else_as_the_bytes_it_is(wire: bytes | str, text: str) -> None:
    assert safe(wire) == text


def unsafe(text: str) -> list[str]:
    return [char for char in text if category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")]


@given(st.one_of(st.binary(), st.text(), st.sampled_from(sorted(EVIL.values()))))
def test_nothing_unsafe_passes(wire: bytes | str) -> None:
    assert unsafe(safe(wire)) == []


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_printable_text_is_not_touched(text: str) -> None:
    assert safe(text.encode()) == text


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_json_made_safe_is_the_same_json(document: object) -> None:
    text = safe_json(json.dumps(document, ensure_ascii=False))
    assert unsafe(text) == []
    assert json.loads(text) == document


def everything_evil() -> bytes:
    """Return frames that hold evil text wherever text can stand."""
    out = []
    for evil in EVIL.values():
        block = (len(evil) * 2 + 2).to_bytes(4, "big") + evil.replace(b"\0", b"") + b"\0" + evil + b"\0"
        xattrs = len(block).to_bytes(4, "big") + block
        quoted = evil.decode("utf-8", "replace").replace("\\", "").replace('"', "")
        control = ('{"uid":"' + "".join(c for c in quoted if c >= " ") + '"}').encode()
        out += [
            encode("DCP_OPEN", {"flags": 1}, key=evil, value=control),
            encode("DCP_CONTROL", key=evil, value=evil),
            encode("DCP_STREAM_REQ", value=control),
            encode("DCP_STREAM_REQ", value=b'{"' + evil + b'":1}'),
            encode("DCP_STREAM_REQ", response=True, status=4, value=control, datatype=1),
            encode("DCP_MUTATION", {"by_seqno": 1}, key=evil, value=evil),
            encode("DCP_MUTATION", {"by_seqno": 1, "clen": 1}, key=evil, value=evil),
            encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=xattrs + evil, datatype=4),
            encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=evil, datatype=3),
            encode("DCP_SYSTEM_EVENT", {"event": 0, "version": 2, "name_in_scope": evil}, key=evil),
            encode("DCP_CACHE_TRANSFER", {"items": [{"key": b"\0" + evil, "value": evil}]}),
            encode("DCP_NOOP", framing=bytes((0x4F, len(evil) - 15)) + evil if len(evil) > 15 else b"\x41" + evil[:1]),
            encode("HELLO", key=evil),
            encode("SASL_AUTH", key=evil, value=evil),
            encode("STAT", key=evil, response=True, value=evil),
        ]
    return b"".join(out)


@pytest.mark.parametrize("form", ["table", "grid", "line", "ndjson", "csv"])
def test_no_output_carries_a_character_that_came_from_the_wire_and_is_none(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dcpdump", "explain", "--form", "raw", "-f", form, "--value-bytes", "all"],
        input=everything_evil(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for text in (done.stdout.decode(), done.stderr.decode()):
        assert {char for char in unsafe(text) if char not in "\r\n"} == set()
