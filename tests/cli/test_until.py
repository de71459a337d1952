"""``--until`` of the commands that judge: as if the capture had ended then."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dcpdump.net.packet import Packet
from tests.support.check_cases import items
from tests.support.console import run
from tests.support.conversation import opening, said
from tests.support.conversation import packets as packed
from tests.support.packets import NOON, SECOND, TcpTalk, flow
from tests.support.secret_talk import saved

DOCUMENTS = "STREAM vb=5\nRX snapshot-marker{start=0, end=3, flags=0x6}\n" + items(1, 3)
NOOP = "WAIT 19\nRX noop{opaque=0x81969801}\nTX noop-response{success}\n"
COMMANDS = ("diagnose", "streams", "check --all", "conns", "rollbacks", "flow", "key 'k*'")


def losing() -> list[Packet]:
    """Return a conversation with an answer that was acknowledged and not captured, a silence, and NOOPs."""
    talk = TcpTalk(flow(), start_ns=NOON)
    for each in said(opening() + DOCUMENTS):
        talk.send(each.direction, each.data)
    asked = said(opening() + "TX stream-request{vb=7}\nRX stream-request-response{success}\n")[-2:]
    talk.send(0, asked[0].data)
    talk.skip(1, len(asked[1].data))
    talk.write(0)
    for pause in (40, 20):
        talk.wait(pause * SECOND)
        for each in said(NOOP):
            talk.send(each.direction, each.data)
    return talk.packets


def joined() -> list[Packet]:
    """Return a connection, and 30 s later another one."""
    first = opening(name="first") + DOCUMENTS
    return packed(said(first + "WAIT 30\nCONNECT\n" + opening(name="second") + NOOP))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("made", [losing, joined])
def test_until_prints_what_a_capture_that_ended_then_prints(
    command: str, made: Callable[[], list[Packet]], tmp_path: Path
) -> None:
    path, packets = tmp_path / "a.pcap", made()
    for count in (3, len(packets) // 2, len(packets) - 8, len(packets) - 4, len(packets) - 1):
        end_ns = packets[count].ts_ns or 0
        until = f" --until +{(end_ns - (packets[0].ts_ns or 0)) / 1e9:.9f}s"
        whole = run(f"dcpdump {command} {saved(packets, path)} -f ndjson{until}")
        saved([each for each in packets if (each.ts_ns or 0) <= end_ns], path)
        cut = run(f"dcpdump {command} {path} -f ndjson")
        assert whole._replace(out=whole.out.replace(until, "")) == cut


def test_an_answer_that_was_lost_before_until_is_not_called_missing(tmp_path: Path) -> None:
    found = run(f"dcpdump streams {saved(losing(), tmp_path / 'a.pcap')} --until +20s --vbucket 7")
    assert "no answer to its request was captured" in found.out


def test_packets_are_left_out_by_their_own_time_where_the_clock_goes_back(tmp_path: Path) -> None:
    packets = joined()
    late = [each._replace(ts_ns=(each.ts_ns or 0) - 60 * SECOND) for each in packets[-4:]]
    packets = [*packets[:-4], *late]
    saved(packets, tmp_path / "a.pcap")
    saved([each for each in packets if (each.ts_ns or 0) < NOON + 10 * SECOND], tmp_path / "b.pcap")
    until, cut = (run(f"dcpdump conns {tmp_path}/{name}") for name in ("a.pcap --until +10s", "b.pcap"))
    assert (until.code, until.out, until.err.splitlines()[-1]) == (cut.code, cut.out, cut.err.splitlines()[-1])
    assert [printed.err.count("the clock goes back") for printed in (until, cut)] == [1, 1]


def test_it_is_said_where_all_packets_are_later(tmp_path: Path) -> None:
    found = run(f"dcpdump streams {saved(joined(), tmp_path / 'a.pcap')} --until 2020-01-01")
    assert (found.code, found.out) == (3, "")
    assert found.err.splitlines()[0] == "dcpdump: note: all packets are later than --until"
