"""What is said of TLS connections that fail: the alert, who sent it, after which message, and who closed."""

import json
from pathlib import Path

import pytest

from dcpdump.capture import open_capture
from dcpdump.net.event import Bytes, End, Seen
from dcpdump.tls.failure import Alert, Failure
from dcpdump.tls.unsealer import Unsealer
from tests.support.captures import Record, pcap
from tests.support.console import run
from tests.support.diagnoses import objects
from tests.support.packets import ACK, FIN, ethernet, flow, ipv4_tcp
from tests.tls.encoder import ALERT, CLIENT, HANDSHAKE, SERVER, Script, made, message
from tests.tls.feeding import feed, secrets_of
from tests.tls.test_situations import REPLICA, of

GCM = 0xC02F
UNKNOWN_CA = Alert(2, 48)


def greeted(version: int = 0x0303, suite: int = GCM, *, certificate: bool = True) -> Script:
    """Begin a handshake of TLS 1.2: both hellos, and the server's certificate in two records."""
    script = Script(version, suite)
    script.client_hello()
    script.server_hello()
    if certificate:
        text = message(11, made("certificate", size=900))
        script.plain(SERVER, HANDSHAKE, text[:500])
        script.plain(SERVER, HANDSHAKE, text[500:])
    return script


def alert(script: Script, direction: int, number: int, level: int = 2) -> Script:
    script.sealed(direction, ALERT, bytes([level, number]))
    return script


def failure(
    script: Script, closer: int | None = CLIENT, how: str = "fin", *, keyed: bool = False, size: int = 0
) -> object:
    """Return how a connection failed that its closer ended."""
    unsealer = Unsealer(secrets_of(script.keylog if keyed else b""))
    offsets, number = [0, 0], 0
    for direction, data in script.flights:
        step = size or len(data)
        for at in range(0, len(data), step):
            number += 1
            piece = data[at : at + step]
            unsealer.feed(direction, Bytes(offsets[direction], piece, Seen(number, number)))
            offsets[direction] += len(piece)
    for direction in (0, 1) if closer is None else (closer, 1 - closer):
        number += 1
        reason = "end" if closer is None else how
        unsealer.feed(direction, End(offsets[direction], reason, Seen(number, number)))
    unsealer.close()
    return unsealer.sealing().failure


@pytest.mark.parametrize("size", [0, 1, 7, 600])
def test_the_alert_that_refuses_a_certificate_is_named_in_all_cuts(size: int) -> None:
    found = failure(alert(greeted(), CLIENT, 48), size=size)
    assert found == Failure(False, UNKNOWN_CA, "client", "Certificate", "fin", "client")
    assert isinstance(found, Failure)
    assert found.text == (
        "the client sent the alert unknown_ca (48, fatal) after the server's Certificate "
        "and closed the connection (FIN)"
    )
    assert found.advice == "give the client the CA that signed the server's certificate"


def test_the_certificate_is_what_is_refused_though_other_messages_follow_it() -> None:
    script = greeted()
    script.plain(SERVER, HANDSHAKE, message(12, made("exchange", size=300)) + message(14, b""))
    assert failure(alert(script, CLIENT, 48)) == Failure(False, UNKNOWN_CA, "client", "Certificate", "fin", "client")
    assert failure(alert(script, CLIENT, 80), SERVER, "rst") == Failure(
        False, UNKNOWN_CA, "client", "Certificate", "rst", "server"
    )


def test_a_server_refuses_the_version_of_a_client() -> None:
    script = Script(0x0303, GCM)
    script.client_hello()
    found = failure(alert(script, SERVER, 70), SERVER)
    assert found == Failure(False, Alert(2, 70), "server", "ClientHello", "fin", "server")


def test_a_server_that_asks_for_a_certificate_in_vain() -> None:
    script = greeted()
    script.plain(SERVER, HANDSHAKE, message(13, made("request", size=40)) + message(14, b""))
    script.plain(CLIENT, HANDSHAKE, message(11, b"\0\0\0") + message(16, made("exchange", size=33)))
    script.plain(CLIENT, 20, b"\1")
    script.plain(CLIENT, HANDSHAKE, made("finished", size=40))
    found = failure(alert(script, SERVER, 40), SERVER, "rst")
    assert found == Failure(False, Alert(2, 40), "server", "Finished", "rst", "server")


def test_where_no_end_was_captured_none_is_said() -> None:
    found = failure(alert(greeted(), CLIENT, 48), None)
    assert found == Failure(False, UNKNOWN_CA, "client", "Certificate", "", "")
    assert isinstance(found, Failure)
    assert found.text == "the client sent the alert unknown_ca (48, fatal) after the server's Certificate"


def test_a_close_without_an_alert_is_a_failure_while_the_handshake_goes_on() -> None:
    script = Script(0x0303, GCM)
    script.client_hello()
    found = failure(script, SERVER, "rst")
    assert found == Failure(False, None, "", "ClientHello", "rst", "server")
    assert isinstance(found, Failure)
    assert found.text == "the server reset the connection (RST) after the client's ClientHello without an alert"
    assert found.advice == "the log of the server may say more"
    assert failure(script, None) is None


def test_a_warning_is_none_unless_the_connection_closes_with_it() -> None:
    script = Script(0x0303, GCM)
    script.handshake()
    script.flights.insert(1, (SERVER, b"\x15\3\3\0\2\1\x70"))
    script.say(CLIENT, made("text", size=300))
    assert failure(script) is None
    script = alert(greeted(), CLIENT, 0, 1)
    assert failure(script) == Failure(False, Alert(1, 0), "client", "Certificate", "fin", "client")


@pytest.mark.parametrize(("version", "suite"), [(0x0304, 0x1301), (0x0304, 0x1303), (0x0303, GCM), (0x0303, 0xC014)])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_connection_that_was_closed_properly_did_not_fail(version: int, suite: int, keyed: bool) -> None:
    script = Script(version, suite)
    script.handshake()
    script.say(CLIENT, made("ask", size=300))
    alert(script, CLIENT, 0, 1)
    alert(script, SERVER, 0, 1)
    assert failure(script, keyed=keyed) is None


def test_an_alert_under_a_key_is_read_with_the_secrets() -> None:
    script = Script(0x0304, 0x1301)
    script.handshake()
    alert(script, SERVER, 116)
    assert failure(script, SERVER, keyed=True) == Failure(False, Alert(2, 116), "server", "Finished", "fin", "server")
    assert failure(script, SERVER) is None  # without them it may be a close_notify


def begun13() -> Script:
    """Begin a handshake of TLS 1.3 up to the client's first record under a key."""
    script = Script(0x0304, 0x1301)
    script.client_hello()
    script.server_hello()
    script.key(SERVER, "SERVER_HANDSHAKE_TRAFFIC_SECRET")
    script.sealed(SERVER, HANDSHAKE, message(8, b"\0\0"))
    script.sealed(SERVER, HANDSHAKE, message(11, made("certificate", size=900)))
    script.sealed(SERVER, HANDSHAKE, message(20, made("finished")))
    script.plain(CLIENT, 20, b"\1")
    script.key(CLIENT, "CLIENT_HANDSHAKE_TRAFFIC_SECRET")
    return alert(script, CLIENT, 48)


def test_an_encrypted_alert_instead_of_the_clients_finished_is_told_by_its_length() -> None:
    found = failure(begun13())
    assert found == Failure(False, Alert(0, None), "client", "encrypted messages", "fin", "client")
    assert isinstance(found, Failure)
    assert found.text == (
        "the client sent an encrypted alert after the server's encrypted messages and closed the connection (FIN)"
    )
    assert failure(begun13(), keyed=True) == Failure(False, UNKNOWN_CA, "client", "Certificate", "fin", "client")


def test_an_alert_after_the_handshake_ends_a_connection_that_did_not_fail_in_it() -> None:
    script = Script(0x0304, 0x1301)
    script.handshake()
    script.say(CLIENT, made("ask", size=300))
    alert(script, CLIENT, 20)
    assert failure(script, keyed=True) == Failure(True, Alert(2, 20), "client", "NewSessionTicket", "fin", "client")


@pytest.mark.parametrize(("way", "name"), [(CLIENT, "client"), (SERVER, "server")])
def test_of_one_direction_only_that_is_said(way: int, name: str, tmp_path: Path) -> None:
    script = alert(greeted(), way, 48)
    script.flights = [flight for flight in script.flights if flight[0] == way]
    path = tmp_path / "one.pcap"
    path.write_bytes(of(script).pcap)
    err = run(f"dcpdump read {path}").err
    assert f"handshake failed: the {name} sent the alert unknown_ca (48, fatal); " in err


def test_an_alert_alone_is_that_of_a_server(tmp_path: Path) -> None:
    script = Script(0x0303, GCM)
    alert(script, SERVER, 70)
    path = tmp_path / "alert.pcap"
    path.write_bytes(of(script).pcap)
    assert run(f"dcpdump read {path}").err == (
        "dcpdump: error: no DCP in the input: TLS on port 11210: handshake failed: "
        "the server sent the alert protocol_version (70, fatal); 3 packets; 1 TCP connection\n"
        "hint: allow a version of TLS that both sides have\n"
    )


def test_of_a_handshake_that_was_joined_late_the_alert_is_said_without_its_step() -> None:
    unsealer = Unsealer(secrets_of(b""), late=True)
    feed(unsealer, alert(greeted(), CLIENT, 48).flights[1:], late=True)
    assert unsealer.sealing().failure == Failure(False, UNKNOWN_CA, "client", "Certificate", "", "")
    unsealer = Unsealer(secrets_of(b""), late=True)
    script = Script(0x0303, GCM)
    script.handshake()
    script.say(CLIENT, made("text", size=300))
    alert(script, CLIENT, 0, 1)
    feed(unsealer, script.flights[6:], late=True)
    assert unsealer.sealing().failure is None


def closed(script: Script, port: int = 11207) -> list[Record]:
    """Make the packets of a connection that its client closes."""
    there = flow(dst=f"10.0.0.2:{port}")
    packets = of(script, there).packets
    sent = [sum(len(data) for each, data in script.flights if each == way) for way in (CLIENT, SERVER)]
    last = ipv4_tcp(there, 1_000 + sent[0], flags=FIN | ACK, ack=5_000 + sent[1])
    return [*packets, Record(10_000_000, ethernet(last))]


def test_a_failure_is_the_first_thing_said_and_no_key_log_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "tls.pcap"
    path.write_bytes(pcap(closed(alert(greeted(), CLIENT, 48))))
    sent = "the client sent the alert unknown_ca (48, fatal) after the server's Certificate"
    failed = f"{sent} and closed the connection (FIN)"
    for command in ("read", "diagnose", "streams"):
        result = run(f"dcpdump {command} {path}")
        assert (result.code, result.out, result.err) == (
            3,
            "",
            "dcpdump: error: no DCP in the input: TLS 1.2 on port 11207 (server name cb.example): handshake failed: "
            f"{failed}; 8 packets; 1 TCP connection\n"
            "hint: give the client the CA that signed the server's certificate\n",
        )
    table = run(f"dcpdump conns {path} -q")
    assert f"1.2 AES-128-GCM to cb.example, handshake failed: {failed}" in table.out
    (row,) = map(json.loads, run(f"dcpdump conns {path} -q -f ndjson").out.splitlines())
    assert row["tls"]["failure"] == {
        "text": failed,
        "established": False,
        "alert": {"number": 48, "name": "unknown_ca", "level": "fatal"},
        "sent_by": "client",
        "after": "Certificate",
        "close": "fin",
        "closed_by": "client",
    }


def test_a_failure_beside_dcp_is_a_note(tmp_path: Path) -> None:
    path = tmp_path / "both.pcap"
    clear = [Record(packet.ts_ns or 0, packet.data) for packet in open_capture(str(REPLICA))]
    path.write_bytes(pcap([*closed(alert(greeted(), CLIENT, 48)), *clear]))
    notes = [line for line in run(f"dcpdump read {path} -f line").err.splitlines() if "note: connection" in line]
    assert notes == [
        "dcpdump: note: connection 0 (10.0.0.1:50000 → 10.0.0.2:11207): TLS 1.2 handshake failed: the client sent the "
        "alert unknown_ca (48, fatal) after the server's Certificate and closed the connection (FIN)"
    ]


def test_a_failure_beside_dcp_is_the_first_trouble_of_a_diagnosis(tmp_path: Path) -> None:
    path = tmp_path / "both.pcap"
    clear = [Record(packet.ts_ns or 0, packet.data) for packet in open_capture(str(REPLICA))]
    path.write_bytes(pcap([*closed(alert(greeted(), CLIENT, 48)), *clear]))
    (trouble, *_) = (row for row in objects(f"dcpdump diagnose {path}") if row["type"] == "trouble")
    assert (trouble["code"], trouble["severity"], trouble["cause"], trouble["text"], trouble["detail"]) == (
        "tls-failed",
        "wrong",
        "unknown-ca",
        "a connection of TLS from 10.0.0.1 to 10.0.0.2:11207 failed: the client sent the alert unknown_ca (48, fatal) "
        "after the server's Certificate and closed the connection (FIN)",
        "give the client the CA that signed the server's certificate",
    )


def test_one_who_gave_a_key_log_is_not_told_to_give_one(tmp_path: Path) -> None:
    script, other = Script(), Script(name="other")
    script.handshake()
    other.handshake()
    path, keys = tmp_path / "tls.pcap", tmp_path / "keys.log"
    path.write_bytes(of(script).pcap)
    keys.write_bytes(other.keylog)
    keys.chmod(0o600)
    assert run(f"dcpdump read {path} --keylog {keys}").err.splitlines()[-1] == (
        "hint: the key log has to be of the same run of the client or the server as the capture, "
        "or capture an unencrypted port: 11210, or 11209 between nodes"
    )
