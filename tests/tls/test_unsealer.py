"""The Unsealer opens what the encoder seals: versions, suites, changes of keys, whatever the segments."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.net.event import Bytes, Event, Seen
from dcpdump.tls.unsealer import Unsealer
from tests.tls.encoder import CLIENT, KINDS, SERVER, Script, made
from tests.tls.feeding import feed, secrets_of, texts

OLD = [0xC013, 0xC014]
SUITES = [
    *((0x0304, number) for number in KINDS if number >> 8 == 0x13),
    *((0x0303, number) for number in KINDS if number >> 8 != 0x13),
    *((version, number) for version in (0x0301, 0x0302) for number in OLD),
]


def talked(script: Script) -> Script:
    """Have both sides say something."""
    script.say(CLIENT, made("ask", size=300))
    script.say(SERVER, made("answer", size=40_000), size=1_400)
    script.say(CLIENT, made("ask again", size=2_000), size=70)
    script.part()
    return script


def opened(script: Script, keylog: bytes | None = None, *, size: int = 0) -> Unsealer:
    """Open a script, check that all its text comes and all bytes are counted."""
    unsealer = Unsealer(secrets_of(script.keylog if keylog is None else keylog))
    events = feed(unsealer, script.flights, size=size)
    assert texts(events) == script.texts
    given, tls, encrypted = unsealer.account
    assert given == sum(map(len, script.texts))
    assert given + tls + encrypted == sum(len(data) for _, data in script.flights)
    assert unsealer.pending == 0
    return unsealer


@pytest.mark.parametrize(("version", "suite"), SUITES)
@pytest.mark.parametrize("size", [0, 1, 1460])
def test_every_suite_opens_in_both_directions(version: int, suite: int, size: int) -> None:
    script = Script(version, suite)
    script.handshake()
    unsealer = opened(talked(script), size=size)
    assert unsealer.account[2] == 0
    assert unsealer.sealing().cause == ""


@pytest.mark.parametrize(("version", "suite"), [(0x0303, 0xC027), (0x0303, 0xC028), (0x0302, 0xC013), (0x0301, 0xC014)])
def test_a_mac_outside_of_what_is_encrypted_opens(version: int, suite: int) -> None:
    script = Script(version, suite, etm=True)
    script.handshake()
    opened(talked(script))


def test_the_names_of_version_suite_and_server_are_known() -> None:
    script = Script(0x0303, 0xC030)
    script.handshake()
    sealing = opened(talked(script)).sealing()
    assert (sealing.version, sealing.suite, sealing.server_name) == ("TLS 1.2", "AES-256-GCM", "cb.example")
    assert sealing.short == "1.2 AES-256-GCM"


def test_padding_is_no_text() -> None:
    script = Script()
    script.handshake()
    script.say(SERVER, made("padded", size=5_000), size=600, padding=77)
    opened(talked(script))


def test_empty_records_are_legal() -> None:
    script = Script()
    script.handshake()
    script.sealed(SERVER, 23, b"")
    script.sealed(SERVER, 23, b"", padding=20)
    opened(talked(script))


def test_keys_may_be_updated_again_and_again() -> None:
    script = Script(suite=0x1302)
    script.handshake()
    for turn in range(5):
        script.say(SERVER, made("before", turn, size=3_000), size=500)
        script.key_update(SERVER)
        if turn % 2:
            script.key_update(CLIENT)
        script.say(CLIENT, made("client", turn, size=100))
    opened(talked(script))


def test_a_server_may_ask_for_another_hello() -> None:
    script = Script()
    script.handshake13(retry=True)
    opened(talked(script))


def test_a_client_certificate_changes_nothing() -> None:
    script = Script()
    script.handshake13(client_certificate=True)
    opened(talked(script))


def test_the_finished_of_a_later_authentication_changes_no_key() -> None:
    script = Script()
    script.handshake()
    script.say(SERVER, b"before")
    script.authenticate_late()
    opened(talked(script))


def test_early_text_counts_where_the_server_takes_it() -> None:
    script = Script()
    script.handshake13(early=b"early text", takes=True)
    opened(talked(script))


def test_early_text_that_is_refused_does_not_count() -> None:
    script = Script()
    script.handshake13(early=b"early text", takes=False)
    opened(talked(script))


@pytest.mark.parametrize("takes", [True, False])
def test_without_the_early_secret_the_rest_opens(takes: bool) -> None:
    script = Script()
    script.handshake13(early=b"early text", takes=takes)
    script.texts[CLIENT] = b""
    keylog = b"".join(line for line in script.lines if b"EARLY" not in line)
    unsealer = Unsealer(secrets_of(keylog))
    assert texts(feed(unsealer, talked(script).flights)) == script.texts


def test_without_secrets_of_the_handshake_the_text_opens() -> None:
    script = Script()
    script.handshake13(client_certificate=True)
    keylog = b"".join(line for line in script.lines if b"HANDSHAKE" not in line)
    assert opened(talked(script), keylog).account[2] == 0


@pytest.mark.parametrize("suite", [0xC02F, 0xC013])
def test_a_new_handshake_inside_the_connection_has_its_own_line(suite: int) -> None:
    script = Script(0x0303, suite)
    script.handshake()
    script.say(SERVER, made("before", size=3_000))
    script.renegotiate()
    script.say(SERVER, made("between", size=3_000))
    script.renegotiate()
    opened(talked(script))


def test_a_new_handshake_without_a_secret_closes_what_follows() -> None:
    script = Script(0x0303, 0xC02F)
    script.handshake()
    script.say(SERVER, made("before", size=3_000))
    before = [*script.texts]
    script.renegotiate()
    unsealer = Unsealer(secrets_of(script.lines[0]))
    assert texts(feed(unsealer, talked(script).flights)) == before
    assert unsealer.sealing().encrypted_bytes > 40_000


@pytest.mark.parametrize("ticket", [True, False])
@pytest.mark.parametrize("line", [True, False])
def test_a_resumed_session_opens_with_the_secret_of_the_first(ticket: bool, line: bool) -> None:
    first, second = Script(0x0303, 0xC02F, "first"), Script(0x0303, 0xC02F, "second")
    first.handshake12()
    second.handshake12(resumed=first, ticket=ticket, line=line)
    secrets = secrets_of(first.keylog + second.keylog)
    for script in (talked(first), talked(second)):
        assert texts(feed(Unsealer(secrets), script.flights)) == script.texts


def test_a_session_that_is_resumed_twice_opens() -> None:
    scripts = [Script(0x0303, 0xC02F, name) for name in ("first", "second", "third")]
    scripts[0].handshake12()
    scripts[1].handshake12(resumed=scripts[0], ticket=True, line=False)
    scripts[2].handshake12(resumed=scripts[1], ticket=True, line=False)
    secrets = secrets_of(scripts[0].keylog)
    for script in scripts:
        assert texts(feed(Unsealer(secrets), talked(script).flights)) == script.texts


def test_of_contradicting_secrets_the_one_that_fits_is_taken() -> None:
    script = Script()
    script.handshake()
    talked(script)
    wrong = b"".join(line[:-65] + made("wrong", line).hex().encode() + b"\n" for line in script.lines)
    for keylog in (wrong + script.keylog, script.keylog + wrong):
        assert texts(feed(Unsealer(secrets_of(keylog)), script.flights)) == script.texts


def test_the_hello_of_the_server_may_be_captured_behind_what_the_client_says_next() -> None:
    script = Script(0x0303, 0xC02F)
    script.handshake()
    talked(script)
    at = next(i for i, (way, _) in enumerate(script.flights) if way == SERVER)
    late = [each for each in script.flights[at:] if each[0] == CLIENT][:3]
    rest = [each for each in script.flights if each not in late]
    assert texts(feed(Unsealer(secrets_of(script.keylog)), [rest[0], *late, *rest[1:]])) == script.texts


@pytest.mark.parametrize("way", [CLIENT, SERVER])
@pytest.mark.parametrize("suite", [0x1301, 0x1302, 0x1303])
def test_one_direction_alone_opens(way: int, suite: int) -> None:
    script = Script(suite=suite)
    script.handshake()
    alone = [each for each in talked(script).flights if each[0] == way]
    foreign = Script(suite=suite, name="other")
    foreign.handshake()
    unsealer = Unsealer(secrets_of(foreign.keylog + script.keylog + foreign.keylog))
    found = texts(feed(unsealer, alone))
    assert found[way] == script.texts[way]


def test_secrets_of_one_direction_open_that() -> None:
    script = Script()
    script.handshake()
    keylog = b"".join(line for line in script.lines if line.startswith(b"CLIENT"))
    unsealer = Unsealer(secrets_of(keylog))
    assert texts(feed(unsealer, talked(script).flights)) == [script.texts[0], b""]
    sealing = unsealer.sealing()
    assert (sealing.cause, sealing.server) == ("one-direction", True)


def test_without_any_secret_all_is_counted_and_named() -> None:
    script = Script()
    script.handshake()
    unsealer = Unsealer(secrets_of(b""))
    assert feed(unsealer, talked(script).flights)[:-2] == []
    sealing = unsealer.sealing()
    assert (sealing.version, sealing.suite, sealing.server_name) == ("TLS 1.3", "AES-128-GCM", "cb.example")
    assert (sealing.cause, sealing.opened_bytes) == ("no-secrets", 0)
    assert sum(unsealer.account) == sum(len(data) for _, data in script.flights)


def test_secrets_of_others_are_no_help() -> None:
    script, other = Script(), Script(name="other")
    script.handshake()
    other.handshake()
    unsealer = Unsealer(secrets_of(other.keylog))
    feed(unsealer, talked(script).flights)
    assert unsealer.sealing().cause == "no-secret"


@pytest.mark.parametrize(("version", "suite"), [(0x0304, 0x1301), (0x0303, 0xC02F), (0x0303, 0xC013)])
def test_secrets_that_do_not_fit_are_given_up(version: int, suite: int) -> None:
    script = Script(version, suite)
    script.handshake()
    secret = made("no", size=48 if version < 0x304 else 32).hex().encode()
    wrong = b"".join(line[: 1 + line.rindex(b" ")] + secret + b"\n" for line in script.lines)
    unsealer = Unsealer(secrets_of(wrong))
    assert texts(feed(unsealer, talked(script).flights)) == [b"", b""]
    sealing = unsealer.sealing()
    assert (sealing.cause, sealing.records) == ("do-not-fit", 4)


def test_what_waits_opens_when_its_secrets_come() -> None:
    script = Script()
    script.handshake()
    talked(script)
    secrets = secrets_of(b"", growing=True)
    unsealer = Unsealer(secrets)
    events = feed_without_end(unsealer, script)
    assert events == []
    assert unsealer.pending > 40_000
    secrets.feed(script.keylog)
    assert texts(unsealer.open_waiting()) == script.texts
    assert unsealer.pending == 0


@pytest.mark.parametrize("first", [1, 2, 3])
def test_what_waits_for_the_second_of_two_secrets_opens_when_that_comes(first: int) -> None:
    script = Script()
    script.handshake()
    opens_in_two(talked(script), first)


def test_what_is_said_after_a_handshake_inside_waits_for_its_secret() -> None:
    script = Script(0x0303, 0xC02F)
    script.handshake()
    talked(script).renegotiate()
    opens_in_two(talked(script), 1)


def opens_in_two(script: Script, first: int) -> None:
    """Have so many lines of the key log come first, and the others behind all records."""
    secrets = secrets_of(b"".join(script.lines[:first]), growing=True)
    unsealer = Unsealer(secrets)
    events = feed_without_end(unsealer, script)
    secrets.feed(b"".join(script.lines[first:]))
    assert texts(events + unsealer.open_waiting()) == script.texts
    assert unsealer.pending == 0


def feed_without_end(unsealer: Unsealer, script: Script) -> list[tuple[int, Event]]:
    events: list[tuple[int, Event]] = []
    offsets = [0, 0]
    for direction, data in script.flights:
        events += unsealer.feed(direction, Bytes(offsets[direction], data, Seen(1, 1)))
        offsets[direction] += len(data)
    return events


@given(st.lists(st.integers(1, 4_000), min_size=1, max_size=20), st.sampled_from([0x1301, 0xC02F, 0xCCA8, 0xC013]))
@settings(max_examples=30, deadline=None)
def test_how_bytes_are_cut_into_segments_changes_nothing(sizes: list[int], suite: int) -> None:
    script = Script(0x0304 if suite == 0x1301 else 0x0303, suite)
    script.handshake()
    talked(script)
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
@settings(max_examples=200, deadline=None)
def test_no_bytes_and_no_key_log_raise(flights: list[tuple[int, bytes]], late: bool, keylog: bytes) -> None:
    unsealer = Unsealer(secrets_of(keylog), late=late)
    feed(unsealer, [(0, b"\x16\3\3\0\5\1\0\0"), *flights])
    assert sum(unsealer.account) == 8 + sum(len(data) for _, data in flights)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_flipped_bytes_raise_nothing_and_are_counted(data: st.DataObject) -> None:
    version, suite = data.draw(st.sampled_from(SUITES))
    script = Script(version, suite)
    script.handshake()
    talked(script)
    flights = []
    for direction, piece in script.flights:
        if data.draw(st.integers(0, 9)) == 0:
            at = data.draw(st.integers(0, len(piece) - 1))
            piece = piece[:at] + bytes([piece[at] ^ data.draw(st.integers(1, 255))]) + piece[at + 1 :]
        flights.append((direction, piece))
    unsealer = Unsealer(secrets_of(script.keylog))
    feed(unsealer, flights)
    assert sum(unsealer.account) == sum(len(piece) for _, piece in flights)
    assert unsealer.pending == 0


def fed(unsealer: Unsealer, flights: list[tuple[int, bytes]], offsets: list[int]) -> list[tuple[int, Event]]:
    """Feed flights without an end; ``offsets`` go on from call to call."""
    events: list[tuple[int, Event]] = []
    for direction, data in flights:
        events += unsealer.feed(direction, Bytes(offsets[direction], data, Seen(1, 1)))
        offsets[direction] += len(data)
    return events


@pytest.mark.parametrize(("version", "suite"), [(0x0304, 0x1302), (0x0304, 0x1303), (0x0303, 0xC02F)])
def test_so_much_waits_and_opening_begins_where_the_secrets_come(version: int, suite: int) -> None:
    script = Script(version, suite)
    script.handshake()
    script.say(SERVER, made("early", size=6_000_000))
    secrets = secrets_of(b"", growing=True)
    unsealer, offsets = Unsealer(secrets), [0, 0]
    assert fed(unsealer, script.flights, offsets) == []
    assert unsealer.pending < 100  # of the client
    assert unsealer.held < 100_000
    script.flights.clear()
    script.say(SERVER, made("later", size=50_000), size=5_000)
    secrets.feed(script.keylog)
    events = fed(unsealer, script.flights, offsets)
    assert b"".join(event.data for _, event in events if isinstance(event, Bytes)) == made("later", size=50_000)
    sealing = unsealer.sealing()
    assert sealing.cause == "too-late"
    assert sealing.passed > 6_000_000


def test_where_no_secrets_come_they_are_not_said_to_have_come_too_late() -> None:
    script = Script()
    script.handshake()
    script.say(SERVER, made("text", size=6_000_000))
    unsealer = Unsealer(secrets_of(b"CLIENT_TRAFFIC_SECRET_0 " + b"ab" * 32 + b" " + b"cd" * 32, growing=True))
    fed(unsealer, script.flights, [0, 0])
    unsealer.close()
    assert unsealer.sealing().cause == "no-secret"


def test_what_waits_is_bounded() -> None:
    script = Script()
    script.handshake()
    script.say(SERVER, made("text", size=4_000_000))
    unsealer = Unsealer(secrets_of(b"", growing=True))
    fed(unsealer, script.flights, [0, 0])
    assert unsealer.held > 4_000_000
    assert unsealer.give_up() == []
    assert unsealer.held == 0
    assert sum(unsealer.account) == sum(len(data) for _, data in script.flights)
