"""What is said of TLS connections that fail: the alert, who sent it, after which message, and who closed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from dcpdump.capture.file import Capture
from dcpdump.tls.outcome import Alert, Failure
from dcpdump.tls.unsealer import Unsealer
from tests.support.captures import Record, pcap
from tests.support.console import refusal, run
from tests.support.diagnoses import objects
from tests.support.packets import ACK, FIN, flow, segment
from tests.support.schemas import validator, wrong
from tests.tls.encoder import ALERT, CLIENT, HANDSHAKE, SERVER, Script, connected, made, message
from tests.tls.feeding import feed, secrets_of
from tests.tls.twins import REPLICA, Files, of

GCM = 0xC02F


def begun() -> Script:
    script = Script(0x0303, GCM)
    script.client_hello()
    return script


def greeted() -> Script:
    """Begin a handshake of TLS 1.2: both hellos, and the server's certificate in two records."""
    script = begun()
    script.server_hello()
    text = message(11, made("certificate", size=900))
    script.plain(SERVER, HANDSHAKE, text[:500])
    script.plain(SERVER, HANDSHAKE, text[500:])
    return script


def exchanged() -> Script:
    script = greeted()
    script.plain(SERVER, HANDSHAKE, message(12, made("exchange", size=300)) + message(14, b""))
    return script


def certificate_in_vain() -> Script:
    """Have a server ask for a certificate, and a client have none."""
    script = greeted()
    script.plain(SERVER, HANDSHAKE, message(13, made("request", size=40)) + message(14, b""))
    script.plain(CLIENT, HANDSHAKE, message(11, b"\0\0\0") + message(16, made("exchange", size=33)))
    script.plain(CLIENT, 20, b"\1")
    script.plain(CLIENT, HANDSHAKE, made("finished", size=40))
    return script


def begun13() -> Script:
    """Begin a handshake of TLS 1.3 up to the client's first record under a key."""
    script = Script()
    script.client_hello()
    script.server_hello()
    script.key(SERVER, "SERVER_HANDSHAKE_TRAFFIC_SECRET")
    script.sealed(SERVER, HANDSHAKE, message(8, b"\0\0"))
    script.sealed(SERVER, HANDSHAKE, message(11, made("certificate", size=900)))
    script.sealed(SERVER, HANDSHAKE, message(20, made("finished")))
    script.plain(CLIENT, 20, b"\1")
    script.key(CLIENT, "CLIENT_HANDSHAKE_TRAFFIC_SECRET")
    return script


def warned() -> Script:
    script = connected(0x0303, GCM)
    script.flights.insert(1, (SERVER, b"\x15\3\3\0\2\1\x70"))
    return script.say(CLIENT, made("text", size=300))


def alert(script: Script, direction: int, number: int, level: int = 2) -> Script:
    script.sealed(direction, ALERT, bytes([level, number]))
    return script


def failure(script: Script, end: str = "fin client", *, keyed: bool = False, size: int = 0) -> Failure | None:
    """Return how a connection failed that one side ended first, or none where no end was captured."""
    unsealer = Unsealer(secrets_of(script.keylog if keyed else b""))
    how, _, who = end.partition(" ")
    ends = (SERVER, CLIENT) if who == "server" else (CLIENT, SERVER)
    feed(unsealer, script.flights, size=size, ends=ends, how=how)
    return unsealer.report().failure


class Case(NamedTuple):
    """A connection, the alert at its end, and who ends it how; and what is said of that."""

    make: Callable[[], Script]
    alert: tuple[int, ...]
    end: str
    text: str = ""
    keyed: bool = False
    established: bool = False


GIVE = "give the client the CA that signed the server's certificate"
REFUSED = "the client sent the alert unknown_ca (48, fatal) after the server's Certificate"
SENT = f"{REFUSED} and closed the connection (FIN)"
CASES = {
    "a certificate is refused": Case(greeted, (CLIENT, 48), "fin client", SENT),
    "a certificate is refused, though other messages follow it": Case(exchanged, (CLIENT, 48), "fin client", SENT),
    "the first alert counts": Case(
        lambda: alert(exchanged(), CLIENT, 48), (CLIENT, 80), "rst server",
        f"{REFUSED} and the server reset the connection (RST)",
    ),
    "another alert is about the last message": Case(
        exchanged, (CLIENT, 80), "fin client",
        "the client sent the alert internal_error (80, fatal) after the server's ServerHelloDone and closed the "
        "connection (FIN)",
    ),
    "the version of a client is refused": Case(
        begun, (SERVER, 70), "fin server",
        "the server sent the alert protocol_version (70, fatal) after the client's ClientHello and closed the "
        "connection (FIN)",
    ),
    "a server asks for a certificate in vain": Case(
        certificate_in_vain, (SERVER, 40), "rst server",
        "the server sent the alert handshake_failure (40, fatal) after the client's Finished and reset the "
        "connection (RST)",
    ),
    "no end was captured": Case(greeted, (CLIENT, 48), "end", REFUSED),
    "it is closed without an alert": Case(
        begun, (), "rst server",
        "the server reset the connection (RST) after the client's ClientHello without an alert",
    ),
    "no alert, and no end": Case(begun, (), "end"),
    "a warning that it does not close with": Case(warned, (), "fin client"),
    "a warning that it closes with": Case(
        greeted, (CLIENT, 0, 1), "fin client",
        "the client sent the alert close_notify (0, warning) after the server's Certificate and closed the "
        "connection (FIN)",
    ),
    "an alert under a key, with the secrets": Case(
        connected, (SERVER, 116), "fin server",
        "the server sent the alert certificate_required (116, fatal) after the client's Finished and closed the "
        "connection (FIN)",
        keyed=True,
    ),
    "an alert under a key, which may be a close_notify": Case(connected, (SERVER, 116), "fin server"),
    "an encrypted alert instead of the client's Finished is told by its length": Case(
        begun13, (CLIENT, 48), "fin client",
        "the client sent an encrypted alert after the server's encrypted messages and closed the connection (FIN)",
    ),
    "that one, with the secrets": Case(begun13, (CLIENT, 48), "fin client", SENT, keyed=True),
    "an alert after the handshake": Case(
        lambda: connected().say(CLIENT, made("ask", size=300)), (CLIENT, 20), "fin client",
        "the client sent the alert bad_record_mac (20, fatal) after the server's NewSessionTicket and closed the "
        "connection (FIN)",
        keyed=True, established=True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_failure_is_said_with_its_alert_its_step_and_its_end(name: str) -> None:
    case = CASES[name]
    for size in (0, 1, 7, 600):
        script = case.make()
        if case.alert:
            alert(script, *case.alert)
        found = failure(script, case.end, keyed=case.keyed, size=size)
        assert (found and (found.text, found.established)) == ((case.text, case.established) if case.text else None)


def test_what_to_look_at_depends_on_the_alert() -> None:
    refused = failure(alert(greeted(), CLIENT, 48))
    assert refused == Failure(False, Alert(2, 48), "client", "Certificate", "fin", "client")
    assert refused.advice == GIVE
    closed = failure(begun(), "rst server")
    assert closed is not None
    assert closed.advice == "the log of the server may say more"


@pytest.mark.parametrize(("version", "suite"), [(0x0304, 0x1301), (0x0304, 0x1303), (0x0303, GCM), (0x0303, 0xC014)])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_connection_that_was_closed_properly_did_not_fail(version: int, suite: int, keyed: bool) -> None:
    script = connected(version, suite).say(CLIENT, made("ask", size=300))
    script.part()
    assert failure(script, keyed=keyed) is None


@pytest.mark.parametrize(("way", "name"), [(CLIENT, "client"), (SERVER, "server")])
def test_of_one_direction_only_that_is_said(way: int, name: str, tmp_path: Path) -> None:
    script = alert(greeted(), way, 48)
    script.flights = [flight for flight in script.flights if flight[0] == way]
    err = run(f"dcpdump read {Files(tmp_path, of(script)).capture}").err
    assert f"handshake failed: the {name} sent the alert unknown_ca (48, fatal); " in err


def test_an_alert_alone_is_that_of_a_server(tmp_path: Path) -> None:
    files = Files(tmp_path, of(alert(Script(0x0303, GCM), SERVER, 70)))
    said = "the server sent the alert protocol_version (70, fatal); 3 packets; 1 TCP connection"
    error = f"no DCP in the input: TLS on port 11210: handshake failed: {said}"
    assert run(f"dcpdump read {files.capture}") == refusal(3, error, "allow a version of TLS that both sides have")


def test_of_a_handshake_that_was_joined_late_the_alert_is_said_without_its_step() -> None:
    for script, first, found in (
        (alert(greeted(), CLIENT, 48), 1, Failure(False, Alert(2, 48), "client", "Certificate", "", "")),
        (alert(warned(), CLIENT, 0, 1), 7, None),
    ):
        unsealer = Unsealer(secrets_of(b""), joined_late=True)
        feed(unsealer, script.flights[first:], late=True)
        assert unsealer.report().failure == found


def closed(script: Script, port: int = 11207) -> list[Record]:
    """Make the packets of a connection that its client closes."""
    there = flow(dst=f"10.0.0.2:{port}")
    sent = [sum(map(len, script.sent(way))) for way in (CLIENT, SERVER)]
    last = segment(there, 1_000 + sent[0], flags=FIN | ACK, ack=5_000 + sent[1])
    return [*of(script, there).packets, Record(10_000_000, last)]


def test_a_failure_is_the_first_thing_said_and_no_key_log_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "tls.pcap"
    path.write_bytes(pcap(closed(alert(greeted(), CLIENT, 48))))
    said = f"TLS 1.2 on port 11207 (server name cb.example): handshake failed: {SENT}; 8 packets; 1 TCP connection"
    for command in ("read", "diagnose", "streams"):
        assert run(f"dcpdump {command} {path}") == refusal(3, f"no DCP in the input: {said}", GIVE)
    assert f"1.2 AES-128-GCM to cb.example, handshake failed: {SENT}" in run(f"dcpdump conns {path} -q").out
    printed = run(f"dcpdump conns {path} -f ndjson -q").out
    assert wrong("conns", printed, validator("conns")) == []
    row = json.loads(printed)
    alerted = {"number": 48, "name": "unknown_ca", "level": "fatal"}
    wanted = {"text": SENT, "established": False, "alert": alerted, "sent_by": "client", "after": "Certificate"}
    assert row["tls"]["failure"] == {**wanted, "close": "fin", "closed_by": "client"}


def test_a_failure_beside_dcp_is_a_note_and_the_first_trouble_of_a_diagnosis(tmp_path: Path) -> None:
    path = tmp_path / "both.pcap"
    clear = [Record(packet.ts_ns or 0, packet.data) for packet in Capture(str(REPLICA))]
    path.write_bytes(pcap([*closed(alert(greeted(), CLIENT, 48)), *clear]))
    notes = [line for line in run(f"dcpdump read {path} -f line").err.splitlines() if "note: connection" in line]
    assert notes == [f"dcpdump: note: connection 0 (10.0.0.1:50000 → 10.0.0.2:11207): TLS 1.2 handshake failed: {SENT}"]
    (trouble, *_) = (row for row in objects(f"dcpdump diagnose {path}") if row["type"] == "trouble")
    text = f"a connection of TLS from 10.0.0.1 to 10.0.0.2:11207 failed: {SENT}"
    wanted = {"code": "tls-failed", "severity": "wrong", "cause": "unknown-ca", "text": text, "detail": GIVE}
    assert {name: trouble[name] for name in wanted} == wanted
