"""Hold for each rule of the protocol one conversation that breaks it, and one that comes near and does not."""

from typing import NamedTuple

from tests.support.conversation import HELLO, LOGIN, NOOPS, OPEN, opening


class Case(NamedTuple):
    """What trips a rule, and a near miss."""

    trips: str
    spares: str


AUTHENTICATED = "TX sasl-auth{key=PLAIN, value=x}\nRX sasl-auth-response{success}\n"
PLAIN = opening()
BOTH = opening(collections=True)
DURABLE = opening(name="replication:n1", controls="enable_sync_writes=true, consumer_name=n2")
MEMORY = "RX snapshot-marker{start=1, end=3, flags=0x5}\n"
THREE = MEMORY + "RX mutation{seqno=1}\nRX mutation{seqno=2}\nRX mutation{seqno=3}\n"
STREAM = "STREAM vb=5\n"
ACTIVE = "STREAM vb=5, flags=0x10\n"
OF_ONE, OF_OTHER = "CONNECT 10.0.0.1:50001 10.0.0.2:11210\n", "CONNECT 10.0.0.1:50002 10.0.0.3:11210\n"
TAKEOVER = PLAIN + "STREAM vb=5, flags=0x1\n"
FILTERED = 'STREAM vb=5, value={"collections":["8"]}\n'
WINDOW = opening(controls="connection_buffer_size=1000")
SIDS = opening(collections=True, controls="enable_stream_id=true")
DEFAULT = "RX mutation{seqno=3, key=#0061}\n"
EIGHT = "RX mutation{seqno=1, key=#0861}\nRX mutation{seqno=2, key=#0862}\n"
OSO_BEGINS = "RX oso-snapshot{flags=1}\n"
SID = 'STREAM vb=5, value={"sid":7}\n'
CARTS = "RX system-event{seqno=1, event=0, version=0, key=carts, manifest-uid=5, scope-id=8, collection-id=8}\n"
#: A client in the middle of a snapshot asks for more, and the history that its server has then.
MIDWAY = "TX stream-request{vb=5, start=100, vbucket-uuid=0xaaaa, snap-start-seqno=90, snap-end-seqno=120}\n"
BRANCHED = "TX stream-request{vb=5}\nRX stream-request-response{success, failover-log=0xbbbb:95|0xaaaa:0}\n"
CACHE = "STREAM vb=5, flags=0x100, start=9, snap-start-seqno=9, snap-end-seqno=9\n"
CONSUMER = HELLO % ("", "") + LOGIN + OPEN % (0, "replication:n1")
MANY = "RX mutation{seqno=%d, key=k%d}\n"


def items(first: int, last: int, key: str = "k") -> str:
    """Return mutations with the seqnos first … last."""
    return "".join(f"RX mutation{{seqno={seqno}, key={key}{seqno}}}\n" for seqno in range(first, last + 1))


#: A cached document: cas, by_seqno, rev, value_len 1, flags, expiration, key_len 2, datatype, hint, key, value.
def cached(seqno: int) -> str:
    """Return a cache transfer of one document."""
    text = f"{1:016x}{seqno:016x}{1:016x}{1:08x}{0:08x}{0:08x}{2:04x}0000006b76"
    return f"HEX RX 8066000000000005{len(text) // 2:08x}00001005{0:016x}{text}\n"


F = {
    "F1": Case(
        PLAIN + "HEX RX 820100000000000000000000000000000000000000000000\n",
        (HELLO % ("|0xc", "|0xc"))
        + LOGIN
        + OPEN % (5, "app")
        + NOOPS
        + "HEX RX 820100000000000000000000000000000000000000000000\n",
    ),
    "F2": Case(
        PLAIN + STREAM + THREE + "HEX RX 805700051f000005000000140000100500000000000000000000000000000000"
        "000000000000000000000000\n" + "RX mutation{seqno=3}\n",
        PLAIN + STREAM + THREE,
    ),
    "F3": Case(
        PLAIN + STREAM + "RX snapshot-marker{start=1, end=3, flags=0x5, datatype=1}\n",
        PLAIN + STREAM + "RX snapshot-marker{start=1, end=3, flags=0x5, datatype=0}\n",
    ),
    "F4": Case(
        PLAIN.replace("|0xa|", "|") + STREAM + MEMORY + "RX mutation{seqno=1, datatype=2, value=#05106162636465}\n",
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, datatype=2, value=#05106162636465}\n",
    ),
    "F5": Case(
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, datatype=4, value=#00000063}\n",
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, datatype=4, value=#00000000}\n",
    ),
    "F6": Case(
        PLAIN + "RX control-response{success, opaque=0x77}\n",
        PLAIN + "TX control{key=x, value=y, opaque=0x77}\nRX control-response{einval, opaque=0x77}\n",
    ),
    "F7": Case(
        PLAIN + STREAM + "TX stream-request{vb=6}\nWAIT 40\nRX noop\nTX noop-response{success}\n",
        PLAIN + STREAM + "TX stream-request{vb=6}\n",
    ),
    "F8": Case(
        SIDS + SID + "RX snapshot-marker{start=0, end=3, flags=0x5, sid=8, opaque=0x71005}\n",
        SIDS + SID + "RX snapshot-marker{start=0, end=3, flags=0x5, sid=7, opaque=0x71005}\n",
    ),
    "F9": Case(
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, lock-time=5}\n",
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, lock-time=0}\n",
    ),
    "F10": Case(
        BOTH + STREAM + MEMORY + "RX mutation{seqno=1, key=#03616263}\n",
        BOTH + STREAM + MEMORY + "RX mutation{seqno=1, key=#08616263}\n",
    ),
    "F11": Case(
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, vb=6, opaque=0x1005}\n",
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, vb=5, opaque=0x1005}\n",
    ),
    "F12": Case(
        PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x5}\nRX mutation{seqno=0}\n",
        PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x5}\nRX mutation{seqno=1}\n",
    ),
    "F13": Case(
        PLAIN + STREAM + MEMORY + f"RX mutation{{seqno=1, key={251 * 'k'}}}\n",
        PLAIN + STREAM + MEMORY + f"RX mutation{{seqno=1, key={250 * 'k'}}}\n",
    ),
    "F14": Case(
        BOTH + STREAM + MEMORY + "RX system-event{seqno=1, event=0, version=0, key=c, manifest-uid=5, scope-id=8, "
        "collection-id=3}\n",
        BOTH + STREAM + MEMORY + "RX system-event{seqno=1, event=0, version=0, key=c, manifest-uid=5, scope-id=8, "
        "collection-id=9}\nRX system-event{seqno=2, event=1, version=0, manifest-uid=6, scope-id=8, "
        "collection-id=9}\n",
    ),
    "F15": Case(
        BOTH + STREAM + MEMORY + CARTS + "RX mutation{seqno=2, key=#0961}\n",
        BOTH + STREAM + MEMORY + CARTS + "RX mutation{seqno=2, key=#0861}\nRX mutation{seqno=3, key=#0061}\n",
    ),
    "F16": Case(
        PLAIN + STREAM + "HEX RX 805a00000000000500000000000010050000000000000000\n",
        PLAIN + STREAM + "RX stream-end{status=2}\n",
    ),
    "F17": Case(
        PLAIN + STREAM + THREE + "TX mutation-response{success, opaque=0x1005}\n",
        PLAIN + STREAM + THREE + "TX mutation-response{einval, opaque=0x1005}\n",
    ),
    "F18": Case(
        PLAIN + "TX control{key=x, value=y, framing=81aa}\nRX control-response{einval}\n",
        PLAIN + "TX control{key=x, value=y, framing=4161}\nRX control-response{einval}\n"
        "TX set{key=k, value=v, framing=1103}\nRX set-response{success}\n" + STREAM + THREE,
    ),
}

C = {
    "C1": Case(
        HELLO % ("", "")
        + "TX sasl-auth{key=PLAIN, value=x}\nRX sasl-auth-response{autherror}\nTX select-bucket{key=b}\n",
        HELLO % ("", "")
        + "TX sasl-auth{key=PLAIN, value=x}\nTX select-bucket{key=b}\nTX get-cluster-config\n"
        + "RX sasl-auth-response{success}\n",
    ),
    "C2": Case(PLAIN + OPEN % (5, "again"), PLAIN),
    "C3": Case(
        HELLO % ("", "") + AUTHENTICATED + (OPEN % (5, "app")).replace("{success}", "{nobucket}"),
        HELLO % ("", "") + AUTHENTICATED + OPEN % (5, "app"),
    ),
    "C4": Case(
        HELLO % ("|0xe", "|0xe") + LOGIN + OPEN % (5, "app"),
        HELLO % ("|0xe", "") + LOGIN + OPEN % (5, "app"),
    ),
    "C5": Case(
        PLAIN + "TX sasl-auth{key=PLAIN, value=x}\nRX sasl-auth-response{eaccess}\n",
        HELLO % ("", "")
        + "TX sasl-auth{key=PLAIN, value=x}\nRX sasl-auth-response{autherror}\n"
        + LOGIN
        + OPEN % (5, "app"),
    ),
    "C6": Case(PLAIN + "CONNECT\n" + PLAIN, PLAIN + "CONNECT\n" + opening(name="other")),
    "C7": Case(
        PLAIN + "TX add-stream{vb=5}\n", PLAIN + "TX get-all-vb-seqnos\nRX get-all-vb-seqnos-response{success}\n"
    ),
    "C8": Case(
        CONSUMER + "TX stream-request{vb=5}\n",
        CONSUMER + "TX add-stream{vb=5}\n",
    ),
    "C9": Case(
        PLAIN.replace(NOOPS, "") + STREAM,
        PLAIN.replace(NOOPS, "") + "TX stream-request{vb=5}\nRX stream-request-response{notsupported}\n",
    ),
    "C10": Case(
        PLAIN + STREAM + "CONTROL enable_sync_writes=true\n",
        PLAIN + "CONTROL enable_sync_writes=true\n" + STREAM,
    ),
    "C11": Case(BOTH + SID, SIDS + SID),
    "C12": Case(
        SIDS + "CONTROL enable_sync_writes=true\n",
        SIDS + "TX control{key=enable_sync_writes, value=true}\nRX control-response{notsupported}\n",
    ),
    "C13": Case(opening(controls="enable_sync_writes=true, consumer_name=n2"), DURABLE),
    "C14": Case(PLAIN + HELLO % ("", ""), PLAIN),
    "C15": Case(
        PLAIN + "CONTROL stream_buffer_size=1000\n",
        PLAIN + "TX control{key=stream_buffer_size, value=1000}\nRX control-response{notsupported}\n"
        "CONTROL force_value_compression=true, set_noop_interval=0.5, backfill_order=sequential\n",
    ),
    "C16": Case(
        PLAIN + "TX control{key=enable_nop, value=true}\nRX control-response{einval}\n",
        PLAIN + "TX control{key=enable_frobnication, value=true}\nRX control-response{einval}\n",
    ),
}

L = {
    "L1": Case(
        PLAIN + "TX stream-request{vb=5, start=110208, snap-start-seqno=110209, snap-end-seqno=110209}\n",
        PLAIN + "TX stream-request{vb=5, start=110209, snap-start-seqno=110209, snap-end-seqno=110209}\n",
    ),
    "L2": Case(
        PLAIN + STREAM + "TX stream-request{vb=5, opaque=0x99}\nRX stream-request-response{success}\n",
        PLAIN + STREAM + "TX stream-request{vb=5, opaque=0x99}\nRX stream-request-response{keyeexists}\n",
    ),
    "L3": Case(
        PLAIN + STREAM + THREE + "RX stream-end{status=2}\nRX mutation{seqno=4}\n",
        PLAIN
        + STREAM
        + MEMORY
        + items(1, 2)
        + "TX close-stream\nRX close-stream-response{success}\nRX mutation{seqno=3}\n",
    ),
    "L4": Case(
        PLAIN + "TX stream-request{vb=5}\nRX stream-request-response{success, failover-log=}\n",
        PLAIN + "TX stream-request{vb=5}\nRX stream-request-response{success, failover-log=0x2:9|0x1:0}\n",
    ),
    "L5": Case(
        PLAIN + "TX stream-request{vb=5, start=10}\nRX stream-request-response{rollback, rollback-seqno=11}\n",
        PLAIN + "TX stream-request{vb=5, start=10}\nRX stream-request-response{rollback, rollback-seqno=10}\n",
    ),
    "L6": Case(
        PLAIN + "TX stream-request{vb=5, start=10}\nRX stream-request-response{rollback, rollback-seqno=4}\n"
        "TX stream-request{vb=5, start=10}\n",
        PLAIN + "TX stream-request{vb=5, start=10}\nRX stream-request-response{rollback, rollback-seqno=4}\n"
        "TX stream-request{vb=5, start=10, vbucket-uuid=0xbeef}\n",
    ),
    "L7": Case(
        PLAIN + 5 * "TX stream-request{vb=5, start=4}\nRX stream-request-response{rollback, rollback-seqno=0}\n",
        PLAIN + 3 * "TX stream-request{vb=5, start=4}\nRX stream-request-response{rollback, rollback-seqno=0}\n",
    ),
    "L8": Case(
        CONSUMER
        + "TX add-stream{vb=5}\nHEX RX 805300003000000500000030010000000000000000000000"
        + "00" * 48
        + "\nHEX TX 815300000000000000000010010000000000000000000000"
        + "00000000000000010000000000000000"
        "\nRX add-stream-response{success, stream-opaque=0x77}\n",
        CONSUMER
        + "TX add-stream{vb=5}\nHEX RX 805300003000000500000030010000000000000000000000"
        + "00" * 48
        + "\nHEX TX 815300000000000000000010010000000000000000000000"
        + "00000000000000010000000000000000"
        "\nRX add-stream-response{success, stream-opaque=0x01}\n",
    ),
    "L9": Case(
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, opaque=0x4444}\n",
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, opaque=0x1005}\n",
    ),
    "L10": Case(
        PLAIN + STREAM + "TX stream-request{vb=6, opaque=0x1005}\n",
        PLAIN + STREAM + "TX stream-request{vb=6, opaque=0x1006}\n",
    ),
    "L11": Case(
        BOTH + "STREAM vb=5, end=9\n" + MEMORY + DEFAULT + "RX stream-end{status=0}\n",
        BOTH + "STREAM vb=5, end=3\n" + MEMORY + DEFAULT + "RX stream-end{status=0}\n",
    ),
    "L12": Case(
        PLAIN + STREAM + THREE + "RX stream-end{status=1}\n",
        opening(controls="send_stream_end_on_client_close_stream=true")
        + STREAM
        + THREE
        + "TX close-stream\nRX close-stream-response{success}\nRX stream-end{status=1}\n",
    ),
    "L14": Case(PLAIN + STREAM + "RX mutation{seqno=1}\n", PLAIN + STREAM + "RX stream-end{status=2}\n"),
    "L15": Case(
        PLAIN + STREAM + "RX mutation{seqno=1}\nRX mutation{seqno=2}\n",
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1}\nRX mutation{seqno=2}\n",
    ),
    "L16": Case(PLAIN + CACHE + cached(10), PLAIN + CACHE + cached(9) + "RX cache-transfer-end\n"),
    "L17": Case(
        BOTH + 'STREAM vb=5, value={"scope":"8","collections":["8"]}\n',
        BOTH + 'STREAM vb=5, value={"scope":"8"}\nSTREAM vb=6, value={"collections":["8"]}\n'
        'TX stream-request{vb=7, value={"scope":"8","collections":["8"]}}\nRX stream-request-response{einval}\n',
    ),
    "L18": Case(
        PLAIN + "STREAM vb=5, start=10, vbucket-uuid=0xbeef\n",
        PLAIN + "STREAM vb=5, start=10, vbucket-uuid=0xfeed\nSTREAM vb=6, start=0, vbucket-uuid=0xbeef\n",
    ),
    "L19": Case(
        PLAIN + STREAM + "RX stream-end{status=2}\nTX close-stream\nRX close-stream-response{success}\n",
        PLAIN + STREAM + "TX close-stream\nRX close-stream-response{success}\n"
        "TX close-stream\nRX close-stream-response{keyenoent}\n",
    ),
    "L22": Case(
        PLAIN + STREAM + THREE + "RX stream-end{status=2}\nSTREAM vb=5, start=50\n",
        PLAIN + STREAM + THREE + "RX stream-end{status=2}\nSTREAM vb=5, start=3\n",
    ),
    "L21": Case(
        PLAIN + MIDWAY + "RX stream-request-response{rollback, rollback-seqno=95}\n" + BRANCHED,
        PLAIN + MIDWAY + "RX stream-request-response{rollback, rollback-seqno=90}\n" + BRANCHED,
    ),
    "L20": Case(
        OF_ONE + PLAIN + STREAM + OF_OTHER + PLAIN + STREAM,
        OF_ONE + PLAIN + STREAM + "RX stream-end{status=2}\n" + OF_OTHER + PLAIN + STREAM,
    ),
}

S = {
    "S1": Case(
        PLAIN + STREAM + "RX snapshot-marker{start=4, end=3, flags=0x5}\n",
        PLAIN + STREAM + "RX snapshot-marker{start=3, end=3, flags=0x5}\n",
    ),
    "S2": Case(
        PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x7}\n",
        PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6}\n",
    ),
    "S3": Case(
        PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6, layout=2.0}\n",
        DURABLE + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6, layout=2.0}\n",
    ),
    "S4": Case(
        PLAIN + "STREAM vb=5, flags=0x10, start=5\nRX snapshot-marker{start=7, end=9, flags=0x6}\n",
        PLAIN + "STREAM vb=5, flags=0x10, start=5\nRX snapshot-marker{start=9, end=12, flags=0x1}\n"
        "RX mutation{seqno=9}\n",
    ),
    "S6": Case(
        PLAIN + ACTIVE + THREE + "RX snapshot-marker{start=4, end=6, flags=0x1}\nRX mutation{seqno=5}\n",
        PLAIN + ACTIVE + THREE + "RX snapshot-marker{start=4, end=6, flags=0x5}\nRX mutation{seqno=5}\n",
    ),
    "S9": Case(
        PLAIN + STREAM + THREE + "RX snapshot-marker{start=3, end=6, flags=0x5}\n",
        PLAIN + STREAM + THREE + "RX snapshot-marker{start=4, end=6, flags=0x5}\n",
    ),
    "S10": Case(
        PLAIN + STREAM + THREE + "RX snapshot-marker{start=1, end=2, flags=0x5}\n",
        PLAIN + STREAM + THREE + "RX snapshot-marker{start=1, end=3, flags=0x5}\n",
    ),
    "S11": Case(PLAIN + STREAM + MEMORY + items(1, 2) + "RX mutation{seqno=4}\n", PLAIN + STREAM + THREE),
    "S12": Case(
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=2}\nRX mutation{seqno=2, key=other}\n",
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=2}\nRX mutation{seqno=3, key=other}\n",
    ),
    "S13": Case(
        BOTH + FILTERED + MEMORY + EIGHT + "RX snapshot-marker{start=4, end=6, flags=0x5}\n",
        PLAIN + STREAM + MEMORY.replace("0x5", "0x6") + items(1, 2) + "RX snapshot-marker{start=4, end=6, flags=0x5}\n",
    ),
    "S14": Case(
        DURABLE + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6, max-visible-seqno=4, layout=2.0}\n",
        DURABLE + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6, max-visible-seqno=3, layout=2.0}\n",
    ),
    "S15": Case(
        PLAIN + STREAM + MEMORY + "RX seqno-advanced{seqno=3}\n",
        BOTH + STREAM + MEMORY + "RX seqno-advanced{seqno=3}\n",
    ),
    "S16": Case(
        DURABLE + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6}\n",
        DURABLE + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x5}\n",
    ),
    "S17": Case(
        PLAIN + STREAM + MEMORY + "RX mutation{seqno=1, key=a}\nRX deletion{seqno=2, key=a}\n",
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=1, key=a}\nRX commit{prepared-seqno=1, commit-seqno=2, key=a}\n",
    ),
    "S18": Case(
        BOTH + FILTERED + OSO_BEGINS,
        opening(collections=True, controls="enable_out_of_order_snapshots=true")
        + FILTERED
        + "RX oso-snapshot{flags=1}\nRX mutation{seqno=9, key=#0861}\nRX mutation{seqno=4, key=#0862}\n"
        "RX oso-snapshot{flags=2}\nRX snapshot-marker{start=10, end=12, flags=0x5}\n",
    ),
    "S20": Case(
        TAKEOVER + "RX snapshot-marker{start=0, end=1, flags=0xd}\nRX mutation{seqno=1}\nWAIT 31\n"
        "RX stream-end{status=2}\n",
        TAKEOVER + "RX snapshot-marker{start=0, end=1, flags=0xd}\nRX mutation{seqno=1}\n"
        "TX snapshot-marker-response{success, opaque=0x1005}\nWAIT 31\nRX stream-end{status=2}\n",
    ),
    "S22": Case(
        DURABLE + ACTIVE + "RX snapshot-marker{start=0, end=3, flags=0x6, layout=2.0}\nRX prepare{seqno=1, key=a}\n"
        "RX commit{prepared-seqno=1, commit-seqno=2, key=a}\n",
        DURABLE + ACTIVE + MEMORY + "RX prepare{seqno=1, key=a}\nRX commit{prepared-seqno=1, commit-seqno=2, key=a}\n",
    ),
    "S23": Case(
        DURABLE + "STREAM vb=5, start=5\nRX snapshot-marker{start=1, end=7, flags=0x5}\n",
        DURABLE + "STREAM vb=5, start=5\nRX snapshot-marker{start=5, end=7, flags=0x5}\n",
    ),
}

D = {
    "D1": Case(PLAIN + STREAM + MEMORY + "RX prepare{seqno=1}\n", DURABLE + STREAM + MEMORY + "RX prepare{seqno=1}\n"),
    "D2": Case(
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=2, key=a}\nRX commit{prepared-seqno=3, commit-seqno=3, key=a}\n",
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=2, key=a}\nRX commit{prepared-seqno=2, commit-seqno=3, key=a}\n",
    ),
    "D3": Case(
        DURABLE + ACTIVE + MEMORY + "RX commit{prepared-seqno=1, commit-seqno=3, key=a}\n",
        DURABLE + "STREAM vb=5, flags=0x10, start=1\nRX snapshot-marker{start=1, end=3, flags=0x5}\n"
        "RX commit{prepared-seqno=1, commit-seqno=3, key=a}\n",
    ),
    "D4": Case(
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=3, key=a}\nRX stream-end{status=2}\n",
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=3, key=a}\n"
        "RX snapshot-marker{start=4, end=6, flags=0x6, high-completed-seqno=3, layout=2.0}\nRX stream-end{status=2}\n",
    ),
    "D5": Case(
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=1, key=a}\nRX prepare{seqno=2, key=a}\n",
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=1, key=a}\nRX prepare{seqno=2, key=b}\n",
    ),
    "D6": Case(
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=1}\nTX seqno-acknowledged{prepared-seqno=7}\n",
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=1}\nTX seqno-acknowledged{prepared-seqno=3}\n",
    ),
    "D8": Case(
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=1}\nWAIT 11\nRX noop\nTX noop-response{success}\n",
        DURABLE + STREAM + MEMORY + "RX prepare{seqno=1}\nTX seqno-acknowledged{prepared-seqno=1}\nWAIT 11\nRX noop\n"
        "TX noop-response{success}\n",
    ),
}

_LARGE = "".join(f"RX mutation{{seqno={seqno}, value={400 * 'x'}}}\n" for seqno in (1, 2, 3))
B = {
    "B2": Case(
        opening(name="replication:n1", controls="enable_sync_writes=true, connection_buffer_size=1000")
        + STREAM
        + MEMORY
        + "RX prepare{seqno=1, key=a}\nTX buffer-acknowledgement{buffer-bytes=100}\n",
        opening(name="replication:n1", controls="enable_sync_writes=true, connection_buffer_size=1000")
        + STREAM
        + MEMORY
        + "RX prepare{seqno=1, key=a}\nTX buffer-acknowledgement{buffer-bytes=102}\n",
    ),
    "B3": Case(
        WINDOW + STREAM + "RX snapshot-marker{start=0, end=60, flags=0x5}\n" + items(1, 60),
        WINDOW
        + STREAM
        + "RX snapshot-marker{start=0, end=60, flags=0x5}\n"
        + "".join(items(n, n + 9) + "TX buffer-acknowledgement{buffer-bytes=500}\n" for n in range(1, 60, 10)),
    ),
    "B4": Case(
        WINDOW + STREAM + MEMORY + "TX buffer-acknowledgement{buffer-bytes=45}\n",
        WINDOW + STREAM + MEMORY + "TX buffer-acknowledgement{buffer-bytes=44}\n",
    ),
    "B5": Case(
        WINDOW + STREAM + MEMORY + _LARGE + "WAIT 70\nRX noop\nTX noop-response{success}\n",
        WINDOW
        + STREAM
        + MEMORY
        + _LARGE
        + "TX buffer-acknowledgement{buffer-bytes=900}\nWAIT 70\nRX noop\nTX noop-response{success}\n",
    ),
    "B6": Case(
        WINDOW + "TX buffer-acknowledgement{buffer-bytes=0}\nRX buffer-acknowledgement-response{success}\n",
        WINDOW + "TX buffer-acknowledgement{buffer-bytes=0}\nRX buffer-acknowledgement-response{einval}\n",
    ),
    "B7": Case(
        PLAIN + "TX buffer-acknowledgement{buffer-bytes=0}\n", WINDOW + "TX buffer-acknowledgement{buffer-bytes=0}\n"
    ),
}

N = {
    "N1": Case(
        PLAIN + "RX noop{opaque=0x81969800}\nWAIT 120\nRX noop{opaque=0x82969800}\nTX noop-response{success}\n",
        PLAIN + "RX noop{opaque=0x81969800}\nTX noop-response{success}\nWAIT 1\nRX noop{opaque=0x82969800}\n",
    ),
    "N2": Case(
        PLAIN + "RX noop{opaque=1}\nWAIT 2\nRX noop{opaque=2}\n",
        PLAIN + "RX noop{opaque=1}\nTX noop-response{success}\nWAIT 2\nRX noop{opaque=2}\n",
    ),
    "N3": Case(
        PLAIN + STREAM + MEMORY + "WAIT 50\nRX mutation{seqno=1}\n",
        PLAIN + STREAM + MEMORY + "WAIT 39\nRX mutation{seqno=1}\n",
    ),
    "N4": Case(PLAIN.replace(NOOPS, "") + "RX noop\nTX noop-response{success}\n", PLAIN + "RX noop\n"),
    "N5": Case(PLAIN + "WAIT 400\nRX noop\n", PLAIN + "WAIT 300\nRX noop\n"),
    "N6": Case(PLAIN + "TX noop\n", PLAIN + "HEX TX 800a00000000000000000000000000000000000000000000\n"),
}

END = "RX stream-end{status=0}\n"
T = {
    "T1": Case(
        TAKEOVER + "RX set-vbucket-state{state=1}\nTX set-vbucket-state-response{success}\n" + END,
        TAKEOVER + "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n"
        "RX set-vbucket-state{state=1}\nTX set-vbucket-state-response{success}\n" + END,
    ),
    "T2": Case(
        PLAIN + STREAM + "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n",
        TAKEOVER + "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n",
    ),
    "T3": Case(
        TAKEOVER + "RX set-vbucket-state{state=2}\nTX set-vbucket-state-response{success}\n",
        TAKEOVER + "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n",
    ),
    "T4": Case(
        TAKEOVER + MEMORY + "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n"
        "RX set-vbucket-state{state=1}\nTX set-vbucket-state-response{success}\nRX mutation{seqno=1}\n",
        TAKEOVER + MEMORY + "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n"
        "RX mutation{seqno=1}\nRX set-vbucket-state{state=1}\nTX set-vbucket-state-response{success}\n",
    ),
}

CASES: dict[str, Case] = {**F, **C, **L, **S, **D, **B, **N, **T}
