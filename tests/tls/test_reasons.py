"""Each situation that a connection of TLS may be in, in one table: what ``conns`` and ``read`` say, and how they end.

What is said of a whole run is in test_situations.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from dcpdump.wire.encode import encode
from tests.support.console import refusal, run
from tests.support.diagnoses import objects
from tests.tls.encoder import CLIENT, SERVER, Script, connected, made
from tests.tls.twins import Files, Twin, of, twin, without_syn

GCM, CBC, CHACHA, CCM = 0xC02F, 0xC014, 0xCCA8, 0xC09C
#: Replaces the key log of a conversation.
Keys = Callable[[bytes], bytes]


def keyed(keys: Keys, version: int = 0x0304, suite: int = 0x1301) -> Callable[[], Twin]:
    """Return what makes a connection with another key log."""

    def make() -> Twin:
        whole = twin(version, suite)
        return Twin(whole.packets, keys(whole.keylog))

    return make


def of_others(_: bytes) -> bytes:
    return connected(name="other").keylog


def wrong(keylog: bytes) -> bytes:
    lines = [each.split() for each in keylog.splitlines()]
    return b"".join(b"%s %s %s\n" % (*words, made(words, size=len(old) // 2).hex().encode()) for *words, old in lines)


def only(part: bytes) -> Keys:
    return lambda keylog: b"".join(line for line in keylog.splitlines(True) if part in line)


def late(version: int, suite: int, keys: Keys = lambda keylog: keylog) -> Callable[[], Twin]:
    """Return what makes a connection whose beginning was not captured."""
    return lambda: without_syn(keyed(keys, version, suite)(), 20)


def late_after_updates() -> Twin:
    """Make a connection that is joined late, in which the server has updated its key more often than is tried."""
    script = connected()
    for _ in range(4):
        script.key_update(SERVER)
    before = len(of(script).packets)
    for _ in range(4):
        script.say(CLIENT, encode("DCP_NOOP")).say(SERVER, encode("DCP_NOOP", response=True))
    return without_syn(of(script), before)


def hurt() -> Twin:
    whole = twin()
    at = next(n for n, record in enumerate(whole.packets) if len(record.data) > 1_000 and n > 10)
    return Twin([*whole.packets[:at], *whole.packets[at + 1 :]], whole.keylog)


def unknown_cipher() -> Twin:
    script = Script(0x0303, GCM)
    script.suite = 0x0005
    script.client_hello()
    script.server_hello(session=b"s" * 32)
    for way in (CLIENT, SERVER):
        script.plain(way, 20, b"\1")
        script.plain(way, 23, made("text", size=400))
    script.log("CLIENT_RANDOM", made("master", size=48))
    return of(script)


def http() -> Twin:
    return of(connected().say(CLIENT, b"GET /pools HTTP/1.1\r\nHost: cb\r\n\r\n"))


def without_server_hello() -> Twin:
    script = connected(0x0303, GCM).say(CLIENT, made("said", size=400))
    script.flights = [flight for flight in script.flights if flight[0] == CLIENT]
    whole = of(script)
    return Twin([each for each in whole.packets if each is not whole.packets[1]], whole.keylog)


class Situation(NamedTuple):
    """``tls`` is the cell of ``conns``, ``note`` that of ``read`` on the connection, ``end`` its last words."""

    make: Callable[[], Twin]
    code: int
    why: str
    tls: str
    note: str
    end: str


def opened(make: Callable[[], Twin], frames: str, tls: str, note: str = "", why: str = "", code: int = 0) -> Situation:
    return Situation(make, code, why, tls, note, f"\n{frames} frames shown · ")


ELSE = "or capture an unencrypted port: 11210, or 11209 between nodes"
OF_ANOTHER_RUN = "the key log has to be of the same run of the client or the server as the capture"
TOO_LATE = "capture from before the connection opens"


def closed(
    make: Callable[[], Twin], tls: str, size: str, why: str, text: str, hint: str = OF_ANOTHER_RUN, port: int = 11209
) -> Situation:
    """Return what is said of a connection that stays encrypted, which is the same wherever it is said."""
    version = tls.split()[0] if tls.startswith("TLS") else f"TLS {tls.split()[0]}"
    name = " (server name cb.example)" if "cb.example" in tls else ""
    stays = f", {size} B stay encrypted: {text}"
    end = f"; {version} on port {port}{name}, {size} B encrypted: {text}\nhint: {hint}, {ELSE}\n"
    return Situation(make, 3, why, tls + stays, version + stays, end)


GCM_13, TO = "1.3 AES-128-GCM", "to cb.example"
NO_SECRET, NOT_FIT = "no secret of it in 1 key log (1 connection)", "its secrets do not fit (4 records tried)"
BEFORE = "joined after its handshake it cannot be opened: capture from before it connects"
UP_TO = "joined after its handshake: none of the secrets of 1 connection opens it up to record 1,048,576"
NO_13 = "joined after its handshake, no secret of TLS 1.3 in 1 key log (1 connection): of TLS 1.2 "
RECOGNISED = "TLS 1.3 joined after its handshake: recognised at record 7"
STAY = "TLS 1.3, %s B stay encrypted: no secret of the %s's direction"

SITUATIONS = {
    "opened": opened(twin, "27 of 27", GCM_13),
    "the server's secrets only": opened(
        keyed(only(b"SERVER")), "17 of 17", f"{GCM_13}, no secret of the client's direction", STAY % (745, "client"),
        "one-direction",
    ),
    "the client's secrets only": opened(
        keyed(only(b"CLIENT")), "10 of 10", f"{GCM_13}, no secret of the server's direction",
        STAY % ("6,451", "server"), "one-direction",
    ),
    "1.3 joined late, after one side updated its key": opened(
        late_after_updates, "4 of 4", f"{GCM_13}, joined at record 0, {UP_TO}",
        f"TLS 1.3, 184 B stay encrypted: {UP_TO}", "not-found",
    ),
    "1.3 joined late": opened(late(0x0304, 0x1301), "13 of 13", f"{GCM_13}, joined at record 7", RECOGNISED),
    "1.3 with ChaCha20 joined late": opened(
        late(0x0304, 0x1303), "13 of 13", "1.3 ChaCha20-Poly1305, joined at record 7", RECOGNISED
    ),
    "lost records": opened(hurt, "26 of 26", f"{GCM_13}, 1 record lost", code=4),
    "no secret of it": closed(keyed(of_others), f"{GCM_13} {TO}", "7,196", "no-secret", NO_SECRET),
    "1.2, no secret of it": closed(
        keyed(of_others, 0x0303, GCM), f"1.2 AES-128-GCM {TO}", "6,090", "no-secret", NO_SECRET
    ),
    "secrets that do not fit": closed(keyed(wrong), f"{GCM_13} {TO}", "7,196", "do-not-fit", NOT_FIT),
    "1.2, secrets that do not fit": closed(
        keyed(wrong, 0x0303, GCM), f"1.2 AES-128-GCM {TO}", "6,090", "do-not-fit", NOT_FIT
    ),
    "1.2 with CBC, secrets that do not fit": closed(
        keyed(wrong, 0x0303, CBC), f"1.2 AES-256-CBC-SHA1 {TO}", "7,126", "do-not-fit", NOT_FIT
    ),
    "the secrets of the handshake only": closed(
        keyed(only(b"HANDSHAKE")), f"{GCM_13} {TO}", "6,030", "handshake-only", "its secrets are of the handshake only"
    ),
    "1.3 joined late, and of others": closed(
        late(0x0304, 0x1301, of_others), "TLS", "4,966", "not-found", f"{UP_TO}, and of TLS 1.2 none can"
    ),
    "1.2 with GCM joined late": closed(late(0x0303, GCM), "1.2", "5,064", "joined-late", BEFORE, TOO_LATE),
    "1.2 with CCM joined late": closed(late(0x0303, CCM), "1.2", "5,064", "joined-late", BEFORE, TOO_LATE),
    "1.2 with CBC joined late": closed(late(0x0303, CBC), "1.2", "5,574", "joined-late", BEFORE, TOO_LATE),
    "1.1 with CBC joined late": closed(late(0x0302, CBC), "1.1", "5,574", "joined-late", BEFORE, TOO_LATE),
    "1.2 with ChaCha20 joined late": closed(
        late(0x0303, CHACHA), "TLS", "4,952", "joined-late", f"{NO_13}capture from before it connects", TOO_LATE
    ),
    "a cipher that is not opened": closed(
        unknown_cipher, f"1.2 RC4 {TO}", "810", "suite", "RC4 is not opened", port=11210
    ),
    "no server hello": closed(
        without_server_hello, f"TLS {TO}", "474", "no-server-hello",
        "the server's hello was not captured, without which TLS 1.2 cannot be opened", port=11210,
    ),
    "another protocol inside": Situation(
        http, 3, "", "", "", "; HTTP or memcached text inside TLS on port 11210\n"
        f"hint: {OF_ANOTHER_RUN}, {ELSE}\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_is_said_in_its_words(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # So many numbers as are tried elsewhere take seconds, and decide nothing but the number in a text.
    monkeypatch.setattr("dcpdump.tls.side._WINDOWS", (1 << 12, 1 << 16, 1 << 20))
    monkeypatch.setattr("dcpdump.tls.side._SLOW_EFFORT", 1 << 21)
    situation = SITUATIONS[name]
    files = Files(tmp_path, situation.make())
    read = files.read("-f line")
    assert read.code == situation.code
    notes = [line.partition("): ")[2] for line in read.err.splitlines() if "note: connection 0 (10.0." in line]
    assert notes == [situation.note] * bool(situation.note)
    assert situation.end in f"\n{read.err}"
    text = files.read(command="conns")
    assert (text.code, text.err) == (read.code, read.err if read.code == 3 else text.err)
    rows = objects(f"dcpdump conns {files.capture} --keylog {files.keys}")
    assert [(row["connection"], row["tls"]["why"]) for row in rows] == [(0, situation.why)] * bool(situation.tls)
    assert f"  {situation.tls}  " in text.out.replace("\n", "  ") or not situation.tls


def test_without_secrets_it_is_named_with_what_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path, twin())
    for variable, key_log in (("", "FILE with the key log of the client or the server"), ("k", '"$SSLKEYLOGFILE"')):
        monkeypatch.setenv("SSLKEYLOGFILE", variable)
        there = "39 packets; 1 TCP connection; TLS 1.3 on port 11209 (server name cb.example), 7,196 B encrypted"
        wanted = refusal(3, f"no DCP in the input: {there}", f"--keylog {key_log}, {ELSE}")
        assert run(f"dcpdump read {files.capture}") == wanted
    cell = f"{GCM_13} {TO}, 7,196 B stay encrypted: no secrets were given\n"
    assert run(f"dcpdump conns {files.capture} -q").out.endswith(f"  {cell}")


@pytest.mark.parametrize(("version", "suite"), [(0x0304, 0x1301), (0x0303, 0xC013)])
def test_tls_that_began_before_the_capture_is_named_without_secrets(tmp_path: Path, version: int, suite: int) -> None:
    result = run(f"dcpdump read {Files(tmp_path, late(version, suite)()).capture}")
    assert result.code == 3
    assert "; TLS" in result.err
    assert " B encrypted\n" in result.err
