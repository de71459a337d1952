"""Real connections: of OpenSSL, made here, and of Java and Go, as tcpdump captured them; and what tshark says."""

import json
import shutil
import ssl
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from dcpdump.tls.unsealer import Unsealer
from tests.support.console import run
from tests.tls.encoder import made
from tests.tls.feeding import feed, secrets_of, texts
from tests.tls.real import Pair

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


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_connections_of_java_and_go_open(capture: Path) -> None:
    result = run(f"dcpdump read {capture} --keylog {capture.with_suffix('.keys')} -f ndjson -q")
    rows = [json.loads(line) for line in result.out.splitlines()]
    clear = run(f"dcpdump read {Path(__file__).parents[2] / 'samples' / 'replica.pcap'} -f ndjson -q")
    wanted = [json.loads(line) for line in clear.out.splitlines()]
    there = run(f"dcpdump conns {capture} --keylog {capture.with_suffix('.keys')} -f ndjson -q").out.splitlines()
    assert {row["connection"] for row in rows} == set(range(len(there)))
    for number in range(len(there)):
        mine = [row for row in rows if row["connection"] == number]
        assert [(row["name"], row["opaque"], row["offset"]) for row in mine] == [
            (row["name"], row["opaque"], row["offset"]) for row in wanted
        ]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_what_tshark_opens_is_opened(capture: Path) -> None:
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is not installed: nothing to compare with")
    keys, port = capture.with_suffix(".keys"), "11201-11204"
    words = [tshark, "-r", str(capture), "-o", f"tls.keylog_file:{keys}", "-d", f"tls.port=={port},couchbase"]
    words += ["-Y", "couchbase", "-T", "fields", "-e", "couchbase.opcode"]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.replace(",", "\n").split()
    result = run(f"dcpdump read {capture} --keylog {keys} -f ndjson -q")
    assert found
    assert Counter(int(each, 0) for each in found) <= Counter(
        json.loads(line)["opcode"] for line in result.out.splitlines()
    )
