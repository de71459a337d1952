"""Hold for each rule of the protocol one conversation that breaks it, and one that comes near and does not."""

from typing import NamedTuple

from tests.support.conversation import HELLO, LOGIN, NOOPS, OPEN, opening


class Case(NamedTuple):
    """What trips a rule, and a near miss."""

    trips: str
    spares: str


def near(text: str, trips: object, spares: object) -> Case:
    """Return a case whose conversations are a text, each with what is its own at the ``@`` in it, or else behind it."""
    before, _, behind = text.partition("@")
    return Case(f"{before}{trips}{behind}", f"{before}{spares}{behind}")


SASL = "TX sasl-auth{key=PLAIN, value=x}\nRX sasl-auth-response{%s}\n"
PLAIN = opening()
BOTH = opening(collections=True)
DURABLE = opening(name="replication:n1", controls="enable_sync_writes=true, consumer_name=n2")
MEMORY = "RX snapshot-marker{start=1, end=3, flags=0x5}\n"
THREE = MEMORY + "RX mutation{seqno=1}\nRX mutation{seqno=2}\nRX mutation{seqno=3}\n"
STREAM = "STREAM vb=5\n"
ACTIVE = "STREAM vb=5, flags=0x10\n"
OF_ONE, OF_OTHER = "CONNECT 10.0.0.1:50001 10.0.0.2:11210\n", "CONNECT 10.0.0.1:50002 10.0.0.3:11210\n"
#: Two servers grant one stream; the first sends a change at once, and another so many seconds later.
TWO = OF_ONE + PLAIN + STREAM + OF_OTHER + PLAIN + STREAM + "ON 0\n" + THREE
TWO += "WAIT @\nRX snapshot-marker{vb=5, start=4, end=4, flags=0x1}\nRX mutation{seqno=4}\n"
TAKEOVER = PLAIN + "STREAM vb=5, flags=0x1\n"
FILTERED = 'STREAM vb=5, value={"collections":["8"]}\n'
WINDOW = opening(controls="connection_buffer_size=1000")
SIDS = opening(collections=True, controls="enable_stream_id=true")
DEFAULT = "RX mutation{seqno=3, key=#0061}\n"
EIGHT = "RX mutation{seqno=1, key=#0861}\nRX mutation{seqno=2, key=#0862}\n"
OSO_BEGINS = "RX oso-snapshot{flags=1}\n"
SID = 'STREAM vb=5, value={"sid":7}\n'
CREATED = "RX system-event{seqno=1, event=0, version=0, key=%s, manifest-uid=5, scope-id=8, collection-id=%d}\n"
CARTS = CREATED % ("carts", 8)
COMMIT = "RX commit{prepared-seqno=%s, commit-seqno=%s, key=a}\n"
CLOSED = "TX close-stream\nRX close-stream-response{success}\n"
REFUSED = "TX control{key=%s, value=%s}\nRX control-response{notsupported}\n"
ROLLED_BACK = "TX stream-request{vb=5, start=%d}\nRX stream-request-response{rollback, rollback-seqno=%d}\n"
STATE = "RX set-vbucket-state{state=%s}\nTX set-vbucket-state-response{success}\n"
END = "RX stream-end{status=0}\n"
NOOP = "RX noop\nTX noop-response{success}\n"
#: A client in the middle of a snapshot asks for more, and the history that its server has then.
MIDWAY = "TX stream-request{vb=5, start=100, vbucket-uuid=0xaaaa, snap-start-seqno=90, snap-end-seqno=120}\n"
BRANCHED = "TX stream-request{vb=5}\nRX stream-request-response{success, failover-log=0xbbbb:95|0xaaaa:0}\n"
CACHE = "STREAM vb=5, flags=0x100, start=9, snap-start-seqno=9, snap-end-seqno=9\n"
CONSUMER = HELLO % ("", "") + LOGIN + OPEN % (0, "replication:n1")
#: What a consumer answers to ADD_STREAM with: a request of its own, that is granted.
_ASKED, _GRANTED = "80530000300000050000003001".ljust(144, "0"), "81530000000000000000001001".ljust(48, "0")
ADDED = f"TX add-stream{{vb=5}}\nHEX RX {_ASKED}\nHEX TX {_GRANTED}{1:016x}{0:016x}\n"
_LARGE = "".join(f"RX mutation{{seqno={seqno}, value={400 * 'x'}}}\n" for seqno in (1, 2, 3))


def items(first: int, last: int, key: str = "k") -> str:
    """Return mutations with the seqnos first … last."""
    return "".join(f"RX mutation{{seqno={seqno}, key={key}{seqno}}}\n" for seqno in range(first, last + 1))


#: A cached document: cas, by_seqno, rev, value_len 1, flags, expiration, key_len 2, datatype, hint, key, value.
def cached(seqno: int) -> str:
    """Return a cache transfer of one document."""
    text = f"{1:016x}{seqno:016x}{1:016x}{1:08x}{0:08x}{0:08x}{2:04x}0000006b76"
    return f"HEX RX 8066000000000005{len(text) // 2:08x}00001005{0:016x}{text}\n"


CASES: dict[str, Case] = {
    # frames
    "F1": near("@HEX RX 820100000000000000000000000000000000000000000000\n", PLAIN, PLAIN.replace("|0xb", "|0xb|0xc")),
    "F2": near(
        PLAIN + STREAM + THREE, f"HEX RX 805700051f0000050000001400001005{56 * '0'}\nRX mutation{{seqno=3}}\n", ""
    ),
    "F3": near(PLAIN + STREAM + "RX snapshot-marker{start=1, end=3, flags=0x5, datatype=@}\n", 1, 0),
    "F4": near(
        "@" + STREAM + MEMORY + "RX mutation{seqno=1, datatype=2, value=#05106162636465}\n",
        PLAIN.replace("|0xa|", "|"),
        PLAIN,
    ),
    "F5": near(PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, datatype=4, value=#@}\n", "00000063", "00000000"),
    "F6": near(
        PLAIN + "@opaque=0x77}\n",
        "RX control-response{success, ",
        "TX control{key=x, value=y, opaque=0x77}\nRX control-response{einval, ",
    ),
    "F7": near(PLAIN + STREAM + "TX stream-request{vb=6}\n", "WAIT 40\n" + NOOP, ""),
    "F8": near(SIDS + SID + "RX snapshot-marker{start=0, end=3, flags=0x5, sid=@, opaque=0x71005}\n", 8, 7),
    "F9": near(PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, lock-time=@}\n", 5, 0),
    "F10": near(BOTH + STREAM + MEMORY + "RX mutation{seqno=1, key=#@}\n", "03616263", "08616263"),
    "F11": near(PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, vb=@, opaque=0x1005}\n", 6, 5),
    "F12": near(PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x5}\nRX mutation{seqno=@}\n", 0, 1),
    "F13": near(PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, key=@}\n", 251 * "k", 250 * "k"),
    "F14": Case(
        BOTH + STREAM + MEMORY + CREATED % ("c", 3),
        BOTH
        + STREAM
        + MEMORY
        + CREATED % ("c", 9)
        + "RX system-event{seqno=2, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=9}\n",
    ),
    "F15": near(
        BOTH + STREAM + MEMORY + CARTS,
        "RX mutation{seqno=2, key=#0961}\n",
        "RX mutation{seqno=2, key=#0861}\nRX mutation{seqno=3, key=#0061}\n",
    ),
    "F16": near(
        PLAIN + STREAM, "HEX RX 805a00000000000500000000000010050000000000000000\n", "RX stream-end{status=2}\n"
    ),
    "F17": near(PLAIN + STREAM + THREE + "TX mutation-response{@, opaque=0x1005}\n", "success", "einval"),
    "F18": near(
        PLAIN + "TX control{key=x, value=y, framing=@",
        "81aa}\nRX control-response{einval}\n",
        "4161}\nRX control-response{einval}\n"
        "TX set{key=k, value=v, framing=1103}\nRX set-response{success}\n" + STREAM + THREE,
    ),
    "F19": near(PLAIN + STREAM + THREE + "TX mutation-response{@, opaque=0x1005}\n", "einval", "notmyvbucket"),
    # connections
    "C1": near(
        HELLO % ("", "") + "TX sasl-auth{key=PLAIN, value=x}\n",
        "RX sasl-auth-response{autherror}\nTX select-bucket{key=b}\n",
        "TX select-bucket{key=b}\nTX get-cluster-config\nRX sasl-auth-response{success}\n",
    ),
    "C2": near(PLAIN, OPEN % (5, "again"), ""),
    "C3": near(
        HELLO % ("", "") + SASL % "success" + (OPEN % (5, "app")).replace("success", "@"), "nobucket", "success"
    ),
    "C4": near(HELLO % ("|0xe", "@") + LOGIN + OPEN % (5, "app"), "|0xe", ""),
    "C5": Case(PLAIN + SASL % "eaccess", HELLO % ("", "") + SASL % "autherror" + LOGIN + OPEN % (5, "app")),
    "C6": near(PLAIN + "CONNECT\n", PLAIN, opening(name="other")),
    "C7": near(PLAIN, "TX add-stream{vb=5}\n", "TX get-all-vb-seqnos\nRX get-all-vb-seqnos-response{success}\n"),
    "C8": near(CONSUMER + "TX @{vb=5}\n", "stream-request", "add-stream"),
    "C9": near(PLAIN.replace(NOOPS, ""), STREAM, "TX stream-request{vb=5}\nRX stream-request-response{notsupported}\n"),
    "C10": near(PLAIN, STREAM + "CONTROL enable_sync_writes=true\n", "CONTROL enable_sync_writes=true\n" + STREAM),
    "C11": near("@" + SID, BOTH, SIDS),
    "C12": near(SIDS, "CONTROL enable_sync_writes=true\n", REFUSED % ("enable_sync_writes", "true")),
    "C13": Case(opening(controls="enable_sync_writes=true, consumer_name=n2"), DURABLE),
    "C14": near(PLAIN, HELLO % ("", ""), ""),
    "C15": near(
        PLAIN,
        "CONTROL stream_buffer_size=1000\n",
        REFUSED % ("stream_buffer_size", "1000")
        + "CONTROL force_value_compression=true, set_noop_interval=0.5, backfill_order=sequential\n",
    ),
    "C16": near(
        PLAIN + "TX control{key=@, value=true}\nRX control-response{einval}\n", "enable_nop", "enable_frobnication"
    ),
    # streams and their requests
    "L1": near(
        PLAIN + "TX stream-request{vb=5, start=@, snap-start-seqno=110209, snap-end-seqno=110209}\n", 110208, 110209
    ),
    "L2": near(
        PLAIN + STREAM + "TX stream-request{vb=5, opaque=0x99}\nRX stream-request-response{@}\n",
        "success",
        "keyeexists",
    ),
    "L3": near(
        PLAIN + STREAM,
        THREE + "RX stream-end{status=2}\nRX mutation{seqno=4}\n",
        MEMORY + items(1, 2) + CLOSED + "RX mutation{seqno=3}\n",
    ),
    "L4": near(
        PLAIN + "TX stream-request{vb=5}\nRX stream-request-response{success, failover-log=@}\n", "", "0x2:9|0x1:0"
    ),
    "L5": near(
        PLAIN + "TX stream-request{vb=5, start=10}\nRX stream-request-response{rollback, rollback-seqno=@}\n", 11, 10
    ),
    "L6": near(PLAIN + ROLLED_BACK % (10, 4) + "TX stream-request{vb=5, start=10@}\n", "", ", vbucket-uuid=0xbeef"),
    "L7": near(PLAIN, 5 * (ROLLED_BACK % (4, 0)), 3 * (ROLLED_BACK % (4, 0))),
    "L8": near(CONSUMER + ADDED + "RX add-stream-response{success, stream-opaque=@}\n", "0x77", "0x01"),
    "L9": near(PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, opaque=@}\n", "0x4444", "0x1005"),
    "L10": near(PLAIN + STREAM + "TX stream-request{vb=6, opaque=@}\n", "0x1005", "0x1006"),
    "L11": near(BOTH + "STREAM vb=5, end=@\n" + MEMORY + DEFAULT + "RX stream-end{status=0}\n", 9, 3),
    "L12": Case(
        PLAIN + STREAM + THREE + "RX stream-end{status=1}\n",
        opening(controls="send_stream_end_on_client_close_stream=true")
        + STREAM
        + THREE
        + CLOSED
        + "RX stream-end{status=1}\n",
    ),
    "L14": near(PLAIN + STREAM + "RX @}\n", "mutation{seqno=1", "stream-end{status=2"),
    "L15": near(PLAIN + STREAM + "@RX mutation{seqno=1}\nRX mutation{seqno=2}\n", "", MEMORY),
    "L16": near(PLAIN + CACHE, cached(10), cached(9) + "RX cache-transfer-end\n"),
    "L17": near(
        BOTH,
        'STREAM vb=5, value={"scope":"8","collections":["8"]}\n',
        'STREAM vb=5, value={"scope":"8"}\nSTREAM vb=6, value={"collections":["8"]}\n'
        'TX stream-request{vb=7, value={"scope":"8","collections":["8"]}}\nRX stream-request-response{einval}\n',
    ),
    "L18": near(
        PLAIN,
        "STREAM vb=5, start=10, vbucket-uuid=0xbeef\n",
        "STREAM vb=5, start=10, vbucket-uuid=0xfeed\nSTREAM vb=6, start=0, vbucket-uuid=0xbeef\n",
    ),
    "L19": near(PLAIN + STREAM, "RX stream-end{status=2}\n" + CLOSED, CLOSED + CLOSED.replace("success", "keyenoent")),
    "L22": near(PLAIN + STREAM + THREE + "RX stream-end{status=2}\nSTREAM vb=5, start=@\n", 50, 3),
    "L21": near(PLAIN + MIDWAY + "RX stream-request-response{rollback, rollback-seqno=@}\n" + BRANCHED, 95, 90),
    "L20": near(TWO, 10, 9),
    # snapshots and seqnos
    "S1": near(PLAIN + STREAM + "RX snapshot-marker{start=@, end=3, flags=0x5}\n", 4, 3),
    "S2": near(PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=@}\n", "0x7", "0x6"),
    "S3": near("@" + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6, layout=2.0}\n", PLAIN, DURABLE),
    "S4": near(
        PLAIN + "STREAM vb=5, flags=0x10, start=5\n",
        "RX snapshot-marker{start=7, end=9, flags=0x6}\n",
        "RX snapshot-marker{start=9, end=12, flags=0x1}\nRX mutation{seqno=9}\n",
    ),
    "S6": near(PLAIN + ACTIVE + THREE + "RX snapshot-marker{start=4, end=6, flags=0x@}\nRX mutation{seqno=5}\n", 1, 5),
    "S9": near(PLAIN + STREAM + THREE + "RX snapshot-marker{start=@, end=6, flags=0x5}\n", 3, 4),
    "S10": near(PLAIN + STREAM + THREE + "RX snapshot-marker{start=1, end=@, flags=0x5}\n", 2, 3),
    "S11": near(PLAIN + STREAM, MEMORY + items(1, 2) + "RX mutation{seqno=4}\n", THREE),
    "S12": near(PLAIN + STREAM + MEMORY + "RX mutation{seqno=2}\nRX mutation{seqno=@, key=other}\n", 2, 3),
    "S13": Case(
        BOTH + FILTERED + MEMORY + EIGHT + "RX snapshot-marker{start=4, end=6, flags=0x5}\n",
        PLAIN + STREAM + MEMORY.replace("0x5", "0x6") + items(1, 2) + "RX snapshot-marker{start=4, end=6, flags=0x5}\n",
    ),
    "S14": near(
        DURABLE + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6, max-visible-seqno=@, layout=2.0}\n", 4, 3
    ),
    "S15": near("@" + STREAM + MEMORY + "RX seqno-advanced{seqno=3}\n", PLAIN, BOTH),
    "S16": near(DURABLE + STREAM + "RX snapshot-marker{start=0, end=3, flags=@}\n", "0x6", "0x5"),
    "S17": Case(
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, key=a}\nRX deletion{seqno=2, key=a}\n",
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=1, key=a}\n" + COMMIT % (1, 2),
    ),
    "S18": Case(
        BOTH + FILTERED + OSO_BEGINS,
        opening(collections=True, controls="enable_out_of_order_snapshots=true")
        + FILTERED
        + OSO_BEGINS
        + "RX mutation{seqno=9, key=#0861}\nRX mutation{seqno=4, key=#0862}\nRX oso-snapshot{flags=2}\n"
        "RX snapshot-marker{start=10, end=12, flags=0x5}\n",
    ),
    "S20": near(
        TAKEOVER
        + "RX snapshot-marker{start=0, end=1, flags=0xd}\nRX mutation{seqno=1}\n@WAIT 31\nRX stream-end{status=2}\n",
        "",
        "TX snapshot-marker-response{success, opaque=0x1005}\n",
    ),
    "S22": near(
        DURABLE + ACTIVE + "@RX prepare{seqno=1, key=a}\n" + COMMIT % (1, 2),
        "RX snapshot-marker{start=0, end=3, flags=0x6, layout=2.0}\n",
        MEMORY,
    ),
    "S23": near(DURABLE + "STREAM vb=5, start=5\nRX snapshot-marker{start=@, end=7, flags=0x5}\n", 1, 5),
    # durability
    "D1": near("@" + STREAM + MEMORY + "RX prepare{seqno=1}\n", PLAIN, DURABLE),
    "D2": near(DURABLE + STREAM + MEMORY + "RX prepare{seqno=2, key=a}\n" + COMMIT % ("@", 3), 3, 2),
    "D3": near(DURABLE + "@" + COMMIT % (1, 3), ACTIVE + MEMORY, "STREAM vb=5, flags=0x10, start=1\n" + MEMORY),
    "D4": near(
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=3, key=a}\n@RX stream-end{status=2}\n",
        "",
        "RX snapshot-marker{start=4, end=6, flags=0x6, high-completed-seqno=3, layout=2.0}\n",
    ),
    "D5": near(DURABLE + STREAM + MEMORY + "RX prepare{seqno=1, key=a}\nRX prepare{seqno=2, key=@}\n", "a", "b"),
    "D6": near(DURABLE + STREAM + MEMORY + "RX prepare{seqno=1}\nTX seqno-acknowledged{prepared-seqno=@}\n", 7, 3),
    "D8": near(
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=1}\n@WAIT 11\n" + NOOP,
        "",
        "TX seqno-acknowledged{prepared-seqno=1}\n",
    ),
    # flow control
    "B2": near(
        opening(name="replication:n1", controls="enable_sync_writes=true, connection_buffer_size=1000")
        + STREAM
        + MEMORY
        + "RX prepare{seqno=1, key=a}\nTX buffer-acknowledgement{buffer-bytes=@}\n",
        100,
        102,
    ),
    "B3": near(
        WINDOW + STREAM + "RX snapshot-marker{start=0, end=60, flags=0x5}\n",
        items(1, 60),
        "".join(items(n, n + 9) + "TX buffer-acknowledgement{buffer-bytes=500}\n" for n in range(1, 60, 10)),
    ),
    "B4": near(WINDOW + STREAM + MEMORY + "TX buffer-acknowledgement{buffer-bytes=@}\n", 45, 44),
    "B5": near(
        WINDOW + STREAM + MEMORY + _LARGE + "@WAIT 70\n" + NOOP, "", "TX buffer-acknowledgement{buffer-bytes=900}\n"
    ),
    "B6": near(
        WINDOW + "TX buffer-acknowledgement{buffer-bytes=0}\nRX buffer-acknowledgement-response{@}\n",
        "success",
        "einval",
    ),
    "B7": near("@TX buffer-acknowledgement{buffer-bytes=0}\n", PLAIN, WINDOW),
    # NOOPs
    "N1": near(
        PLAIN + "RX noop{opaque=0x81969800}\n",
        "WAIT 120\nRX noop{opaque=0x82969800}\nTX noop-response{success}\n",
        "TX noop-response{success}\nWAIT 1\nRX noop{opaque=0x82969800}\n",
    ),
    "N2": near(PLAIN + "RX noop{opaque=1}\n@WAIT 2\nRX noop{opaque=2}\n", "", "TX noop-response{success}\n"),
    "N3": near(PLAIN + STREAM + MEMORY + "WAIT @\nRX mutation{seqno=1}\n", 50, 39),
    "N4": Case(PLAIN.replace(NOOPS, "") + NOOP, PLAIN + "RX noop\n"),
    "N5": near(PLAIN + "WAIT @\nRX noop\n", 400, 300),
    "N6": near(PLAIN, "TX noop\n", "HEX TX 800a00000000000000000000000000000000000000000000\n"),
    # takeovers
    "T1": near(TAKEOVER + "@" + STATE % 1 + END, "", STATE % 3),
    "T2": near("@" + STATE % 3, PLAIN + STREAM, TAKEOVER),
    "T3": near(TAKEOVER + STATE % "@", 2, 3),
    "T4": near(
        TAKEOVER + MEMORY + STATE % 3, STATE % 1 + "RX mutation{seqno=1}\n", "RX mutation{seqno=1}\n" + STATE % 1
    ),
}
