"""A level of redaction means one thing: what ``redact`` conceals in a capture, ``--redact`` hides in output."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpdump.capture import open_capture
from dcpdump.disclosure import is_damaged, is_stray
from dcpdump.dissect import Dissector
from dcpdump.net.packet import Packet
from dcpdump.pseudonymize import Pseudonyms
from dcpdump.record import Record
from dcpdump.redact import Redactor
from dcpdump.rewrite.concealed_frame import Concealer
from dcpdump.spec.field import Blob
from tests.support.check_cases import CASES
from tests.support.conversation import packets, said

SAMPLES = sorted(Path("samples").glob("*.pcap"))


def records(captured: list[Packet]) -> Iterator[Record]:
    dissector = Dissector()
    for packet in captured:
        yield from dissector.feed(packet)
    yield from dissector.close()


def everything() -> Iterator[Record]:
    for path in SAMPLES:
        yield from records(list(open_capture(str(path))))
    for case in CASES.values():
        yield from records(packets(said(case.trips)))
        yield from records(packets(said(case.spares)))


def changed(record: Record, data: bytes) -> set[str]:
    """Return the fields of a frame whose bytes are others in ``data``; short texts may stay by chance."""
    whole = record.frame.raw.data
    return {
        f"{record.frame.message.name} {field.section.name} {field.field.name}"
        for field in record.frame.fields
        if isinstance(field.field, Blob) and field.end - field.start >= 4
        if whole[field.start : field.end].strip(b"\0")  # the lengths of xattrs that are not there
        if whole[field.start : field.end] != data[field.start : field.end]
    }


@pytest.mark.parametrize("full", [False, True], ids=["partial", "full"])
def test_redact_and_read_hide_the_same_fields(full: bool) -> None:
    redactor, concealer = Redactor(b"salt", full=full), Concealer(Pseudonyms(b"salt"), full=full)
    seen: set[str] = set()
    for record in everything():
        if is_damaged(record.frame) or is_stray(record.frame):
            continue  # of those both hide all bytes that are not certainly numbers
        shown = changed(record, redactor.record(record).frame.raw.data)
        seen |= shown
        assert shown == changed(record, concealer.conceal(record).data), record.frame.message.name
    assert ("DCP_SYSTEM_EVENT KEY key" in seen) == full
    assert {"DCP_MUTATION KEY key", "DCP_MUTATION VALUE value", "SELECT_BUCKET KEY key"} <= seen
