"""Each situation that a connection of TLS may be in, in one table: what ``conns`` and ``read`` say, and how they end.

What is said of a whole run is in test_situations.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.tls.encoder import CLIENT, SERVER, Script, made
from tests.tls.test_situations import Files, of, twin, without_syn
from tests.tls.twins import Twin

GCM, CBC, CHACHA, CCM = 0xC02F, 0xC014, 0xCCA8, 0xC09C
BEFORE = "joined after its handshake it cannot be opened: capture from before it connects"


def late(version: int, suite: int, keylog: bytes | None = None) -> Callable[[], Twin]:
    """Return what makes a connection whose beginning was not captured."""

    def make() -> Twin:
        whole = without_syn(twin(version, suite), 20)
        return Twin(whole.packets, whole.keylog if keylog is None else keylog)

    return make


def others() -> bytes:
    """Make the key log of another connection."""
    script = Script(name="other")
    script.handshake()
    return script.keylog


def without_logs() -> Twin:
    return Twin(twin().packets, b"")


def of_others() -> Twin:
    return Twin(twin().packets, others())


def wrong() -> Twin:
    whole = twin()
    lines = (each.rpartition(b" ")[0] + b" " + made("no", each).hex().encode() for each in whole.keylog.splitlines())
    return Twin(whole.packets, b"\n".join(lines) + b"\n")


def one_side(who: bytes) -> Callable[[], Twin]:
    """Return what makes a connection of which only one side's secrets are there."""

    def make() -> Twin:
        whole = twin()
        return Twin(whole.packets, b"".join(x for x in whole.keylog.splitlines(True) if x.startswith(who)))

    return make


def handshake_only() -> Twin:
    whole = twin()
    return Twin(whole.packets, b"".join(x for x in whole.keylog.splitlines(True) if b"HANDSHAKE" in x))


def late_after_updates() -> Twin:
    """Make a connection that is joined late, in which the server has updated its key more often than is tried."""
    script = Script()
    script.handshake()
    for _ in range(4):
        script.key_update(SERVER)
    before = len(of(script).packets)
    for _ in range(4):
        script.say(CLIENT, encode("DCP_NOOP"))
        script.say(SERVER, encode("DCP_NOOP", response=True))
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
    script = Script()
    script.handshake()
    script.say(CLIENT, b"GET /pools HTTP/1.1\r\nHost: cb\r\n\r\n")
    return of(script)


def without_server_hello() -> Twin:
    script = Script(0x0303, GCM)
    script.handshake()
    script.say(CLIENT, made("said", size=400))
    script.flights = [flight for flight in script.flights if flight[0] == CLIENT]
    whole = of(script)
    return Twin([each for each in whole.packets if each is not whole.packets[1]], whole.keylog)


@dataclass(frozen=True)
class Situation:
    """``tls`` is the cell of ``conns``, ``note`` the end of the note of ``read``; empty: there is none."""

    make: Callable[[], Twin]
    code: int
    why: str
    tls: str
    note: str = ""
    keyed: bool = True


def closed_late(version: int, suite: int, what: str) -> Situation:
    """Return the situation of a connection that cannot be opened since its beginning was not captured."""
    text = f"{what} stay encrypted: {BEFORE}"
    return Situation(late(version, suite), 3, "joined-late", text, f"TLS {text}")


SITUATIONS = {
    "opened": Situation(twin, 0, "", "1.3 AES-128-GCM"),
    "no key log": Situation(
        without_logs,
        3,
        "no-secrets",
        "1.3 AES-128-GCM to cb.example, 7,196 B stay encrypted: no secrets were given",
        keyed=False,
    ),
    "no secret of it": Situation(
        of_others,
        3,
        "no-secret",
        "1.3 AES-128-GCM to cb.example, 7,196 B stay encrypted: no secret of it in 1 key log (1 connection)",
        "TLS 1.3, 7,196 B stay encrypted: no secret of it in 1 key log (1 connection)",
    ),
    "secrets that do not fit": Situation(
        wrong,
        3,
        "do-not-fit",
        "1.3 AES-128-GCM to cb.example, 7,196 B stay encrypted: its secrets do not fit (4 records tried)",
        "TLS 1.3, 7,196 B stay encrypted: its secrets do not fit (4 records tried)",
    ),
    "the server's secrets only": Situation(
        one_side(b"SERVER"),
        0,
        "one-direction",
        "1.3 AES-128-GCM, no secret of the client's direction",
        "B stay encrypted: no secret of the client's direction",
    ),
    "the client's secrets only": Situation(
        one_side(b"CLIENT"),
        0,
        "one-direction",
        "1.3 AES-128-GCM, no secret of the server's direction",
        "B stay encrypted: no secret of the server's direction",
    ),
    "the secrets of the handshake only": Situation(
        handshake_only,
        3,
        "handshake-only",
        "1.3 AES-128-GCM to cb.example, 6,030 B stay encrypted: its secrets are of the handshake only",
        "B stay encrypted: its secrets are of the handshake only",
    ),
    "1.3 joined late, after one side updated its key": Situation(
        late_after_updates,
        0,
        "not-found",
        "1.3 AES-128-GCM, joined at record 0, joined after its handshake: none of the secrets of 1 connection opens it "
        "up to record 1,048,576",
        "none of the secrets of 1 connection opens it up to record 1,048,576",
    ),
    "1.3 joined late": Situation(
        late(0x0304, 0x1301),
        0,
        "",
        "1.3 AES-128-GCM, joined at record 7",
        "TLS 1.3 joined after its handshake: recognised at record 7",
    ),
    "1.3 with ChaCha20 joined late": Situation(
        late(0x0304, 0x1303),
        0,
        "",
        "1.3 ChaCha20-Poly1305, joined at record 7",
        "TLS 1.3 joined after its handshake: recognised at record 7",
    ),
    "1.3 joined late, and of others": Situation(
        late(0x0304, 0x1301, others()),
        3,
        "not-found",
        "TLS, 4,966 B stay encrypted: joined after its handshake: none of the secrets of 1 connection opens it up to "
        "record 1,048,576, and of TLS 1.2 none can",
        "up to record 1,048,576, and of TLS 1.2 none can",
    ),
    "1.2 with GCM joined late": Situation(
        late(0x0303, GCM),
        3,
        "joined-late",
        f"1.2, 5,064 B stay encrypted: {BEFORE}",
        f"TLS 1.2, 5,064 B stay encrypted: {BEFORE}",
    ),
    "1.2 with CCM joined late": Situation(
        late(0x0303, CCM),
        3,
        "joined-late",
        f"1.2, 5,064 B stay encrypted: {BEFORE}",
        f"TLS 1.2, 5,064 B stay encrypted: {BEFORE}",
    ),
    "1.2 with CBC joined late": Situation(
        late(0x0303, CBC),
        3,
        "joined-late",
        f"1.2, 5,574 B stay encrypted: {BEFORE}",
        f"TLS 1.2, 5,574 B stay encrypted: {BEFORE}",
    ),
    "1.1 with CBC joined late": Situation(
        late(0x0302, CBC),
        3,
        "joined-late",
        f"1.1, 5,574 B stay encrypted: {BEFORE}",
        f"TLS 1.1, 5,574 B stay encrypted: {BEFORE}",
    ),
    "1.2 with ChaCha20 joined late": Situation(
        late(0x0303, CHACHA),
        3,
        "joined-late",
        "TLS, 4,952 B stay encrypted: joined after its handshake, no secret of TLS 1.3 in 1 key log (1 connection): "
        "of TLS 1.2 capture from before it connects",
        "of TLS 1.2 capture from before it connects",
    ),
    "lost records": Situation(hurt, 4, "", "1.3 AES-128-GCM, 1 record lost"),
    "a cipher that is not opened": Situation(
        unknown_cipher,
        3,
        "suite",
        "1.2 RC4 to cb.example, 810 B stay encrypted: RC4 is not opened",
        "TLS 1.2, 810 B stay encrypted: RC4 is not opened",
    ),
    "no server hello": Situation(
        without_server_hello,
        3,
        "no-server-hello",
        "TLS to cb.example, 474 B stay encrypted: the server's hello was not captured",
        "the server's hello was not captured, without which TLS 1.2 cannot be opened",
    ),
    "another protocol inside": Situation(http, 3, "", ""),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_is_said_in_its_words(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # So many numbers as are tried elsewhere take seconds, and decide nothing but the number in a text.
    monkeypatch.setattr("dcpdump.tls.late._WINDOWS", (1 << 12, 1 << 16, 1 << 20))
    monkeypatch.setattr("dcpdump.tls.late._SLOW_EFFORT", 1 << 21)
    situation = SITUATIONS[name]
    files = Files(tmp_path, situation.make())
    keys = f"--keylog {files.keys}" if situation.keyed else ""
    read = run(f"dcpdump read {files.capture} {keys} -f line")
    assert read.code == situation.code
    notes = [line for line in read.err.splitlines() if line.startswith("dcpdump: note: connection 0 (10.0.")]
    assert [line.endswith(situation.note) for line in notes] == ([True] if situation.note else [])
    text = run(f"dcpdump conns {files.capture} {keys}")
    assert (text.code, text.err) == (read.code, text.err)
    rows = [json.loads(line) for line in run(f"dcpdump conns {files.capture} {keys} -q -f ndjson").out.splitlines()]
    if not situation.tls and not situation.why:
        assert (rows, text.out) == ([], "")
        return
    assert [(row["connection"], row["tls"]["why"]) for row in rows] == [(0, situation.why)]
    assert situation.tls in text.out
