"""Hold healthy conversations of every kind: what a conforming server and a conforming client send to each other."""

from tests.support.check_cases import CONSUMER, cached, items
from tests.support.conversation import opening

_STREAM = "STREAM vb=5\n"
_REPLICATION = (
    "enable_sync_writes=true, consumer_name=n2, v7_dcp_status_codes=true, flatbuffers_system_events=true, "
    "max_marker_version=2.2"
)


def _noops(count: int) -> str:
    return "".join(
        f"WAIT 19\nRX noop{{opaque={hex(0x81969800 + at)}}}\nTX noop-response{{success}}\n" for at in range(count)
    )


def _durable() -> str:
    text = opening(0x25, collections=True, name="replication:n1->n2", controls=_REPLICATION) + "STREAM vb=5, start=4\n"
    text += "TX seqno-acknowledged{prepared-seqno=3}\n"
    text += (
        "RX snapshot-marker{start=4, end=9, flags=0x6, max-visible-seqno=9, high-completed-seqno=8, purge-seqno=1, "
        "high-prepared-seqno=8, layout=2.2}\nRX mutation{seqno=7, key=#0061}\n"
        "RX deletion{seqno=9, key=#0062, layout=2}\nTX seqno-acknowledged{prepared-seqno=9}\n"
    )
    for seqno in range(10, 22, 3):
        key = f"#00{seqno:04x}"
        text += f"RX snapshot-marker{{start={seqno}, end={seqno + 1}, flags=0x5, max-visible-seqno=9, layout=2.0}}\n"
        text += f"RX prepare{{seqno={seqno}, key={key}}}\nRX mutation{{seqno={seqno + 1}, key=#0063}}\n"
        text += f"TX seqno-acknowledged{{prepared-seqno={seqno + 1}}}\n"
        text += f"RX snapshot-marker{{start={seqno + 2}, end={seqno + 2}, flags=0x5, layout=2.0}}\n"
        verb = "commit" if seqno % 2 else "abort"
        text += f"RX {verb}{{prepared-seqno={seqno}, {verb}-seqno={seqno + 2}, key={key}}}\n"
        text += f"TX seqno-acknowledged{{prepared-seqno={seqno + 2}}}\n"
    return text


def _window() -> str:
    text = opening(controls="connection_buffer_size=4000") + _STREAM
    size = 44
    text += "RX snapshot-marker{start=0, end=100, flags=0x6}\n"
    for at in range(1, 101, 10):
        text += items(at, at + 9)
        size += sum(55 + len(f"k{seqno}") for seqno in range(at, at + 10))
        text += f"TX buffer-acknowledgement{{buffer-bytes={size}}}\n"
        size = 0
    return text + _noops(2)


def _collections() -> str:
    text = opening(0x25, collections=True) + 'STREAM vb=5, value={"collections":["8"]}\n'
    text += "RX snapshot-marker{start=0, end=12, flags=0x6}\n"
    text += "RX system-event{seqno=2, event=0, version=0, key=carts, manifest-uid=5, scope-id=8, collection-id=8}\n"
    text += "RX mutation{seqno=4, key=#0861}\nRX deletion{seqno=7, key=#0862, layout=2}\nRX seqno-advanced{seqno=12}\n"
    text += "RX snapshot-marker{start=13, end=20, flags=0x5}\nRX mutation{seqno=13, key=#0861}\n"
    text += "RX seqno-advanced{seqno=20}\n"
    text += "RX snapshot-marker{start=21, end=25, flags=0x5}\nRX seqno-advanced{seqno=25}\n"
    text += "STREAM vb=6, end=0\nRX stream-end{status=0}\n"
    return text + _noops(1)


def _oso() -> str:
    text = opening(collections=True, controls="enable_out_of_order_snapshots=true_with_seqno_advanced")
    text += 'STREAM vb=5, value={"collections":["8"]}\nRX oso-snapshot{flags=1}\n'
    for seqno in (9, 4, 30, 1, 17):
        text += f"RX mutation{{seqno={seqno}, key=#08{seqno:04x}}}\n"
    text += "RX seqno-advanced{seqno=31}\nRX oso-snapshot{flags=2}\n"
    text += "RX snapshot-marker{start=32, end=33, flags=0x5}\nRX mutation{seqno=32, key=#080009}\n"
    return text + "RX mutation{seqno=33, key=#080004}\n"


def _changes() -> str:
    text = opening(collections=True, controls="change_streams=true, flatbuffers_system_events=true") + _STREAM
    text += "RX snapshot-marker{start=0, end=9, flags=0x6}\nRX mutation{seqno=2, key=#0861}\n"
    text += "RX snapshot-marker{start=0, end=9, flags=0x36}\nRX mutation{seqno=3, key=#0861}\n"
    text += "RX mutation{seqno=5, key=#0861}\nRX mutation{seqno=9, key=#0861}\n"
    return text + "RX snapshot-marker{start=10, end=10, flags=0x15}\nRX mutation{seqno=10, key=#0861}\n"


def _takeover() -> str:
    text = opening(name="replication:n1", controls="enable_sync_writes=true, consumer_name=n2")
    text += "STREAM vb=5, flags=0x1\nRX snapshot-marker{start=0, end=3, flags=0x6, layout=2.0}\n" + items(1, 3)
    text += "RX snapshot-marker{start=4, end=5, flags=0xd}\n" + items(4, 5)
    text += "TX snapshot-marker-response{success, opaque=0x1005}\n"
    text += "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n"
    text += "RX snapshot-marker{start=6, end=6, flags=0x9}\nRX mutation{seqno=6}\n"
    text += "TX snapshot-marker-response{success, opaque=0x1005}\n"
    text += "RX set-vbucket-state{state=1}\nTX set-vbucket-state-response{success}\n"
    return text + "RX stream-end{status=0}\n" + _noops(1)


def _ids() -> str:
    text = opening(collections=True, controls="enable_stream_id=true")
    for sid, collection in ((7, "8"), (9, "a")):
        text += f'STREAM vb=5, value={{"sid":{sid},"collections":["{collection}"]}}\n'
    for start in (1, 3, 5):
        for sid, collection in ((7, "08"), (9, "0a")):
            where = f"sid={sid}, opaque={hex(0x1005 + (sid << 16))}"
            text += f"RX snapshot-marker{{start={start}, end={start + 1}, flags=0x1, {where}}}\n"
            text += f"RX mutation{{seqno={start}, key=#{collection}61, {where}}}\n"
            text += f"RX seqno-advanced{{seqno={start + 1}, {where}}}\n"
    return text


def _cache() -> str:
    text = opening(collections=True) + "STREAM vb=5, flags=0x100, start=9, snap-start-seqno=9, snap-end-seqno=9\n"
    text += cached(3) + cached(9) + cached(1) + "RX cache-transfer-end\n"
    return text + "RX snapshot-marker{start=9, end=12, flags=0x5}\nRX mutation{seqno=12, key=#0061}\n"


def _rollback() -> str:
    text = opening() + "TX stream-request{vb=5, start=10}\n"
    text += "RX stream-request-response{rollback, rollback-seqno=4}\nSTREAM vb=5, start=4\n"
    text += "RX snapshot-marker{start=4, end=7, flags=0x5}\n" + items(5, 7) + "RX stream-end{status=2}\n"
    text += "TX stream-request{vb=5, start=7}\nRX stream-request-response{notmyvbucket}\n"
    return text + "STREAM vb=5, start=7\nRX snapshot-marker{start=7, end=9, flags=0x5}\n" + items(8, 9)


def _consumer() -> str:
    request = "00" * 8 + f"{0:016x}{(1 << 64) - 1:016x}" + "00" * 24
    text = CONSUMER + "TX add-stream{vb=5, flags=0}\n"
    text += f"HEX RX 8053000030000005000000300100000000000000000000{'00'}{request}\n"
    text += "HEX TX 81530000000000000000001001000000" + "00" * 8 + f"{0xFEED:016x}{0:016x}\n"
    text += "RX add-stream-response{success, stream-opaque=0x1}\n"
    text += "TX snapshot-marker{start=0, end=2, flags=0x5, opaque=0x01000000}\n"
    return text + "".join(f"TX mutation{{seqno={seqno}, opaque=0x01000000}}\n" for seqno in (1, 2))


def _left_out() -> str:
    """Return values that are left out while their datatypes are kept."""
    text = opening(0x45, collections=True) + _STREAM + "RX snapshot-marker{start=0, end=9, flags=0x6}\n"
    for seqno, bits in enumerate((1, 3, 6, 7), 1):
        value = "#0000000e0000000a5f73006173646600" if bits & 4 else ""
        text += f"RX mutation{{seqno={seqno}, key=#0861{seqno:02x}, datatype={bits}, value={value}}}\n"
    return text + "RX deletion{seqno=8, key=#0862, datatype=1}\nRX deletion{seqno=9, key=#0863, datatype=3}\n"


def _expirations() -> str:
    text = opening(0x25, controls="enable_expiry_opcode=true") + _STREAM
    text += "RX snapshot-marker{start=0, end=9, flags=0x6}\nRX expiration{seqno=1}\n"
    return text + "RX deletion{seqno=4, layout=2}\nRX expiration{seqno=9, datatype=4, value=#00000000}\n"


HEALTHY: dict[str, str] = {
    "plain": opening() + _STREAM + "RX snapshot-marker{start=0, end=9, flags=0x6}\n" + items(2, 9) + _noops(3),
    "the specification's example": opening()
    + "STREAM vb=5, start=5\nRX snapshot-marker{start=9, end=12, flags=0x1}\nRX mutation{seqno:9}\n",
    "replica": _durable(),
    "window": _window(),
    "collections": _collections(),
    "out of order": _oso(),
    "change stream": _changes(),
    "takeover": _takeover(),
    "stream ids": _ids(),
    "cache transfer": _cache(),
    "rollback": _rollback(),
    "requested again": opening() + _STREAM + "RX stream-end{status=2}\n" + _STREAM + _noops(1),
    "consumer": _consumer(),
    "left out": _left_out(),
    "expirations": _expirations(),
    "two connections": opening() + _STREAM + "CONNECT\n" + opening(name="b") + _STREAM + _noops(1),
}
