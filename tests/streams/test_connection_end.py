"""How a connection ended: what its server closed it for."""

import pytest

from dcpdump.streams.verdict import Judge
from tests.support.conversation import opening
from tests.support.ledgers import ledger

STREAM = "STREAM vb=5\nRX snapshot-marker{start=0, end=2, flags=0x5}\nRX mutation{seqno:1}\nRX mutation{seqno:2}\n"
TAKEN = "; connection 1 took its name at 12:00:02.022, and a server closes the older"


def why(before: str, name: str, after: str) -> str:
    """Return what is said of a stream whose connection ends around another that is opened."""
    first = "CONNECT 10.0.7.30:40000 10.0.0.1:11210\n" + opening() + STREAM
    other = "CONNECT 10.0.7.31:40000 10.0.0.1:11210\n" + opening(name=name)
    kept = ledger(f"{first}{before}WAIT 2\n{other}ON 0\n{after}WAIT 5\nON 1\nRX noop\n")
    return Judge(kept).verdict(kept.streams[0]).why


def test_a_server_closes_a_connection_whose_name_another_takes() -> None:
    assert why("", "app", "FIN RX\n") == (
        f"connection closed by its server at 12:00:02.026, no STREAM_END{TAKEN}; abandoned: not asked for again in 5 s"
    )


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [("", "another", "FIN RX\n"), ("FIN RX\n", "app", ""), ("", "app", "FIN TX\n"), ("", "app", "WAIT 61\nFIN RX\n")],
    ids=["another name", "closed before", "closed by the client", "closed much later"],
)
def test_a_connection_that_ended_otherwise_was_not_closed_for_its_name(before: str, name: str, after: str) -> None:
    assert "name" not in why(before, name, after)
