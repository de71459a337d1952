"""The Unsealer opens what the encoder seals: versions, suites, changes of keys, whatever the segments."""

from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcpdump.net.event import Bytes
from dcpdump.tls.unsealer import Unsealer
from tests.tls.encoder import CLIENT, CONVERSATIONS, KINDS, SERVER, Script, connected, made, talked
from tests.tls.feeding import feed, secrets_of, texts

SUITES = [
    *((0x0304, number) for number in KINDS if number >> 8 == 0x13),
    *((0x0303, number) for number in KINDS if number >> 8 != 0x13),
    *((version, number) for version in (0x0301, 0x0302) for number in (0xC013, 0xC014)),
]


def opened(script: Script, keylog: bytes | None = None) -> Unsealer:
    """Open a script, check that all its text comes and all bytes are counted."""
    script.part()
    unsealer = Unsealer(secrets_of(script.keylog if keylog is None else keylog))
    assert texts(feed(unsealer, script.flights)) == script.texts
    given, tls, encrypted = unsealer.account
    assert given == sum(map(len, script.texts))
    assert given + tls + encrypted == sum(len(data) for _, data in script.flights)
    return unsealer


@pytest.mark.parametrize(("version", "suite"), SUITES)
def test_every_suite_opens_in_both_directions(version: int, suite: int) -> None:
    unsealer = opened(talked(connected(version, suite)))
    assert unsealer.account[2] == 0
    assert unsealer.report().cause == ""


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_every_kind_of_conversation_opens(name: str) -> None:
    opened(CONVERSATIONS[name]())


@pytest.mark.parametrize("takes", [True, False])
def test_without_the_early_secret_the_rest_opens(takes: bool) -> None:
    script = talked(Script().handshake13(early=b"early text", takes=takes))
    unsealer = Unsealer(secrets_of(b"".join(line for line in script.lines if b"EARLY" not in line)))
    found = texts(feed(unsealer, script.flights))
    assert found == [script.texts[CLIENT].removeprefix(b"early text"), script.texts[SERVER]]


def test_without_secrets_of_the_handshake_the_text_opens() -> None:
    script = Script().handshake13(client_certificate=True)
    keylog = b"".join(line for line in script.lines if b"HANDSHAKE" not in line)
    assert opened(talked(script), keylog).account[2] == 0


def test_a_new_handshake_without_a_secret_closes_what_follows() -> None:
    script = connected(0x0303, 0xC02F).say(SERVER, made("before", size=3_000))
    before = [*script.texts]
    script.renegotiate()
    unsealer = Unsealer(secrets_of(script.lines[0]))
    assert texts(feed(unsealer, talked(script).flights)) == before
    assert unsealer.report().encrypted_bytes > 9_000


@pytest.mark.parametrize("ticket", [True, False])
@pytest.mark.parametrize("line", [True, False])
def test_a_resumed_session_opens_with_the_secret_of_the_first(ticket: bool, line: bool) -> None:
    first = connected(0x0303, 0xC02F, "first")
    second = Script(0x0303, 0xC02F, "second").handshake12(resumed=first, ticket=ticket, line=line)
    third = Script(0x0303, 0xC02F, "third").handshake12(resumed=second, ticket=True, line=False)
    secrets = secrets_of(first.keylog + second.keylog)
    for script in (first, second, third):
        assert texts(feed(Unsealer(secrets), talked(script).flights)) == script.texts


def test_of_contradicting_secrets_the_one_that_fits_is_taken() -> None:
    script = talked(connected())
    wrong = b"".join(line[:-65] + made("wrong", line).hex().encode() + b"\n" for line in script.lines)
    for keylog in (wrong + script.keylog, script.keylog + wrong):
        assert texts(feed(Unsealer(secrets_of(keylog)), script.flights)) == script.texts


def test_the_hello_of_the_server_may_be_captured_behind_what_the_client_says_next() -> None:
    script = talked(connected(0x0303, 0xC02F))
    at = next(i for i, (way, _) in enumerate(script.flights) if way == SERVER)
    late = [each for each in script.flights[at:] if each[0] == CLIENT][:3]
    rest = [each for each in script.flights if each not in late]
    assert texts(feed(Unsealer(secrets_of(script.keylog)), [rest[0], *late, *rest[1:]])) == script.texts


@pytest.mark.parametrize("way", [CLIENT, SERVER])
@pytest.mark.parametrize("suite", [0x1301, 0x1302, 0x1303])
def test_one_direction_alone_opens(way: int, suite: int) -> None:
    script, other = talked(connected(suite=suite)), connected(suite=suite, name="other")
    unsealer = Unsealer(secrets_of(other.keylog + script.keylog + other.keylog))
    assert texts(feed(unsealer, [each for each in script.flights if each[0] == way]))[way] == script.texts[way]


# -- secrets that come late -----------------------------------------------------------------------------


def again() -> Script:
    script = talked(connected(0x0303, 0xC02F))
    script.renegotiate()
    return talked(script)


@pytest.mark.parametrize(
    ("make", "first"),
    [*((lambda: talked(connected()), first) for first in range(4)), (again, 1)],
    ids=["none", "one", "two", "three", "that of the first handshake"],
)
def test_what_waits_opens_when_the_other_lines_of_the_key_log_come(make: Callable[[], Script], first: int) -> None:
    script = make()
    secrets = secrets_of(b"".join(script.lines[:first]), growing=True)
    unsealer = Unsealer(secrets)
    events = feed(unsealer, script.flights, ends=())
    assert first or (events == [] and unsealer.held > 9_000)
    secrets.feed(b"".join(script.lines[first:]))
    assert texts(events + unsealer.open_waiting()) == script.texts


@pytest.mark.parametrize(("version", "suite"), [(0x0304, 0x1302), (0x0304, 0x1303), (0x0303, 0xC02F)])
def test_so_much_waits_and_opening_begins_where_the_secrets_come(version: int, suite: int) -> None:
    script = connected(version, suite).say(SERVER, made("early", size=6_000_000))
    secrets, offsets = secrets_of(b"", growing=True), [0, 0]
    unsealer = Unsealer(secrets)
    assert feed(unsealer, script.flights, ends=(), offsets=offsets) == []
    assert unsealer.held < 100_000
    script.flights.clear()
    script.say(SERVER, made("later", size=50_000), size=5_000)
    secrets.feed(script.keylog)
    events = feed(unsealer, script.flights, ends=(), offsets=offsets)
    assert b"".join(event.data for _, event in events if isinstance(event, Bytes)) == made("later", size=50_000)
    report = unsealer.report()
    assert report.cause == "too-late"
    assert report.passed > 6_000_000


def test_where_no_secrets_come_they_are_not_said_to_have_come_too_late() -> None:
    script = connected().say(SERVER, made("text", size=6_000_000))
    unsealer = Unsealer(secrets_of(b"CLIENT_TRAFFIC_SECRET_0 " + b"ab" * 32 + b" " + b"cd" * 32, growing=True))
    feed(unsealer, script.flights, ends=())
    unsealer.close()
    assert unsealer.report().cause == "no-secret"


def test_what_waits_is_bounded() -> None:
    script = connected().say(SERVER, made("text", size=4_000_000))
    unsealer = Unsealer(secrets_of(b"", growing=True))
    feed(unsealer, script.flights, ends=())
    assert unsealer.held > 4_000_000
    assert unsealer.give_up() == []
    assert unsealer.held == 0
    assert sum(unsealer.account) == sum(len(data) for _, data in script.flights)


# -- whatever the bytes ---------------------------------------------------------------------------------


@cache
def spoken(version: int, suite: int) -> Script:
    """Return a conversation that is not changed."""
    return talked(connected(version, suite))


@given(st.lists(st.integers(1, 4_000), min_size=1, max_size=20), st.sampled_from([0x1301, 0xC02F, 0xCCA8, 0xC013]))
@example([1], 0x1301)
@example([1], 0xC013)
@settings(max_examples=30, deadline=None)
def test_how_bytes_are_cut_into_segments_changes_nothing(sizes: list[int], suite: int) -> None:
    script = spoken(0x0304 if suite == 0x1301 else 0x0303, suite)
    flights, each = [], 0
    for direction, data in script.flights:
        while data:
            size = sizes[each % len(sizes)]
            each += 1
            flights.append((direction, data[:size]))
            data = data[size:]
    assert texts(feed(Unsealer(secrets_of(script.keylog)), flights)) == script.texts


@given(
    st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=300)), max_size=10), st.booleans(), st.binary(max_size=400)
)
@settings(max_examples=100, deadline=None)
def test_no_bytes_and_no_key_log_raise(flights: list[tuple[int, bytes]], late: bool, keylog: bytes) -> None:
    unsealer = Unsealer(secrets_of(keylog), joined_late=late)
    feed(unsealer, [(0, b"\x16\3\3\0\5\1\0\0"), *flights])
    assert sum(unsealer.account) == 8 + sum(len(data) for _, data in flights)


@given(st.sampled_from(SUITES), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_flipped_bytes_raise_nothing_and_are_counted(suite: tuple[int, int], dice: Random) -> None:
    script = spoken(*suite)
    flights = []
    for direction, piece in script.flights:
        if dice.random() < 0.1:
            at = dice.randrange(len(piece))
            piece = piece[:at] + bytes([piece[at] ^ dice.randint(1, 255)]) + piece[at + 1 :]
        flights.append((direction, piece))
    unsealer = Unsealer(secrets_of(script.keylog))
    feed(unsealer, flights)
    assert sum(unsealer.account) == sum(len(piece) for _, piece in flights)
