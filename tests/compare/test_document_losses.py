"""``diff --by key`` of captures with losses: a document of which bytes can be missing is not called different."""

import json
from pathlib import Path

import pytest

from dcpdump.net.packet import Packet
from tests.support.console import Printed, run
from tests.support.conversation import packets, said
from tests.support.secret_talk import saved
from tests.support.two_captures import mutations, rows, stream

NOOPS = "WAIT 1\nRX noop{opaque=0x81969800}\nTX noop-response{success}\n"
#: Two connections with a vbucket each; keys of the first change again.
TALK = stream(range(1, 7)) + mutations([11, 12]).replace("key=k1", "key=k") + NOOPS
TALK += "CONNECT\n" + stream(range(1, 5), 8, "w") + NOOPS


def compared(folder: Path, a: list[Packet], b: list[Packet], options: str = "-f ndjson") -> Printed:
    first, second = saved(a, folder / "a.pcap"), saved(b, folder / "b.pcap")
    return run(f"dcpdump diff {first} {second} -q --by key {options}")


def of_mutations(captured: list[Packet]) -> list[int]:
    """Return where the packets with a mutation are."""
    return [at for at, each in enumerate(captured) if each.data[54:56] == b"\x80\x57"]


@pytest.mark.parametrize("lossy", ["a", "b"])
def test_no_document_is_accused_whichever_packet_was_lost(lossy: str, tmp_path: Path) -> None:
    whole = packets(said(TALK))
    for at in of_mutations(whole):
        cut = whole[:at] + whole[at + 1 :]
        printed = compared(tmp_path, *((cut, whole) if lossy == "a" else (whole, cut)))
        (total,) = rows(printed, "documents")
        found = rows(printed, "document")
        assert {row["cause"] for row in found} <= {"lost"}
        assert (total["only_a"], total["only_b"], total["changed"]) == (0, 0, 0)
        assert (total.get("unknown", 0), printed.code) == (len(found), 4)


def test_keys_that_the_snaplen_cut_are_not_missing(tmp_path: Path) -> None:
    whole = packets(said(TALK))
    cut = [each._replace(data=each.data[:109], wire_length=len(each.data)) for each in whole]
    printed = compared(tmp_path, whole, cut, "")
    assert printed.code == 4
    why = {row["why"] for row in rows(compared(tmp_path, whole, cut), "document")}
    assert why == {
        "cannot be known: B's capture lacks 34 bytes and has 8 changes that cannot be compared",
        "cannot be known: B's capture lacks 16 bytes and has 4 changes that cannot be compared",
    }
    assert printed.out.splitlines()[-1] == (
        "documents by their last change: 0 documents equal, 0 changed, 0 only in A, 0 only in B, "
        "10 not known, as bytes were not captured"
    )


def test_what_no_loss_explains_still_differs(tmp_path: Path) -> None:
    """Bytes of one connection are lost; documents of the other connection's vbucket are not in doubt."""
    whole = packets(said(TALK.replace("key=k3, value=w3", "key=k3, value=other")))
    first = of_mutations(whole)[2]
    printed = compared(tmp_path, packets(said(TALK)), whole[:first] + whole[first + 1 :])
    found = {(row["vbucket"], row["key"]): row.get("cause") for row in rows(printed, "document")}
    assert (found, printed.code) == ({(7, "k3"): "lost", (8, "k3"): None}, 1)


def test_an_older_change_in_the_whole_capture_is_a_difference(tmp_path: Path) -> None:
    """B lost bytes, and has the later change: what A lacks, no loss explains."""
    older = packets(said(TALK.replace(mutations([11, 12]).replace("key=k1", "key=k"), "")))
    newer = packets(said(TALK))
    first = of_mutations(newer)[3]
    printed = compared(tmp_path, older, newer[:first] + newer[first + 1 :])
    found = [(row["key"], row.get("differs"), row.get("cause")) for row in rows(printed, "document")]
    differ = ["seqno", "cas", "value"]
    assert found == [("k1", differ, None), ("k2", differ, None), ("k4", None, "lost")]
    assert json.loads(printed.out.splitlines()[-1])["unknown"] == 1
