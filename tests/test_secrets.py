"""Credentials reach no output: no format, no message, no error, whatever is damaged around them."""

import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from dcpdump.annotate import annotate
from dcpdump.net.packet import Packet
from dcpdump.record import as_json
from dcpdump.render import OUTPUTS, View
from dcpdump.render.style import Palette
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.legs import sizes
from tests.support.live import PATIENCE
from tests.support.packets import NOON, SECOND, TcpTalk, flow, renumbered
from tests.support.secret_talk import saved
from tests.support.traces import traces

PASSWORD = b"Hq7~zW9xLmT4vK"
PROOF = b"bSx8QwZr5TyUkLpO2nVc="
TOKEN = b"eyJhbGciOiJSUzI1NiJ9.Gm3XpQ7rT"
PLAIN = encode("SASL_AUTH", key=b"PLAIN", value=b"\0Administrator\0" + PASSWORD, opaque=1)
SCRAM = encode("SASL_AUTH", key=b"SCRAM-SHA512", value=b"n,,n=Administrator,r=" + TOKEN, opaque=2)
STEP = encode("SASL_STEP", key=b"SCRAM-SHA512", value=b"c=biws,r=" + TOKEN + b",p=" + PROOF, opaque=3)
BEARER = encode("SASL_AUTH", key=b"OAUTHBEARER", value=b"n,,\1auth=Bearer " + TOKEN + b"\1\1", opaque=4)
ANSWER = encode("SASL_AUTH", response=True, value=b"r=" + TOKEN + b",s=" + PROOF, opaque=2, status=0x21)
AUTHENTICATIONS = {"plain": PLAIN, "scram": SCRAM, "step": STEP, "bearer": BEARER, "answer": ANSWER}
SECRETS = (PASSWORD, PROOF, TOKEN)
HELLO = encode("HELLO", key=b"agent")
AFTER = encode("DCP_OPEN", {"flags": 1}, key=b"me") + encode("DCP_NOOP", opaque=9) * 4
FORMS = ("table", "grid", "line", "ndjson", "csv")


def betrayed(text: str) -> set[str]:
    return traces(text, SECRETS, window=5)


def spoken(folder: Path, *connections: Sequence[bytes | int], segment: int = 1448) -> Path:
    """Save a capture of connections: of each, what its client sends, and how many bytes of it were lost."""
    packets: list[Packet] = []
    for at, pieces in enumerate(connections):
        where = flow(f"10.0.0.1:{50_000 + at}")
        talk = TcpTalk(where, segment=segment, number=len(packets) + 1, start_ns=NOON + at * SECOND).send(0, HELLO)
        for piece in pieces:
            talk = talk.skip(0, piece) if isinstance(piece, int) else talk.send(0, piece)
        packets += talk.send(0, AFTER).fin()
    return saved(packets, folder / "auth.pcap")


def betrayed_by_read(path: Path, *options: str) -> set[str]:
    """Return what the outputs of ``read`` have of secrets."""
    said = ""
    for form, more in product(FORMS, options):
        printed = run(f"dcpdump read {path} -f {form} --value-bytes all --summary json {more}")
        said += printed.out + printed.err
    return betrayed(said)


def test_traces_are_found_in_every_spelling() -> None:
    plain = "Hq7~z"
    for text in (plain, plain.encode().hex(), "0x48 0x71 0x37 0x7e 0x7a", "SHE3fno5", plain.encode("utf-16").hex()):
        assert betrayed(text), text
    assert not betrayed("nothing of that kind 0x48 0x71, 48713")


def test_no_output_has_a_credential(tmp_path: Path) -> None:
    path = spoken(tmp_path, *([wire] for wire in AUTHENTICATIONS.values()), segment=40)
    assert betrayed_by_read(path, "", "--redact", "--redact-level full") == set()
    for number, name in enumerate(AUTHENTICATIONS):
        seen = run(f"dcpdump read {path} -f ndjson --show-secrets --connection {number}").out
        assert betrayed(seen), f"the test would not see {name}"


def test_a_credential_of_which_a_part_was_lost_is_not_shown(tmp_path: Path) -> None:
    lost = [
        (wire[:start], min(stop, len(wire)) - start, wire[stop:])
        for wire in AUTHENTICATIONS.values()
        for start, stop in ((0, 5), (5, 20), (0, 24), (20, 30), (30, 200))
    ]
    assert betrayed_by_read(spoken(tmp_path, *lost, segment=10_000), "") == set()


def shown(data: bytes) -> str:
    """Return everything that explaining bytes can print, suggestions included."""
    out = []
    for one in annotate((data,)):
        for record in (one.record, *([one.suggestion.record] if one.suggestion else [])):
            out += [OUTPUTS[form].write(record, View(None, Palette(False))) for form in FORMS]
            out.append(repr(as_json(record, value_bytes=None)))
            out.append(repr(record))
        if one.suggestion:
            out += [str(edit) for edit in one.suggestion.edits]
    return "\n".join(out)


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        (b'{"error":{"context":"Password expired","ref":"12-ab"}}', False),
        (b'{"error": {"ref": "12-ab"}}', False),
        (b'{"error":{"context":"a \\"quoted\\" name"}}', False),
        (b'{"error":{"context":"no","password":"x"}}', True),
        (b'{"error":{"context":"no"},"key":"x"}', True),
        (b'{"error":{"context":"no",}}', True),
        (b'{"error":{}}', True),
        (b"r=" + TOKEN + b",s=" + PROOF, True),
    ],
)
def test_what_a_server_says_of_a_refused_login_is_shown_and_nothing_else(value: bytes, masked: bool) -> None:
    refused = encode("SASL_AUTH", response=True, value=value, opaque=2, status=0x20, datatype=1)
    (one,) = annotate((refused,))
    assert (one.record.frame.masked, one.record.frame.value == value) == (masked, not masked)
    accepted = encode("SASL_AUTH", response=True, value=value, opaque=2)
    (one,) = annotate((accepted,))
    assert one.record.frame.masked


#: The server's part of SCRAM has no key by which it would be known if its opcode is lost, and no password.
RECOGNISABLE = [name for name in AUTHENTICATIONS if name != "answer"]


@pytest.mark.parametrize("name", RECOGNISABLE)
@pytest.mark.parametrize("at", range(24))
@pytest.mark.parametrize("most", sizes(4, 12))
def test_whatever_byte_of_the_header_is_damaged_the_credential_is_masked(name: str, at: int, most: int) -> None:
    wire = AUTHENTICATIONS[name]
    values = range(256) if at in (0, 1, 3, 4, 11) else (0, 1, 2, 3, 5, 7, 0x20, 0x7F, 0x80, 0xFF)
    for value in random.Random(at).sample(list(values), min(len(values), most)):
        damaged = wire[:at] + bytes((value,)) + wire[at + 1 :]
        assert not betrayed(shown(damaged)), value


#: Places in a header, and what stands there instead.
DAMAGE = ((0, 0x81), (0, 8), (0, 0), (1, 0x23), (1, 0), (3, 0), (3, 60), (4, 19), (5, 2), (7, 4), (11, 9))


def test_a_damaged_authentication_is_masked_in_a_capture_too(tmp_path: Path) -> None:
    wires = [AUTHENTICATIONS[name] for name in RECOGNISABLE]
    damaged = [[wire[:at] + bytes((value,)) + wire[at + 1 :] + AFTER] for wire in wires for at, value in DAMAGE]
    assert betrayed_by_read(spoken(tmp_path, *damaged), "") == set()


@pytest.mark.parametrize("name", AUTHENTICATIONS)
def test_the_forms_of_a_paste_do_not_matter(name: str) -> None:
    wire = AUTHENTICATIONS[name]
    for damaged in (wire, wire[:-3], wire + b"xx", wire[:4] + b"\2" + wire[5:], wire[:11] + b"\x07" + wire[12:]):
        for form in FORMS:
            printed = run(f"dcpdump explain -f {form} {damaged.hex()}")
            assert not betrayed(printed.out + printed.err)


def test_errors_and_tracebacks_have_no_credential(tmp_path: Path) -> None:
    path, cut, text = spoken(tmp_path, [PLAIN]), tmp_path / "cut.pcap", tmp_path / "text.pcap"
    data = path.read_bytes()
    cut.write_bytes(data[: data.index(PASSWORD) + 6])
    text.write_bytes(PLAIN)
    for words in (
        f"{cut} -f table",
        f"{text}",
        f"{path} -o /nowhere/at/all",
        f"{path} --key '/(/'",
        f"--salvage {cut}",
    ):
        printed = run(f"dcpdump read {words}")
        assert not betrayed(printed.out + printed.err)
    debugging = [sys.executable, "-m", "dcpdump", "--debug", "read", str(text)]
    done = subprocess.run(debugging, capture_output=True, text=True, timeout=PATIENCE)
    assert "Traceback" in done.stderr
    assert not betrayed(done.stdout + done.stderr)


def test_segments_that_disagree_about_a_credential_do_not_show_it(tmp_path: Path) -> None:
    talk = TcpTalk().send(0, HELLO)
    seq = talk.seq(0)
    talk.send(0, PLAIN).write(0, PLAIN.replace(b"z", b"y"), seq=seq).send(0, AFTER)
    assert betrayed_by_read(saved(renumbered(talk.packets), tmp_path / "conflict.pcap"), "") == set()
