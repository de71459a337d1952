"""Connections of openssl s_client and s_server, which do what Python's ssl cannot be asked for."""

from pathlib import Path

import pytest

from dcpdump.tls.unsealer import Unsealer
from tests.support.live import needs
from tests.tls.feeding import feed, secrets_of, texts
from tests.tls.openssl import talk

SAID = [(0, "the client begins"), (1, "the server answers"), (0, "again " * 400)]
UPDATES = [(0, "K"), (1, "K"), (0, "k"), (1, "k")]


def turns(changes: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Say something before and after each change."""
    steps = list(SAID)
    for number, change in enumerate(changes):
        steps += [change, *((way, f"{line} after {number}") for way, line in SAID)]
    return steps


NEW = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]
OLD = ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-SHA", "ECDHE-ECDSA-CHACHA20-POLY1305"]


@pytest.mark.parametrize("suite", NEW)
def test_keys_that_either_side_updates_open(suite: str, tmp_path: Path) -> None:
    needs("openssl")
    found = talk(tmp_path, turns(UPDATES), ["-tls1_3", "-ciphersuites", suite])
    for size in (0, 100):
        unsealer = Unsealer(secrets_of(found.keylog))
        assert texts(feed(unsealer, found.flights, size=size)) == found.texts
        assert (unsealer.account[2], unsealer.sealing().cause) == (0, "")


@pytest.mark.parametrize("suite", OLD)
def test_handshakes_inside_a_connection_open(suite: str, tmp_path: Path) -> None:
    needs("openssl")
    words = ["-tls1_2", "-cipher", f"{suite}:@SECLEVEL=0"]
    found = talk(tmp_path, turns([(0, "R"), (0, "R")]), words, server_words=("-client_renegotiation",))
    assert len(set(found.keylog.splitlines()) - {b""}) >= 3
    for size in (0, 100):
        unsealer = Unsealer(secrets_of(found.keylog))
        assert texts(feed(unsealer, found.flights, size=size)) == found.texts
        assert (unsealer.account[2], unsealer.sealing().cause) == (0, "")
