"""Captures of conversations as files, and what ``diagnose`` makes of them."""

import json
from pathlib import Path
from typing import Any

from tests.support.captures import pcap, records_of
from tests.support.console import run
from tests.support.conversation import opening
from tests.support.ledgers import captured

#: The stream that is worse off was requested last.
TWO_TROUBLES = (
    opening()
    + """
TX stream-request{vb=5, start-seqno=9}
RX stream-request-response{rollback, rollback-seqno=0}
STREAM vb=6
RX snapshot-marker{start=0, end=1, flags=0x1}
RX mutation{seqno:1}
RX stream-end{status=4}
"""
)


def written(text: str, path: Path) -> Path:
    """Write the capture of a conversation, of which lines may be lost, and return its path."""
    path.write_bytes(pcap(records_of(captured(text))))
    return path


def objects(command: str) -> list[Any]:
    """Return what a command prints as objects."""
    return [json.loads(line) for line in run(f"{command} -q -f ndjson").out.splitlines()]


def rows(text: str, path: Path, kind: str, options: str = "") -> list[Any]:
    """Return the rows of one type that ``diagnose`` has on a conversation."""
    written(text, path)
    return [row for row in objects(f"dcpdump diagnose {path} {options}") if row["type"] == kind]
