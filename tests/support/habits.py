"""Write healthy conversations after the habits of real clients: what they pipeline, their opaques, how they move."""

from collections.abc import Iterable

from tests.support.check_cases import items
from tests.support.conversation import HELLO, LOGIN

FEATURES = "6|7|0xa|0xb|0x11|0x12"
_NODE = "CONNECT 10.1.0.9:%d 10.1.0.%d:11210\n"


_SCRAM = """TX sasl-list-mechs
RX sasl-list-mechs-response{success, value=SCRAM-SHA512 PLAIN}
TX sasl-auth{key=SCRAM-SHA512, value=n}
RX sasl-auth-response{authcontinue, value=r}
TX sasl-step{key=SCRAM-SHA512, value=c}
RX sasl-step-response{success, value=v}
"""


def begun(port: int, key: str, login: str, flags: str, name: str, node: int = 1) -> str:
    """Return the beginning of a client's connection to a node: HELLO, authentication, DCP_OPEN."""
    text = _NODE % (port, node) + f"TX hello{{features={FEATURES}, key={key}}}\n"
    text += f"RX hello-response{{success, features={FEATURES}}}\n" + login
    return text + f"TX open{{flags={flags}, key={name}}}\nRX open-response{{success}}\n"


def each(text: str, numbers: Iterable[int], base: int = 0) -> str:
    """Return a line for each number: ``@`` in it is the number, ``$`` that and a base."""
    return "".join(text.replace("@", str(at)).replace("$", str(base + at)) + "\n" for at in numbers)


def _noop(count: int, seconds: int = 19) -> str:
    return each(f"WAIT {seconds}\nRX noop{{opaque=$}}\nTX noop-response{{success}}", range(count), 0x81969800)


def _pipelined(*controls: str, opaque: int | None = None) -> str:
    """Return controls that are sent at once, and their responses; with opaque 0 as java-dcp-client has it."""
    out, answers = "", ""
    for number, control in enumerate(controls):
        key, _, value = control.partition("=")
        mine = 0x100 + number if opaque is None else opaque
        out += f"TX control{{key={key}, value={value}, opaque={mine}}}\n"
        answers += f"RX control-response{{success, opaque={mine}}}\n"
    return out + answers


def snapshot(vbucket: int, opaque: int, first: int, last: int, flags: int = 1, prefix: str = "#00") -> str:
    """Return a snapshot of a vbucket, with a mutation of each seqno but 0 and the second."""
    where = f"vb={vbucket}, opaque={opaque}"
    text = f"RX snapshot-marker{{{where}, start={first}, end={last}, flags={flags}}}\n"
    for seqno in range(first, last + 1):
        if seqno and (seqno != first + 1 or seqno == last):
            text += f"RX mutation{{{where}, seqno={seqno}, key={prefix}{seqno:06x}{vbucket:04x}}}\n"
    return text


def java(node: int = 1, port: int = 50001, first_vbucket: int = 3) -> str:
    """Return java-dcp-client: controls have opaque 0, streams the vbucket's, failover logs are requested first."""
    vbuckets = moved, closed, _ = range(first_vbucket, first_vbucket + 3)
    login = _SCRAM + "TX select-bucket{key=travel}\nRX select-bucket-response{success}\n"
    text = begun(port, "java-dcp-client", login, "0x25", "kafka/8f2e", node)
    text += _pipelined(
        "enable_noop=true", "set_noop_interval=20", "connection_buffer_size=4000", "enable_expiry_opcode=true",
        "supports_cursor_dropping_vulcan=true", "send_stream_end_on_client_close_stream=true", opaque=0,
    )  # fmt: skip
    text += each("TX get-failover-log{vb=@, opaque=@}", vbuckets)
    text += each("RX get-failover-log-response{success, opaque=@, failover-log=0xfeed:0}", vbuckets)
    text += each("TX stream-request{vb=@, opaque=@}", vbuckets)
    text += each("RX stream-request-response{success, vb=@, opaque=@}", vbuckets)
    counted = 0
    for first in (0, 11, 21):
        for vbucket in vbuckets:
            last = first + 9 + (not first)
            text += snapshot(vbucket, vbucket, first, last, 5 if first < 11 else 1)
            counted += 44 + sum(24 + 31 + 6 for seqno in range(first, last + 1) if seqno and seqno != first + 1)
            if vbucket == vbuckets[-1] or counted > 2000:
                text += f"TX buffer-acknowledgement{{buffer-bytes={counted}}}\n"
                counted = 0
    text += _noop(2)
    text += each("TX close-stream{vb=@, opaque=@}\nRX close-stream-response{success, opaque=@}", [closed])
    text += each("RX stream-end{vb=@, opaque=@, status=1}", [closed])
    text += each("TX stream-request{vb=@, opaque=@, start=30, snap-start-seqno=30, snap-end-seqno=30}", [closed])
    text += each("RX stream-request-response{success, vb=@, opaque=@}", [closed]) + snapshot(closed, closed, 31, 36, 5)
    text += each("RX stream-end{vb=@, opaque=@, status=2}", [moved])
    text += each("TX stream-request{vb=@, opaque=@, start=30, snap-start-seqno=21, snap-end-seqno=30}", [moved])
    text += each("RX stream-request-response{notmyvbucket, vb=@, opaque=@}", [moved])
    return text + _noop(1)


def gocbcore() -> str:
    """Return gocbcore: everything up to SELECT_BUCKET is pipelined behind HELLO, streams are requested at once."""
    text = (
        _NODE % (50002, 1) + f"TX hello{{features={FEATURES}, key=gocbcore/v10}}\nTX get-error-map{{map-version=2}}\n"
    )
    text += "TX sasl-list-mechs\nTX sasl-auth{key=PLAIN, value=x}\nTX select-bucket{key=travel}\n"
    text += "TX get-cluster-config\n"
    text += f"RX hello-response{{success, features={FEATURES}}}\nRX get-error-map-response{{success}}\n"
    text += "RX sasl-list-mechs-response{success, value=PLAIN}\nRX sasl-auth-response{success}\n"
    text += "RX select-bucket-response{success}\nRX get-cluster-config-response{success}\n"
    text += "TX open{flags=0x25, key=gocbcore}\nRX open-response{success}\n"
    text += _pipelined(
        "enable_noop=true", "set_noop_interval=180", "set_priority=medium", "enable_expiry_opcode=true",
        "backfill_order=sequential",
    )  # fmt: skip
    text += each("TX stream-request{vb=@, opaque=$, end=40}", range(6), 0x200)
    text += each("RX stream-request-response{success, vb=@, opaque=$}", range(6), 0x200)
    for vbucket in range(6):
        text += snapshot(vbucket, 0x200 + vbucket, 0, 20, 6)
    for vbucket in range(6):
        text += snapshot(vbucket, 0x200 + vbucket, 21, 40, 5)
        text += f"RX stream-end{{vb={vbucket}, opaque={0x200 + vbucket}, status=0}}\n"
    return text


def xdcr() -> str:
    """Return goxdcr over gomemcached: no collections, opaques of vbucket and tag, a rollback, plain KV beside it."""
    text = _NODE % (50003, 1) + HELLO % ("", "") + LOGIN + "TX open{flags=0x25, key=xdcr:9f/travel/target}\n"
    text += "RX open-response{success}\n" + _pipelined("enable_noop=true", "set_noop_interval=120", "set_priority=high")
    for vbucket in (7, 8):
        opaque = 0x10000 * vbucket + vbucket
        where = f"vb={vbucket}, opaque={opaque}"
        text += f"TX stream-request{{{where}, start=90, snap-start-seqno=90, snap-end-seqno=99}}\n"
        text += f"RX stream-request-response{{rollback, opaque={opaque}, rollback-seqno=0}}\n"
        text += f"TX stream-request{{vb={vbucket}, opaque={opaque}}}\n"
        text += f"RX stream-request-response{{success, opaque={opaque}}}\n" + snapshot(vbucket, opaque, 0, 12, 6, "k")
        text += "TX get{key=doc, opaque=7}\nRX get-response{success, opaque=7}\n"
        text += snapshot(vbucket, opaque, 13, 20, 5, "k")
    text += "TX close-stream{vb=7, opaque=0x70007}\n"
    return text + "RX close-stream-response{success, opaque=0x70007}\n" + _noop(2)


def drain() -> str:
    """Return dcpdrain: one opaque for all streams, requested at once; one is refused."""
    text = begun(50004, "dcpdrain", LOGIN, "0x5", "dcpdrain:4711")
    text += _pipelined("set_priority=high", "enable_noop=true", "connection_buffer_size=13421772", opaque=0xDEADBEEF)
    text += each("TX stream-request{vb=@, opaque=0xdeadbeef, end=30}", range(6))
    text += each("RX stream-request-response{success, vb=@, opaque=0xdeadbeef}", range(2))
    text += "RX stream-request-response{notmyvbucket, vb=2, opaque=0xdeadbeef}\n"
    text += each("RX stream-request-response{success, vb=@, opaque=0xdeadbeef}", range(3, 6))
    for first, flags in ((0, 6), (16, 5)):
        for vbucket in (0, 1, 3, 4, 5):
            text += snapshot(vbucket, 0xDEADBEEF, first, first + 15 - bool(first), flags)
    return text + each("RX stream-end{vb=@, opaque=0xdeadbeef, status=0}", (0, 1, 3, 4, 5))


def moving() -> str:
    """Return a connector whose vbucket moves to another node, and which connects anew with the name that it had."""
    text = java() + "FIN TX\nFIN RX\nWAIT 1\n"
    return text + java(port=50011) + java(node=2, port=50012, first_vbucket=6) + "WAIT 1\n"


def backup() -> str:
    """Return cbbackupmgr: requests high seqnos, streams of collections up to them, out of order, compressed."""
    text = begun(50005, "cbbackupmgr", LOGIN, "0x125", "cbbackupmgr")
    text += _pipelined(
        "enable_noop=true", "force_value_compression=true", "enable_out_of_order_snapshots=true",
        "set_priority=low", "include_deleted_user_xattrs=true", "enable_stream_id=true",
    )  # fmt: skip
    for vbucket, sid in ((1, 1), (1, 2), (2, 1), (2, 2)):
        opaque, name = 0x300 + 16 * vbucket + sid, "89"[sid - 1]
        where = f"vb={vbucket}, opaque={opaque}, sid={sid}"
        text += f"TX stream-request{{vb={vbucket}, opaque={opaque}, end=50, "
        text += f'value={{"sid":{sid},"collections":["{name}"]}}}}\n'
        text += f"RX stream-request-response{{success, opaque={opaque}}}\nRX oso-snapshot{{{where}, flags=1}}\n"
        text += f"RX system-event{{{where}, seqno=3, event=0, version=0, key=c{name}, manifest-uid=5, scope-id=8, "
        text += f"collection-id={name}}}\n"
        for seqno in (40, 8, 31, 12):
            text += f"RX mutation{{{where}, seqno={seqno}, key=#0{name}{seqno:04x}}}\n"
        text += f"RX oso-snapshot{{{where}, flags=2}}\nRX snapshot-marker{{{where}, start=41, end=50, flags=5}}\n"
        text += f"RX mutation{{{where}, seqno=44, key=#0{name}77}}\nRX seqno-advanced{{{where}, seqno=50}}\n"
        text += f"RX stream-end{{{where}, status=0}}\n"
    return text


def replication() -> str:
    """Return the leg of ns_server's proxy to the active node: durable writes, then a takeover of another vbucket."""
    text = begun(50006, "proxy", LOGIN, "0x125", "replication:n1->n3:travel")
    for control in (
        "enable_noop=true", "set_noop_interval=1.000000", "set_priority=high", "supports_hifi_MFU=true",
        "send_stream_end_on_client_close_stream=true", "enable_expiry_opcode=true", "enable_sync_writes=true",
        "consumer_name=n3", "include_deleted_user_xattrs=true", "v7_dcp_status_codes=true",
        "flatbuffers_system_events=true", "change_streams=true", "max_marker_version=2.2",
        "connection_buffer_size=10000",
    ):  # fmt: skip
        text += f"CONTROL {control}\n"
    text += 'STREAM vb=1, flags=0x10, value={"uid":"5"}\n'
    text += "RX snapshot-marker{start=0, end=6, flags=0x6, max-visible-seqno=6, high-completed-seqno=0, layout=2.0}\n"
    text += items(1, 6, "#006161610") + "TX seqno-acknowledged{prepared-seqno=6}\n"
    for seqno in range(7, 19, 3):
        text += f"RX snapshot-marker{{start={seqno}, end={seqno + 2}, flags=0x{5 if seqno == 7 else 1}, layout=2.0}}\n"
        text += f"RX prepare{{seqno={seqno}, key=#00{seqno:04x}}}\nTX seqno-acknowledged{{prepared-seqno={seqno}}}\n"
        text += f"RX commit{{prepared-seqno={seqno}, commit-seqno={seqno + 1}, key=#00{seqno:04x}}}\n"
        text += f"RX mutation{{seqno={seqno + 2}, key=#0062}}\nTX seqno-acknowledged{{prepared-seqno={seqno + 2}}}\n"
        text += "WAIT 1\n" + f"RX noop{{opaque={0x989680 + seqno}}}\nTX noop-response{{success}}\n"
    text += 'STREAM vb=2, flags=0x11, value={"uid":"5"}\n'
    text += "RX snapshot-marker{start=0, end=3, flags=0x6, layout=2.0}\n" + items(1, 3, "#0063630")
    text += "RX snapshot-marker{start=4, end=5, flags=0xd, layout=2.0}\n"
    text += "RX mutation{seqno=4, key=#0064}\nRX mutation{seqno=5, key=#0065}\n"
    text += "TX snapshot-marker-response{success, opaque=0x1002}\n"
    text += "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n"
    text += "RX set-vbucket-state{state=1}\nTX set-vbucket-state-response{success}\nRX stream-end{status=0}\n"
    return text


def legacy() -> str:
    """Return an old client without collections: the last items are not for it. It has no password, but TLS."""
    text = _NODE % (50007, 1) + HELLO % ("", "") + "TX select-bucket{key=travel}\nRX select-bucket-response{success}\n"
    text += "TX open{flags=0x1, key=old}\nRX open-response{success}\n"
    for vbucket in (1, 2):
        text += f"STREAM vb={vbucket}\n" + snapshot(vbucket, 0x1000 + vbucket, 0, 20, 6, "k")
        text += snapshot(vbucket, 0x1000 + vbucket, 24, 29, 5, "k")
    return text


HABITS: dict[str, str] = {
    "java-dcp-client": java(),
    "gocbcore": gocbcore(),
    "goxdcr": xdcr(),
    "dcpdrain": drain(),
    "a connector that moves": moving(),
    "cbbackupmgr": backup(),
    "replication": replication(),
    "legacy": legacy(),
}
