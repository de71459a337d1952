"""The table says of values what they are: JSON, valid or not and why, or binary; of compressed ones both sizes."""

from pathlib import Path

import cramjam
import pytest

from dcpdump.render.value_note import is_binary
from tests.support.console import contents, run
from tests.support.conversation import opening
from tests.support.diagnoses import written


def packed(value: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(value))


STREAM = "STREAM vb=5\nRX snapshot-marker{start=0, end=9, flags=0x5}\n"
LONG = b'{"text":"' + b"a" * 100 + b'"}'
HEAD = LONG[:64].decode() + "… +47 B"
DEEP = b"[" * 2000 + b"]" * 2000
CASES = [
    (1, b'{"a":1}', '{"a":1} (JSON, valid)'),
    (1, b'{"a" 1}', '{"a" 1} (JSON, not valid: at byte 5 there is no colon)'),
    (1, b'{"a":', '{"a": (JSON, not valid: it ends too soon)'),
    (1, DEEP, "[" * 64 + "… +3,936 B (JSON)"),
    (0, b"plain text", "plain text"),
    (0, b"two\nlines", "two\\x0alines"),
    (0, b"\x00\x01\xff", "\\x00\\x01\\xff (binary)"),
    (0, b"a" * 63 + "ä".encode() + b"b" * 9, "a" * 63 + "\\xc3… +10 B"),
    (2, packed(LONG), f"{HEAD} (Snappy, 111 bytes, 21 on the wire)"),
    (3, packed(LONG), f"{HEAD} (JSON|Snappy, valid, 111 bytes, 21 on the wire)"),
    (2, packed(b"\x00" * 9), "\\x00" * 9 + " (Snappy, binary, 9 bytes, 11 on the wire)"),
]


def value_line(folder: Path, datatype: int, value: bytes, options: str) -> str:
    line = f"RX mutation{{seqno:1, key=a, datatype={datatype}, value=#{value.hex()}}}\n"
    path = written(opening() + STREAM + line, folder / "talk.pcap")
    printed = run(f"dcpdump read {path} --opcode mutation -q {options}").out
    (found,) = [each for each in printed.splitlines() if "Value" in each]
    return found.replace("\x1b[0m", "")


def test_binary_is_what_is_no_text() -> None:
    texts = [b"", b"a\tb\r\n", "größer".encode(), b"\xe2\x82", b"\x1b[0m", b"\xff"]
    assert [is_binary(text, cut=False) for text in texts] == [False, False, False, True, True, True]
    assert not is_binary(b"\xe2\x82", cut=True)


@pytest.mark.parametrize("options", ["", "--color always"])
@pytest.mark.parametrize(("datatype", "value", "shown"), CASES, ids=range(len(CASES)))
def test_a_value_is_described(tmp_path: Path, datatype: int, value: bytes, shown: str, options: str) -> None:
    assert value_line(tmp_path, datatype, value, options).endswith(f": {shown}")


def test_a_hidden_value_is_described_as_it_was(tmp_path: Path) -> None:
    notes = [value_line(tmp_path, datatype, value, "--redact").partition(" (JSON")[2] for datatype, value, _ in CASES]
    wanted = [", valid)", ", not valid: at byte 5 there is no colon)", ", not valid: it ends too soon)", ")"]
    assert notes == [*wanted, *[""] * 5, "|Snappy, valid, 111 bytes, 21 on the wire)", ""]


@pytest.mark.parametrize("command", ["read -f ndjson", "export -f csv"])
def test_more_than_any_value_has_is_all_of_it(command: str, tmp_path: Path) -> None:
    found = []
    for most in ("all", *("9" * digits for digits in (18, 20, 5000))):
        asked = f"dcpdump {command} samples/replica.pcap -o {tmp_path}/out --force -q --value-bytes {most}"
        found.append((run(asked).code, contents(tmp_path / "out")))
    assert found == [found[0]] * 4
