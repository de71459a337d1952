"""dcpdump read --context: the frames around those that are chosen, as ``grep -C`` does with lines."""

import json
import random
import re
from pathlib import Path

import pytest

from dcpdump.capture import open_capture
from dcpdump.cli import context_output
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.diagnoses import objects
from tests.support.packets import NOON, TcpTalk, flow, renumbered
from tests.support.secret_talk import saved
from tests.tls.twins import seal

STOPPED = "samples/stopped.pcap"


def crowd(path: Path, seed: int, connections: int = 5, frames: int = 80) -> Path:
    """Save a capture of connections whose frames alternate at random, some of them in one packet."""
    dice = random.Random(seed)
    talks = [TcpTalk(flow(f"10.0.0.1:{50_000 + at}"), number=at, start_ns=NOON + at) for at in range(connections)]
    packets = []
    for talk in talks:
        talk.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"me"))
    for _ in range(frames):
        talk = dice.choice(talks)
        opcode = dice.choices(("DCP_NOOP", "DCP_STREAM_REQ"), (9, 1), k=dice.randint(1, 3))
        talk.send(0, b"".join(encode(name, {"end_seqno": 9} if "REQ" in name else {}) for name in opcode))
        packets += talk.packets
        talk.packets.clear()
    return saved(renumbered(packets), path)


def expected(rows: list[dict[str, object]], around: int) -> list[tuple[object, bool]]:
    """Return the numbers of the frames to be shown, and whether each is context; the simple way."""
    out: list[tuple[object, bool]] = []
    shown: set[object] = set()
    until: dict[object, int] = {}
    for at, row in enumerate(rows):
        connection = row["connection"]
        if row["name"] == "DCP_STREAM_REQ":
            before = [each for each in rows[:at] if each["connection"] == connection][-around:]
            out += [(each["frame"], True) for each in before if each["frame"] not in shown]
            out.append((row["frame"], False))
            until[connection] = around
        elif until.get(connection, 0):
            until[connection] -= 1
            out.append((row["frame"], True))
        shown = {number for number, _ in out}
    return out


@pytest.mark.parametrize("around", [1, 2, 5, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_the_frames_of_the_connection_around_each_chosen_one_are_shown_once(
    tmp_path: Path, seed: int, around: int
) -> None:
    name = crowd(tmp_path / "crowd.pcap", seed)
    rows = objects(f"dcpdump read {name}")
    printed = objects(f"dcpdump read {name} --opcode stream_req --context {around}")
    assert [(row["frame"], row.pop("context", False)) for row in printed] == expected(rows, around)
    plain = {row["frame"]: row for row in rows}
    assert printed == [plain[row["frame"]] for row in printed]


def lines(options: str) -> list[str]:
    """Return what one line a frame begins with: the mark and the number."""
    return [
        re.sub(r" \S+Z c0.*", "", line) for line in run(f"dcpdump read {STOPPED} -f line {options}").out.splitlines()
    ]


def test_chosen_frames_are_marked_and_groups_stand_apart() -> None:
    found = lines("--opcode stream_req --kind request --context 1")
    assert found == ["  #12", "> #13", "  #14", "--", "  #17", "> #18", "  #19", "--", "  #22", "> #23", "  #24"]
    assert lines("--opcode stream_end,noop --until +70s --context 1") == ["  #27", "> #28", "  #29"]
    assert lines("--opcode stream_end --vbucket 9 --context 1") == []


@pytest.mark.parametrize("form", ["table", "grid"])
def test_the_line_above_a_table_is_marked(form: str) -> None:
    printed = run(f"dcpdump read {STOPPED} --opcode stream_end --context 1 -q -f {form}").out.splitlines()
    assert [line[:5] for line in printed if "connection 0" in line] == ["  #27", "> #28", "  #29"]


def test_the_count_is_of_chosen_frames_and_their_context_is_whole() -> None:
    options = "--opcode stream_req --kind request -c 2 --context 1"
    assert lines(options) == ["  #12", "> #13", "  #14", "--", "  #17", "> #18", "  #19"]
    assert run(f"dcpdump read {STOPPED} {options}").err.startswith("6 of ")


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = crowd(tmp_path / "crowd.pcap", 1, connections=40)

    def chosen() -> list[str]:
        printed = run(f"dcpdump read {name} -q -f line --opcode stream_req --context 50").out
        return [line for line in printed.splitlines() if line[0] == ">"]

    whole = chosen()
    monkeypatch.setattr(context_output, "_CONNECTIONS", 3)
    monkeypatch.setattr(context_output, "_BYTES", 10_000)
    assert chosen() == whole


def test_names_of_collections_that_are_not_known_are_noted_as_without_context() -> None:
    plain, around = (run(f"dcpdump read {STOPPED} --collection shop.nope {more}").err for more in ("", "--context 1"))
    assert around == plain
    assert "the name 'shop.nope' is not known in this capture" in plain


def test_redaction_reaches_the_summary(tmp_path: Path) -> None:
    capture, salt = tmp_path / "tls.pcap", tmp_path / "salt"
    capture.write_bytes(seal(open_capture("samples/replica.pcap")).pcap)
    salt.write_bytes(bytes(32))
    command = (
        f"dcpdump read {STOPPED} {capture} --redact --redact-level full --salt-file {salt} --summary json --frame 1"
    )
    summaries = (json.loads(run(f"{command} {more}").err.splitlines()[-1]) for more in ("", "--context 1"))
    plain, around = (summary["tls"][0]["server_name"] for summary in summaries)
    assert around == plain != "cb.example"
