"""What two ends agreed on, and what has to be refused: open values, controls, filters, grants, keys, takeovers."""

import pytest

from tests.support.check_cases import (
    BOTH,
    CARTS,
    DURABLE,
    MEMORY,
    OF_ONE,
    OF_OTHER,
    PLAIN,
    STREAM,
    TAKEOVER,
    THREE,
    TWO,
    items,
)
from tests.support.conversation import HELLO, LOGIN, NOOPS, opening, packets, said
from tests.support.findings import brief, found, judged, reported

OPENED = HELLO % ("", "") + LOGIN


PENDING, ACTIVE = "RX set-vbucket-state{state=3}\n", "RX set-vbucket-state{state=1}\n"
STATE = "RX set-vbucket-state{state=%d}\n"
REPLY, ENDS = "TX set-vbucket-state-response{success, opaque=0x1005}\n", "RX stream-end{status=0}\n"
AGAIN_ON = OF_ONE.replace("50001", "50009") + PLAIN
#: A stream up to 9, of which as much comes, and then its end.
UP_TO_9 = "STREAM vb=5, end=9\n%sRX stream-end{status=0}\n"
TO_3, TO_5 = (UP_TO_9 % f"RX snapshot-marker{{start=0, end={at}, flags=0x5}}\nRX mutation{{seqno={at}, key=#0061}}\n"
              for at in (3, 5))  # fmt: skip
OSO = "RX oso-snapshot{flags=1}\nRX mutation{seqno=9}\nRX mutation{seqno=3}\nRX oso-snapshot{flags=2}\n"
PROXIED, LOOPED = (TWO.replace("@", "10").replace("10.0.0.3:11210", f"{at}:15001") for at in ("10.0.0.1", "127.0.0.1"))
THERE = "10.0.0.3:11210 streams this vbucket too, on connection 1"
TOO_EARLY = "ended Ok at seqno %d, requested up to 9"
SYNCED = opening(0x25, collections=True, name="replication:n1", controls="enable_sync_writes=true, consumer_name=n2")
NOTIFIER = opening(2, name="xdcr:notifier:n_0@a:travel").replace(NOOPS, "")
PREVIEW = OPENED + 'TX open{flags=0x11, key=app, datatype=%d, value={"collections":["beer"]}}\n'
#: The consumer does not wait for STREAM_END, and has one opaque for both streams.
CLOSED = opening(controls="send_stream_end_on_client_close_stream=true") + STREAM + MEMORY + items(1, 2)
CLOSED += "TX close-stream\nRX close-stream-response{success}\nTX stream-request{vb=5, start=2}\n"
CLOSED += "RX mutation{seqno=3, opaque=0x1005, key=late}\nRX stream-end{status=1, opaque=0x1005}\n"
CLOSED += "RX stream-request-response{success}\nRX snapshot-marker{start=2, end=4, flags=0x5}\n" + items(3, 4)
REFUSED = "TX open{flags=5, key=app, opaque=1}\nRX open-response{etmpfail, opaque=1}\n"
ACCEPTED = "RX open-response{success, opaque=1}\nTX open{flags=5, key=app, opaque=1}\n"  # captured out of order
GRANTED = "TX stream-request{{vb=5, start={}, vbucket-uuid={}, snap-start-seqno={}, snap-end-seqno={}}}\n"
HISTORY = "TX get-failover-log{vb=5}\nRX get-failover-log-response{success, failover-log=0xb:95|0xa:0}\n"
LATER = HISTORY.replace("0xb:95", "0xd:93|0xb:90")
BACK = "RX stream-request-response{rollback, rollback-seqno=%d}\n"
CASES = {
    "an authentication that is refused on an open connection": (
        PLAIN + "TX sasl-auth{key=PLAIN, value=x}\nRX sasl-auth-response{notsupported}\n" + STREAM
        + "RX noop{}\nTX noop-response{success}\n", "DCP205 violation: SASL_AUTH after DCP_OPEN"),
    "a notifier, which asks without an end": (
        NOTIFIER + "STREAM vb=5, start=9, end=0\nRX stream-end{status=0}\nSTREAM vb=5, start=12, end=0\n",
        "DCP103 suspicious: OPEN: flags 0x2 are of old releases (Einval)"),
    "a name again": (OF_ONE + PLAIN + AGAIN_ON,
        "DCP206 info: the name is that of connection 0, which the server closes now"),
    "a name of a connection that goes on": (OF_ONE + PLAIN + AGAIN_ON + "ON 0\nWAIT 2\nRX noop\n", ""),
    "a name on another server": (OF_ONE + PLAIN + OF_OTHER + PLAIN, ""),
    "a name on another bucket": (OF_ONE + PLAIN + AGAIN_ON.replace("travel", "beer"), ""),
    "a name of a connection that ended": (OF_ONE + PLAIN + "FIN TX\nFIN RX\nWAIT 1\n" + AGAIN_ON, ""),
    "two servers of a vbucket": (TWO.replace("@", "10"),
        f"DCP240 suspicious: {THERE}, since 12:00:00.024"),
    "a proxy on the client's host": (PROXIED, ""), "a proxy on a loopback address": (LOOPED, ""),
    "a rollback that is asked for again with another flag": (PLAIN + GRANTED.format(100, "0xa", 100, 100) + BACK % 0
        + GRANTED.format(100, "0xa, flags=0x80", 100, 100), ""),
    "one opaque for all streams": (PLAIN + "".join(f"STREAM vb={vbucket}, opaque=0x77\n" for vbucket in range(5)),
        "DCP230 info: opaque 0x00000077 is that of the stream of vbucket 0"),
    "one opaque for two of three": (PLAIN + "STREAM vb=1, opaque=1\nSTREAM vb=2, opaque=2\nSTREAM vb=3, opaque=2\n",
        "DCP230 suspicious: opaque 0x00000002 is that of the stream of vbucket 2"),
    "a last seqno of collections that a client does not get": (PLAIN + UP_TO_9 % THREE, ""),
    "a last seqno that a client does not get": (BOTH + TO_5, f"DCP231 info: {TOO_EARLY % 5}"),
    "most that a client does not get": (BOTH + TO_3, f"DCP231 suspicious: {TOO_EARLY % 3}"),
    "a last seqno that a node does not get": (opening(collections=True, name="replication:a->b:travel") + TO_5,
        f"DCP231 suspicious: {TOO_EARLY % 5}"),
    "a last seqno that came out of order": (opening(controls="enable_out_of_order_snapshots=true") + UP_TO_9 % OSO, ""),
    "a takeover": (TAKEOVER + PENDING + REPLY + ACTIVE + REPLY + ENDS, ""),
    "a takeover that is captured a little out of order": (TAKEOVER + PENDING + ACTIVE + REPLY + REPLY + ENDS, ""),
    "active before the reply to pending": (TAKEOVER + PENDING + ACTIVE + "WAIT 1\n" + REPLY + REPLY + ENDS,
        "DCP521 suspicious: SET_VBUCKET_STATE(active) before the reply to SET_VBUCKET_STATE(pending)"),
    "an end before the reply to active": (TAKEOVER + PENDING + REPLY + ACTIVE + ENDS + "WAIT 1\n" + REPLY,
        "DCP521 suspicious: STREAM_END(Ok) before the reply to SET_VBUCKET_STATE(active)"),
    "the state replica": (TAKEOVER + STATE % 2, "DCP523 suspicious: SET_VBUCKET_STATE with state 2 (replica)"),
    "the state dead": (TAKEOVER + STATE % 4, "DCP523 suspicious: SET_VBUCKET_STATE with state 4 (dead)"),
    "a state that does not exist": (TAKEOVER + STATE % 5,
        "DCP103 violation: SET_VBUCKET_STATE: state 5 has no meaning (Einval); DCP523 suspicious: "
        "SET_VBUCKET_STATE with state 5 (unknown) (Einval)"),
    "a value of OPEN of the preview of collections": (PREVIEW % 0,
        "DCP103 suspicious: OPEN: flags 0x10 are of old releases (Einval)"),
    "one with a datatype": (PREVIEW % 1, "DCP103 suspicious: OPEN: flags 0x10 are of old releases (Einval)"),
    "compression that is forced without Snappy": (
        PLAIN.replace("|0xa|", "|") + "CONTROL force_value_compression=true\n",
        "DCP215 violation: force_value_compression=true accepted (Einval)"),
    "durable writes on a stream of collections": (SYNCED + 'STREAM vb=5, value={"collections":["8"]}\n',
        "DCP237 info: stream of some collections granted, and enable_sync_writes is on (NotSupported)"),
    "durable writes on a stream of all": (SYNCED + 'STREAM vb=5, value={"uid":"0"}\n', ""),
    "a rollback while the failover log changes": (
        PLAIN + HISTORY + GRANTED.format(100, "0xa", 100, 100) + BACK % 94 + LATER, ""),
    "a rollback above the start": (PLAIN + GRANTED.format(100, "0xa", 90, 120) + BACK % 101 + HISTORY,
        "DCP225 violation: rollback to 101, above the requested start 100"),
    "a stream that is closed and requested again, and ends in between": (CLOSED, ""),
    "a long name": (OPENED + f"TX open{{flags=5, key={260 * 'n'}}}\nRX open-response{{einval}}\n",
        "DCP113 violation: the key of OPEN has 260 bytes, more than 250 (Einval)"),
    "an OPEN that is refused, and sent again with its opaque": (OPENED + REFUSED + ACCEPTED + NOOPS, ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=CASES)
def test_what_is_agreed_on_is_held_against_each_end(text: str, wanted: str) -> None:
    assert "; ".join(reported(text)) == wanted


@pytest.mark.parametrize(
    ("message", "status"),
    [
        *((f"{message}{{seqno=1}}", " (Erange)") for message in ("mutation", "deletion", "prepare")),
        ("commit{prepared-seqno=0, commit-seqno=1}", ""),
        ("abort{prepared-seqno=1, abort-seqno=2}", ""),
    ],
)
def test_a_consumer_compares_the_range_of_documents_and_prepares_only(message: str, status: str) -> None:
    wanted = f"DCP234 violation: the stream begins with {message.partition('{')[0].upper()}{status}"
    assert reported(DURABLE + STREAM + f"RX {message}\n", "DCP234") == [wanted]


@pytest.mark.parametrize(
    ("control", "has", "has_not"),
    [
        ("supports_hifi_MFU=true", "KeyEexists", "KeyEnoent"),
        ("v7_dcp_status_codes=true", "OpaqueNoMatch", "DcpStreamNotFound"),
    ],
)
def test_a_consumer_goes_by_the_vbucket(control: str, has: str, has_not: str) -> None:
    text = (
        opening(controls=control)
        + STREAM
        + "STREAM vb=6, opaque=0x66\n"
        + MEMORY.replace("start", "vb=5, opaque=0x1005, start")
    )
    sentence = "DCP111 violation: MUTATION of vbucket {} has the opaque of the stream of vbucket 5 ({})"
    for vbucket, status in ((6, has), (7, has_not)):
        found = reported(text + f"RX mutation{{vb={vbucket}, opaque=0x1005, seqno=1}}\n")
        assert found == [sentence.format(vbucket, status)]


@pytest.mark.parametrize(
    ("flags", "value", "wanted"),
    [
        (0x04, '{"consumer_name":"n2"}', ""),
        (0x05, "{}", ""),
        (0x05, '{"consumer_name":"n2"}', "its value has consumer_name, which a producer does not take"),
        (0x04, '{"name":"n2"}', "its value has a key other than consumer_name, which has no meaning"),
        (0x04, '{"consumer_name":"n2","name":"n2"}',
         "its value has a key other than consumer_name, which has no meaning"),
        (0x04, '{"consumer_name":""}', ""),
        (0x04, '{"consumer_name":5}', "its value has a consumer_name that is not a string"),
        (0x05, '{"consumer_name":null}', "its value has a consumer_name that is not a string"),
        (0x04, "[1]", "its value is not a JSON object"),
        (0x05, "n2", "its value is not a JSON object"),
    ],
)  # fmt: skip
def test_the_value_of_open_is_an_object_that_names_a_consumer(flags: int, value: str, wanted: str) -> None:
    text = OPENED + f"TX open{{flags=0x{flags:x}, key=app, datatype=1, value={value}}}\n"
    assert reported(text) == ([f"DCP103 violation: OPEN: {wanted} (Einval)"] if wanted else [])


@pytest.mark.parametrize(
    ("datatype", "value", "wanted"),
    [
        (0, "", []),
        (1, "{}", []),
        (0, "{}", ["DCP103 violation: OPEN: it has datatype 0x00 and a value (Einval)"]),
        (2, "#02047b7d", ["DCP103 violation: OPEN: it has datatype 0x02 and a value (Einval)"]),
        (1, "", ["DCP103 violation: OPEN: it has datatype 0x01 and no value (Einval)"]),
        (0, "x", ["DCP103 violation: OPEN: it has datatype 0x00 and a value; its value is not a JSON object (Einval)"]),
        (9, "{}", ["DCP104 violation: datatype 0x09 has unknown bits (Einval)"]),
    ],
)
def test_the_datatype_of_open_says_whether_it_has_a_value(datatype: int, value: str, wanted: list[str]) -> None:
    assert reported(OPENED + f"TX open{{flags=4, key=app, datatype={datatype}, value={value}}}\n") == wanted


@pytest.mark.parametrize(
    ("control", "status"),
    [
        ("stream_buffer_size=1", "NotSupported"),
        ("force_value_compression=true", ""),
        ("backfill_order=random", "Einval"),
        ("backfill_order=round-robin", ""),
        ("set_priority=urgent", "Einval"),
        ("set_priority=high", ""),
        ("set_noop_interval=soon", "Einval"),
        ("set_noop_interval=0", "Einval"),
        ("set_noop_interval=1.000000", ""),
        ("enable_out_of_order_snapshots=yes", "Einval"),
        ("enable_out_of_order_snapshots=true", ""),
        ("include_deleted_user_xattrs=true", "Einval"),
        ("max_marker_version=2.2", "NotSupported"),
        ("max_marker_version=2.1", "Einval"),
        ("v7_dcp_status_codes=false", "Einval"),
        ("v7_dcp_status_codes=true", ""),
        ("supports_cursor_dropping_vulcan=maybe", ""),
        ("a_key_of_tomorrow=1", ""),
    ],
)
def test_controls_that_a_producer_refuses(control: str, status: str) -> None:
    assert reported(PLAIN + f"CONTROL {control}\n") == (
        [f"DCP215 violation: {control} accepted ({status})"] if status else []
    )
    key, _, value = control.partition("=")
    assert reported(PLAIN + f"TX control{{key={key}, value={value}}}\nRX control-response{{einval}}\n") == []


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ('{"uid":"0"}', ""),
        ('{"scope":"8","more":1}', ""),
        ('{"collections":["8","9"],"purge_seqno":"12"}', ""),
        ("no json", "value no json is no JSON: at byte 0 there is no value (Einval)"),
        ('{"scope":"8","collections":["8"]}', 'scope "8" excludes collections (Einval)'),
        ('{"filter":"8"}', 'value {"filter":"8"} has no known key (Einval)'),
        ('{"collections":[8]}', "collections 8 is not a string (Einval)"),
        ('{"uid":"0","purge_seqno":12}', ""),
        ('{"scope":"8","cts":5}', ""),
        ('{"collections":["8","8"]}', ""),
        ('{"collections":[]}', ""),
        ('{"uid":5}', ""),
        ('{"uid":5,"scope":8}', "scope 8 is not a string (Einval)"),
        ('{"sid":65535}', ""),
        ('{"sid":65537}', ""),
        ('{"sid":65536}', "sid 65536 is not a number from 1 to 65535 (DcpStreamIdInvalid)"),
        ('{"sid":0}', "sid 0 is not a number from 1 to 65535 (DcpStreamIdInvalid)"),
    ],
)
def test_filters_that_a_producer_refuses(value: str, wanted: str) -> None:
    found = reported(BOTH + f"STREAM vb=5, value={value}\n", "DCP237")
    assert found == ([f"DCP237 violation: stream granted, though {wanted}"] if wanted else [])


LOG = "RX stream-request-response{success, failover-log=0xc:90|0xb:50|0xa:0}\n"


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ((95, "0xc", 91, 99), ""),
        ((50, "0xb", 40, 50), ""),
        ((0, "0xd", 0, 0), ""),
        ((45, "0xa", 40, 50), ""),
        ((45, "0xd", 40, 50), "granted from 45, and uuid 0xd is not in the failover log (Rollback)"),
        ((45, "0xa", 40, 51), "granted, and the snapshot 40..51 goes beyond the branch of uuid 0xa (Rollback)"),
    ],
)
def test_grants_where_a_rollback_was_due(numbers: tuple[object, ...], wanted: str) -> None:
    assert reported(PLAIN + GRANTED.format(*numbers) + LOG) == ([f"DCP238 violation: {wanted}"] if wanted else [])


FAILED_OVER = "a failover to 0xb happened at seqno 95; the client has 100, so it must go back to 95; but that gives 95"
NOTHING = "nothing explains it: "
TWICE = "before after"


@pytest.mark.parametrize(
    ("seen", "numbers", "back", "wanted"),
    [
        ("", (100, "0xa", 90, 120), 90, ""),
        ("", (100, "0xa", 80, 100), 97, ""),
        ("", (100, "0xa", 90, 120), 95,
         "violation: rollback to 95: the failover log was not captured; nothing explains a rollback to 95, above "
         "the snapshot's start"),
        ("", (0, "0xa", 0, 0), 0,
         "violation: rollback to 0: a request from 0 is never rolled back: the server breaks the protocol"),
        (TWICE, (100, "0xa", 90, 120), 90, ""),
        (TWICE, (100, "0xa", 100, 100), 95, ""),
        (TWICE, (100, "0xa", 80, 100), 95, ""),
        (TWICE, (100, "0xc", 100, 100), 0, ""),
        (TWICE, (100, "0xb", 100, 100), 97, ""),
        (TWICE, (100, "0xb", 90, 120), 0, ""),
        (TWICE, (100, "0xa", 100, 100), 97, f"violation: rollback to 97: {FAILED_OVER}, not 97"),
        (TWICE, (100, "0xa", 100, 100), 94, f"suspicious: rollback to 94: {FAILED_OVER}, not 94"),
        (TWICE, (80, "0xa", 80, 80), 70,
         f"suspicious: rollback to 70: {NOTHING}the client has 80, and the next failover happened at seqno 95"),
        (TWICE, (100, "0xc", 100, 100), 50,
         f"violation: rollback to 50: {NOTHING}uuid 0xc is not in the failover log [0xb@95, 0xa@0], and that gives "
         "0, not 50"),
        ("after", (100, "0xa", 100, 100), 97, f"suspicious: rollback to 97: {FAILED_OVER}, not 97"),
        ("after", (100, "0xa", 100, 100), 94, ""),
        ("before", (80, "0xa", 80, 80), 70, ""),
    ],
)  # fmt: skip
def test_rollbacks_to_another_seqno_than_was_due(
    seen: str, numbers: tuple[object, ...], back: int, wanted: str
) -> None:
    """What the log was is certain where it is the same before and after; above the snapshot's start no log matters."""
    text = PLAIN + HISTORY * ("before" in seen) + GRANTED.format(*numbers)
    text += BACK % back + HISTORY * ("after" in seen)
    assert reported(text) == ([f"DCP241 {wanted}"] if wanted else [])


def test_a_rollback_that_is_wrong_again_and_again_is_one_finding() -> None:
    wrong = GRANTED.format(100, "0xa", 90, 120) + BACK % 95
    other = GRANTED.format(100, "0xa", 91, 120) + BACK % 95
    frames = [each.frame for each in found(PLAIN + wrong * 3 + other + HISTORY, "DCP241")]
    assert frames == [12, 18]


def test_a_rollback_whose_request_is_not_certain_is_not_judged() -> None:
    """An answer was lost, and with it maybe the next request, which had the same opaque."""
    wrong = GRANTED.format(100, "0xa", 90, 120) + BACK % 95
    captured = packets(said(PLAIN + wrong * 2 + "RX noop\nTX noop-response{success}\n"))
    assert [brief(some) for some in (captured, captured[:-5] + captured[-3:])] == [
        ["DCP226 suspicious", "DCP241 violation"],
        [],
    ]


def test_of_equal_rollbacks_that_is_judged_whose_request_is_certain() -> None:
    wrong = GRANTED.format(100, "0xa", 90, 120) + BACK % 95
    captured = packets(said(PLAIN + wrong * 3))
    assert [each.frame for each in found(captured[:-5] + captured[-3:], "DCP241")] == [14]


def test_keys_of_other_collections_are_shorter() -> None:
    begun = BOTH + STREAM + MEMORY + CARTS
    keys = ("08" + 246 * "61", "08" + 247 * "61", "00" + 250 * "61")
    wanted = "DCP113 violation: the key has 247 bytes behind its collection id, more than 246 (Einval)"
    assert [reported(begun + f"RX mutation{{seqno=2, key=#{key}}}\n") for key in keys] == [[], [wanted], []]


def test_many_documents_at_once_are_judged_by_their_keys_too() -> None:
    begun = BOTH + STREAM + "RX snapshot-marker{start=1, end=99, flags=0x5}\n" + CARTS
    many = [f"RX mutation{{seqno={seqno}, key=#08{seqno:04x}}}\n" for seqno in range(2, 40)]
    assert judged(packets(said(begun + "".join(many)))) == []
    long = many.copy()
    long[20] = f"RX mutation{{seqno=22, key=#08{250 * '61'}}}\n"
    assert [each[0] for each in judged(packets(said(begun + "".join(long))))] == ["F13"]
    other = many.copy()
    other[20] = "RX mutation{seqno=22, key=#0961}\n"
    assert [each[0] for each in judged(packets(said(begun + "".join(other))))] == ["F15"]
    dropped = "RX system-event{seqno=40, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=8}\n"
    after = f"{dropped}RX mutation{{seqno=41, key=#0861}}\nRX mutation{{seqno=42, key=#0862}}\n"
    found = judged(packets(said(begun + "".join(many) + after)))
    assert {(each[0], each[2]) for each in found} == {("F15", "MUTATION of collection 0x8, which was dropped")}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("", "the failover log is empty"),
        ("00" * 15, "the failover log has 15 bytes, not a multiple of 16"),
        ("00" * 17, "the failover log has 17 bytes, not a multiple of 16"),
        ("00" * 7 + "01" + "00" * 8, None),
    ],
)
@pytest.mark.parametrize("opcode", ["53", "54"])
def test_a_failover_log_has_entries_of_16_bytes(opcode: str, value: str, wanted: str | None) -> None:
    asked = "TX stream-request{vb=5, opaque=7}\n" if opcode == "53" else "TX get-failover-log{vb=5, opaque=7}\n"
    answer = f"HEX RX 81{opcode}000000000000{len(value) // 2:08x}00000007{0:016x}{value}\n"
    found = reported(PLAIN + asked + answer, "DCP224")
    assert found == ([] if wanted is None else [f"DCP224 violation: {wanted}"])
