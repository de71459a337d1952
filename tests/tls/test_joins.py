"""Connections that are joined behind their handshake: of TLS 1.3 the record number is searched, with bounded effort."""

from itertools import product

import pytest

from dcpdump.net.event import Bytes
from dcpdump.tls.openers import Opener13, find_number
from dcpdump.tls.side import EFFORT
from dcpdump.tls.suites import SUITES
from dcpdump.tls.unsealer import Unsealer
from tests.tls.encoder import CLIENT, SERVER, Script, connected, made
from tests.tls.feeding import feed, feed_direction, secrets_of, texts


def joined(suite: int, number: int, *, updates: int = 0) -> tuple[Script, list[tuple[int, bytes]]]:
    """Make a connection of which the server's records begin at a number."""
    script = connected(suite=suite)
    for _ in range(updates):
        script.key_update(SERVER)
    before = len(script.flights)
    script.texts = [b"", b""]
    sealer = script.sealers[SERVER]
    assert sealer is not None
    sealer.number = number
    script.say(SERVER, made("text", size=20_000), size=900).say(CLIENT, made("answer", size=2_000), size=200)
    return script, script.flights[before:]


def late(script: Script, flights: list[tuple[int, bytes]]) -> tuple[Unsealer, list[bytes]]:
    """Read what follows the handshake, and return what read it and the texts, which are the ends of what was said."""
    unsealer = Unsealer(secrets_of(script.keylog), joined_late=True)
    events = feed(unsealer, flights, late=True)
    found = texts(events)
    assert all(event.joined_late for _, event in events if isinstance(event, Bytes))
    assert all(whole.endswith(text) for whole, text in zip(script.texts, found, strict=True))
    return unsealer, found


#: And of ChaCha20 by tries, and under updated keys near their beginning.
FOUND = [
    *product([0x1301, 0x1302], [0, 1, 65_535, 65_536, 70_000], [0]),
    (0x1303, 900, 0),
    (0x1301, 20, 1),
    (0x1301, 20, 2),
]


@pytest.mark.parametrize(("suite", "number", "updates"), FOUND)
def test_the_number_of_a_record_is_found(suite: int, number: int, updates: int) -> None:
    script, flights = joined(suite, number, updates=updates)
    unsealer, found = late(script, flights)
    assert found[CLIENT] == script.texts[CLIENT]
    assert len(found[SERVER]) >= 20_000 - 900
    assert unsealer.report().version == "TLS 1.3"
    assert unsealer.report().joined_at is not None


def test_the_direction_may_be_joined_inside_a_record() -> None:
    script, flights = joined(0x1301, 500)
    data = b"".join(data for way, data in flights if way == SERVER)
    for cut in (1, 4, 5, 100, 921, 922, 1_500):
        unsealer = Unsealer(secrets_of(script.keylog), joined_late=True)
        events = feed_direction(unsealer, SERVER, [data[cut:]], late=True)
        found = b"".join(event.data for event in events if isinstance(event, Bytes))
        assert script.texts[SERVER].endswith(found)
        assert len(found) >= 20_000 - 900 * (1 + -(-cut // 922))
        assert sum(unsealer.account) == len(data) - cut


def test_every_packet_is_a_place_to_join_at() -> None:
    script = connected()
    for number in range(6):
        script.say(SERVER, made(number, size=700), size=350).say(CLIENT, made("c", number, size=200))
    flights = script.flights
    handshake = next(n for n, (way, data) in enumerate(flights) if way == CLIENT and len(data) == 222) - 2
    for first in range(handshake, len(flights) - 4):
        assert late(script, flights[first:])[1][SERVER]


def test_secrets_of_three_hundred_others_do_not_hide_it() -> None:
    script, flights = joined(0x1302, 3_000)
    others = [Script(name=f"other {each}") for each in range(300)]
    for other in others:
        for label in ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"):
            other.log(label, made(label, other.name))
    secrets = secrets_of(script.keylog + b"".join(other.keylog for other in others))
    before = secrets.budget
    assert len(texts(feed(Unsealer(secrets, joined_late=True), flights, late=True))[SERVER]) >= 19_000
    assert before - secrets.budget <= 2 * (EFFORT + EFFORT // 4)


#: The largest attempt is of 2²⁶ numbers: less is left where the first ones have taken some of as many.
@pytest.mark.parametrize(("suite", "budget"), [(0x1301, 1 << 23), (0x1302, 1 << 26)])
def test_the_effort_is_bounded(suite: int, budget: int) -> None:
    script, flights = joined(suite, 1 << 40)
    secrets = secrets_of(script.keylog)
    secrets.budget = budget
    unsealer = Unsealer(secrets, joined_late=True)
    assert texts(feed(unsealer, [each for each in flights if each[0] == SERVER], late=True)) == [b"", b""]
    assert secrets.budget >= 0
    assert (unsealer.report().cause, unsealer.report().reach) == ("not-found", 1 << 20)


def test_a_direction_that_only_ends_starts_no_search() -> None:
    script = connected()
    before = len(script.flights)
    script.part()
    secrets = secrets_of(script.keylog)
    left = secrets.budget
    feed(Unsealer(secrets, joined_late=True), script.flights[before:], late=True)
    assert secrets.budget == left


@pytest.mark.parametrize("suite", [0xC02F, 0xC013])
def test_tls_1_2_says_that_it_cannot_be_joined(suite: int) -> None:
    script = connected(0x0303, suite)
    before = len(script.flights)
    script.say(SERVER, made("text", size=20_000), size=900)
    unsealer, found = late(script, script.flights[before:])
    assert found == [b"", b""]
    assert unsealer.report().cause == "joined-late"
    assert unsealer.account[2] == sum(len(data) for _, data in script.flights[before:])


def test_what_is_no_tls_is_not_taken_for_it() -> None:
    unsealer = Unsealer(secrets_of(b""), joined_late=True)
    feed_direction(unsealer, CLIENT, [made("noise", size=100_000)], late=True)
    assert not unsealer.certain


@pytest.mark.parametrize("number", [0, 1, 2_047, 2_048, 65_535, 65_536, 200_000])
@pytest.mark.parametrize("suite", [0x1301, 0x1302])
def test_a_number_is_found_exactly_in_its_range(suite: int, number: int) -> None:
    script, flights = joined(suite, number)
    record = next(data for way, data in flights if way == SERVER)
    secret = bytes.fromhex(script.lines[1].split()[2].decode())
    assert script.lines[1].startswith(b"SERVER_TRAFFIC")
    opener = Opener13(SUITES[suite], secret)
    for first, stop, there in ((0, number + 1, True), (number, number + 1, True), (0, number, False)):
        found = find_number(opener, record[:5], record[5:], first, stop)
        assert (None if found is None else found[0]) == (number if there else None)
    assert find_number(opener, record[:5], record[5:], number + 1, number + 70_000) is None
