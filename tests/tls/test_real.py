"""Real connections: of OpenSSL, made here, and of Java and Go, as tcpdump captured them."""

import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from dcpdump.tls.unsealer import Unsealer
from tests.support.console import run
from tests.tls.encoder import made
from tests.tls.feeding import feed, secrets_of, texts
from tests.tls.real import Pair
from tests.tls.twins import REPLICA

V1_2, V1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
SCRIPT = [(0, b"hello"), (1, made("long", size=50_000)), (0, b"x"), (1, made("more", size=70_000))]
SUITES = [
    (V1_3, ""),
    (V1_2, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (V1_2, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (V1_2, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (V1_2, "ECDHE-ECDSA-AES128-SHA"),
    (V1_2, "ECDHE-ECDSA-AES256-SHA384"),
    (V1_2, "ECDHE-ECDSA-AES128-CCM"),
    (V1_2, "ECDHE-ECDSA-AES256-CCM8"),
]
CAPTURES = sorted(Path(__file__).with_name("captures").glob("*.pcap"))


@pytest.mark.parametrize(("version", "ciphers"), SUITES)
@pytest.mark.parametrize("certificates", [False, True])
def test_connections_of_openssl_open_twice_resumed(version: ssl.TLSVersion, ciphers: str, certificates: bool) -> None:
    pair = Pair(version, ciphers, client_certificate=certificates)
    for _ in range(2):
        talk = pair.talk(SCRIPT)
        for size in (0, 1_460):
            unsealer = Unsealer(secrets_of(talk.keylog))
            assert texts(feed(unsealer, talk.flights, size=size)) == talk.texts
            assert unsealer.account[2] == 0


def rows(capture: Path, command: str = "read", more: str = "") -> list[Any]:
    return list(map(json.loads, run(f"dcpdump {command} {capture} -f ndjson -q {more}").out.splitlines()))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_connections_of_java_and_go_open(capture: Path) -> None:
    keys = f"--keylog {capture.with_suffix('.keys')}"
    wanted = [(row["name"], row["opaque"], row["offset"]) for row in rows(REPLICA)]
    found = [(row["connection"], (row["name"], row["opaque"], row["offset"])) for row in rows(capture, more=keys)]
    there = {"go-cbc": 1, "java-cbc": 1, "java-chacha20": 1}.get(capture.stem, 2)
    assert len(rows(capture, "conns", keys)) == there
    for number in range(there):
        assert [each for mine, each in found if mine == number] == wanted
    assert len(found) == there * len(wanted)
