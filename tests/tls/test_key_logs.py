"""Key logs as they are in reality: dirty, padded, contradicting one another, growing."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.capture.key_log import KeyLogError, KeyLogs
from dcpdump.tls.secrets import CLIENT_RANDOM, CLIENT_TRAFFIC, SERVER_TRAFFIC, KeyLog, Secrets
from tests.tls.encoder import made

RANDOM = made("random")
SECRET = made("secret")
MASTER = made("master", size=48)


def line(label: str, secret: bytes = SECRET, random: bytes = RANDOM) -> bytes:
    return f"{label} {random.hex()} {secret.hex()}\n".encode()


def of(text: bytes, label: str = CLIENT_TRAFFIC) -> list[bytes]:
    secrets = Secrets()
    secrets.feed(text)
    return secrets.of(RANDOM, label)


LINE = line(CLIENT_TRAFFIC)


@pytest.mark.parametrize(
    "text",
    [
        *(LINE, LINE.rstrip(), LINE.upper(), LINE.replace(b"\n", b"\r\n"), LINE.replace(b"\n", b"\r")),
        *(LINE.replace(b" ", b"\t"), b"  " + LINE.replace(b" ", b" \t ").rstrip() + b"  \n"),
        *(b"\xef\xbb\xbf" + LINE, b"# SSL/TLS secrets log file\n\n" + LINE + b"# end\n"),
        *(b"\0\xff garbage \n" + LINE + LINE[:80], b"x" * 100_000 + b"\n" + LINE, b"\0\0\0" + LINE + b"\0\0"),
        *(line(CLIENT_TRAFFIC, SECRET + bytes(32)), line(CLIENT_TRAFFIC, SECRET + bytes(16))),
    ],
)
def test_a_line_is_understood_as_it_is_written(text: bytes) -> None:
    assert of(text) == [SECRET]


@pytest.mark.parametrize(
    "text",
    [
        *(line(CLIENT_TRAFFIC, each) for each in (bytes(32), SECRET[:31], SECRET + SECRET, SECRET + b"\1" * 8)),
        *(line(CLIENT_TRAFFIC, random=RANDOM[:31]), line("CLIENT_TRAFFIC_SECRET_1"), LINE[:-2] + b"g\n"),
    ],
)
def test_what_a_label_does_not_allow_is_refused_and_counted(text: bytes) -> None:
    secrets = Secrets()
    secrets.feed(text)
    assert (secrets.of(RANDOM, CLIENT_TRAFFIC), secrets.refused) == ([], 1)


def test_lines_of_other_uses_are_no_errors() -> None:
    secrets = Secrets()
    for label in ("EXPORTER_SECRET", "EARLY_EXPORTER_MASTER_SECRET", "ECH_CONFIG", "RSA", "PMS_CLIENT_RANDOM"):
        secrets.feed(line(label))
    assert (secrets.refused, len(secrets)) == (0, 0)


def test_a_master_secret_has_48_bytes_and_others_32_or_48() -> None:
    assert of(line(CLIENT_RANDOM, MASTER), CLIENT_RANDOM) == [MASTER]
    assert of(line(CLIENT_RANDOM, SECRET), CLIENT_RANDOM) == []
    assert of(line(SERVER_TRAFFIC, MASTER), SERVER_TRAFFIC) == [MASTER]
    assert of(line(SERVER_TRAFFIC, MASTER + bytes(16)), SERVER_TRAFFIC) == [MASTER]


def test_of_several_secrets_four_are_kept_the_newest_first() -> None:
    several = [made("several", number) for number in range(6)]
    assert of(b"".join(line(CLIENT_TRAFFIC, each) for each in several)) == several[:1:-1]
    first, second, third = several[:3]
    again = b"".join(line(CLIENT_TRAFFIC, each) for each in (first, second, third, first))
    assert of(again) == [first, third, second]


def of_connections(count: int, most: int) -> tuple[Secrets, list[bytes]]:
    secrets, randoms = Secrets(most=most), [made("r", number) for number in range(count)]
    for random in randoms:
        secrets.feed(line(CLIENT_TRAFFIC, random=random))
    return secrets, randoms


def test_only_so_many_connections_are_kept_the_newest() -> None:
    secrets, randoms = of_connections(5, most=3)
    assert [secrets.knows(random) for random in randoms] == [False, False, True, True, True]


def test_the_likeliest_connections_come_first() -> None:
    secrets, randoms = of_connections(6, most=9)
    assert list(secrets.free()) == randoms[::-1]
    secrets.claim(randoms[1])
    assert [randoms.index(random) for random in secrets.free()][:2] in ([0, 2], [2, 0])
    assert set(secrets.free()) == {*randoms} - {randoms[1]}


def test_nothing_shows_a_secret() -> None:
    secrets = Secrets()
    secrets.feed(line(CLIENT_TRAFFIC))
    assert repr(secrets) == "<secrets of 1 connections>"


@given(st.lists(st.integers(1, 300), max_size=12))
def test_a_log_may_grow_in_any_pieces(sizes: list[int]) -> None:
    text = b"# log\r\n" + line(CLIENT_TRAFFIC) + b"junk\n" + line(SERVER_TRAFFIC, MASTER)
    secrets = Secrets()
    log, at = KeyLog(secrets), 0
    for size in sizes:
        log.feed(text[at : at + size])
        at += size
    log.feed(text[at:])
    log.close()
    assert (secrets.of(RANDOM, CLIENT_TRAFFIC), secrets.of(RANDOM, SERVER_TRAFFIC)) == ([SECRET], [MASTER])
    assert (log.accepted, log.refused) == (2, 1)


def polled(logs: KeyLogs) -> Secrets:
    """Read without the pause between two readings."""
    for each in logs.files:
        each.poll(logs.secrets)
    return logs.secrets


def growing(path: Path) -> KeyLogs:
    logs = KeyLogs((str(path),))
    logs.grow()
    return logs


def test_a_growing_log_is_followed_line_by_line_though_it_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.write_bytes(b"")
    logs = growing(path)
    with path.open("ab", buffering=0) as file:
        file.write(LINE[:50])
        assert not len(polled(logs))
        file.write(LINE[50:])
        assert polled(logs).of(RANDOM, CLIENT_TRAFFIC) == [SECRET]
        path.unlink()
        file.write(line(SERVER_TRAFFIC))
        assert polled(logs).of(RANDOM, SERVER_TRAFFIC) == [SECRET]


def test_a_log_that_is_written_anew_shorter_or_as_long_or_replaced_is_read_anew(tmp_path: Path) -> None:
    path, other = tmp_path / "keys.log", tmp_path / "other.log"
    path.write_bytes(LINE + line("EXPORTER_SECRET"))
    logs = growing(path)
    assert logs.secrets.of(RANDOM, CLIENT_TRAFFIC) == [SECRET]
    path.write_bytes(line(SERVER_TRAFFIC))
    assert polled(logs).of(RANDOM, SERVER_TRAFFIC) == [SECRET]
    path.write_bytes(line(SERVER_TRAFFIC, made("other")))
    assert polled(logs).of(RANDOM, SERVER_TRAFFIC) == [made("other"), SECRET]
    other.write_bytes(line(CLIENT_RANDOM, MASTER))
    os.replace(other, path)
    assert polled(logs).of(RANDOM, CLIENT_RANDOM) == [MASTER]


def test_a_pipe_is_read_to_its_end_and_in_a_live_capture_not_waited_for() -> None:
    reading, writing = os.pipe()
    logs = growing(Path(f"/dev/fd/{reading}"))
    assert not len(logs.secrets)
    os.write(writing, LINE)
    assert polled(logs).of(RANDOM, CLIENT_TRAFFIC) == [SECRET]
    os.write(writing, line(SERVER_TRAFFIC).rstrip())
    os.close(writing)
    whole = KeyLogs((f"/dev/fd/{reading}",))
    whole.read()
    os.close(reading)
    assert whole.secrets.of(RANDOM, SERVER_TRAFFIC) == [SECRET]


@pytest.mark.parametrize("name", ["missing.log", "."])
def test_a_log_that_cannot_be_read_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeyLogError, match="the key log cannot be read: "):
        KeyLogs((str(tmp_path / name),))
