"""An unsealer continues from its state as if it had not stopped, wherever that was taken."""

import marshal
import random
from collections import deque
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcpdump.capture.file import Capture
from dcpdump.dissect import Dissector
from dcpdump.net.event import Bytes, End, Event, Gap, Seen
from dcpdump.tls.openers import Opener
from dcpdump.tls.secrets import MissingSecretError, Secrets
from dcpdump.tls.unsealer import Unsealer
from tests.tls.encoder import CLIENT, CONVERSATIONS, SERVER, Script, connected, made, talked
from tests.tls.feeding import secrets_of
from tests.tls.test_lanes import one_by_one, packets_of
from tests.tls.twins import SAMPLES, seal

Fed = list[tuple[int, Event]]


def values(thing: Any) -> Any:
    """Return all that something holds as plain values, but for what is made of secrets."""
    if isinstance(thing, Secrets):
        return "secrets"
    if isinstance(thing, Opener):
        return thing.basis, thing.before
    if isinstance(thing, (list, tuple, deque)):
        return [values(each) for each in thing]
    names = getattr(thing, "__slots__", None) or getattr(thing, "__dict__", ())
    return {name: values(getattr(thing, name)) for name in names if name != "_made"} if names else thing


def renewed(unsealer: Unsealer, secrets: Secrets) -> Unsealer:
    """Return another unsealer with the same state, under secrets that were read again."""
    other = Unsealer.restored(unsealer.state(), secrets)
    assert values(other) == values(unsealer)
    return other


def segments(script: Script, size: int, dice: random.Random, loss: float = 0.0, *, late: bool = False) -> Fed:
    """Cut what is said into segments, some of them lost, and end both directions."""
    fed: Fed = []
    offsets = [0, 0]
    for way, data in script.flights:
        for at in range(0, len(data), size):
            piece, seen = data[at : at + size], Seen(len(fed) + 1, 1_000 * len(fed), "t.pcap", 1)
            if dice.random() < loss:
                fed.append((way, Gap(offsets[way], len(piece), "lost-by-capture", seen)))
            else:
                fed.append((way, Bytes(offsets[way], piece, seen, late)))
            offsets[way] += len(piece)
    for way in (CLIENT, SERVER):
        fed.append((way, End(offsets[way], "fin", Seen(len(fed) + 1, None), 7, by_peer=True)))
    return fed


def damaged(fed: tuple[int, Event], dice: random.Random, often: float) -> tuple[int, Event]:
    """Damage a byte now and then."""
    way, event = fed
    if isinstance(event, Bytes) and event.data and dice.random() < often:
        at = dice.randrange(len(event.data))
        data = event.data[:at] + bytes((event.data[at] ^ 0x55,)) + event.data[at + 1 :]
        event = event._replace(data=data)
    return way, event


def given_by(unsealer: Unsealer, fed: Fed) -> Fed:
    """Return what all of a conversation gives."""
    events = [event for way, each in fed for event in unsealer.feed(way, each)]
    return events + unsealer.close()


@given(st.sampled_from(sorted(CONVERSATIONS)), st.booleans(), st.integers(0, 1 << 30))
@example("another hello is requested", True, 139)  # no key is left to try
@settings(max_examples=150, deadline=None)
def test_losses_and_late_joins_change_nothing_of_that(name: str, late: bool, seed: int) -> None:
    dice, script = random.Random(seed), CONVERSATIONS[name]()
    if late:
        del script.flights[: dice.randrange(len(script.flights))]
    loss = dice.choice((0.0, 0.1))
    fed = [damaged(each, dice, loss) for each in segments(script, dice.choice((90, 400, 5_000)), dice, loss, late=late)]
    keylog = b"".join(line for line in script.lines if dice.random() < 0.9)
    few, same, again = (secrets_of(keylog) for _ in range(3))
    few.budget = same.budget = 1 << 18
    one, whole = Unsealer(few, joined_late=late), Unsealer(same, joined_late=late)
    cut = dice.randrange(len(fed))
    before = [event for way, each in fed[:cut] for event in one.feed(way, each)]
    state = values(one)
    again.restore(few.state())
    other = renewed(one, again)
    after = given_by(other, fed[cut:])
    assert values(one) == state  # it is what it was, and of its own
    assert before + after == given_by(whole, fed)
    assert (other.account, other.report()) == (whole.account, whole.report())
    assert sum(other.account) == sum(len(event.data) for _, event in fed if isinstance(event, Bytes))


@pytest.mark.parametrize("number", [3, 70_000])
def test_the_search_of_a_number_continues_where_it_was(number: int) -> None:
    script = connected(suite=0x1302)
    script.flights.clear()
    sealer = script.sealers[SERVER]
    assert sealer is not None
    sealer.number = number
    talked(script)
    fed = segments(script, 333, random.Random(1), late=True)
    whole, secrets = Unsealer(secrets_of(script.keylog), joined_late=True), secrets_of(script.keylog)
    one, wanted, events, found = Unsealer(secrets, joined_late=True), Fed(), Fed(), 0
    for way, each in fed:
        one = renewed(one, secrets)
        found += not one.opened
        events += one.feed(way, each)
        wanted += whole.feed(way, each)
        assert values(one) == values(whole)
    assert found > 2
    assert events + one.close() == wanted + whole.close()
    assert one.report() == whole.report()
    assert secrets.budget == whole._secrets.budget


def test_what_waits_for_its_secret_is_in_the_state() -> None:
    script = talked(connected())
    fed = segments(script, 1_000, random.Random(1))
    waiting = Unsealer(secrets_of(b"", growing=True))
    for way, each in fed[:-2]:
        assert waiting.feed(way, each) == []
    secrets = secrets_of(b"", growing=True)
    other = renewed(waiting, secrets)
    assert other.held == waiting.held > 0
    secrets.feed(script.keylog)
    text = [event.data for way, event in other.open_waiting() if way == SERVER and isinstance(event, Bytes)]
    assert b"".join(text) == script.texts[SERVER]


@pytest.mark.parametrize("way", [(0x0304, 0x1301, 300), (0x0303, 0xC02F, 16_384), (0x0301, 0xC014, 900)])
@pytest.mark.parametrize("first", [0, 11])
def test_the_frames_of_a_capture_are_the_same_across_a_cut_at_every_packet(
    way: tuple[int, int, int], first: int
) -> None:
    version, suite, size = way
    twin = seal(Capture(str(SAMPLES / "replica.pcap")), version=version, suite=suite, size=size, mtu=300)
    packets = packets_of(twin)[first:]
    wanted, _ = one_by_one(packets, twin.keylog)
    dissector = Dissector(show_secrets=True, secrets=secrets_of(twin.keylog))
    records = []
    for packet in packets:
        for conversation in dissector.conversations.values():
            for name in ("tls", "suspect"):
                each = getattr(conversation, name)
                setattr(conversation, name, each and renewed(each, dissector.secrets))
        records += dissector.feed(packet)
    records += dissector.drain()
    found = [
        (each.connection, each.direction, each.frame.raw.offset, each.frame.raw.gap_before, each.frame.raw.data)
        for each in records
    ]
    assert found == wanted


def test_no_secret_is_in_a_state() -> None:
    script = CONVERSATIONS["keys updated again and again"]()
    unsealer = Unsealer(secrets_of(script.keylog))
    given_by(unsealer, segments(script, 700, random.Random(1)))
    written = unsealer.state() + marshal.dumps(unsealer._secrets.state())
    for line in script.lines:
        secret = bytes.fromhex(line.split()[2].decode())
        assert not any(secret[at : at + 8] in written for at in range(len(secret) - 7))


def test_a_state_under_other_secrets_is_refused() -> None:
    script = talked(connected())
    unsealer = Unsealer(secrets_of(script.keylog))
    for way, each in segments(script, 700, random.Random(1))[:-2]:
        unsealer.feed(way, each)
    other = connected(name="other")
    with pytest.raises(MissingSecretError):
        Unsealer.restored(unsealer.state(), secrets_of(other.keylog))


def test_the_order_of_a_key_log_changes_no_state() -> None:
    script = talked(connected())
    guess = Script(name="one")
    guess.random = script.random
    guess.log("SERVER_TRAFFIC_SECRET_0", made("guess"))
    one, other = secrets_of(guess.keylog + script.keylog), secrets_of(script.keylog + guess.keylog)
    secrets = one.of(script.random, "SERVER_TRAFFIC_SECRET_0")
    assert len(secrets) == 2
    assert secrets == other.of(script.random, "SERVER_TRAFFIC_SECRET_0")[::-1]
    fed = segments(script, 700, random.Random(1))
    unsealer = Unsealer(one)
    events = [event for way, each in fed[:30] for event in unsealer.feed(way, each)]
    events += given_by(renewed(unsealer, other), fed[30:])
    assert events == given_by(Unsealer(secrets_of(script.keylog)), fed)
