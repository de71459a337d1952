"""Name values: datatypes, flags, states, reasons, features, control keys.

One row for each value, in the specification's words: flags in lower case, as its examples print them, features as the
server spells them.
"""

from typing import Final

from dcpdump.spec.field import Bits, EnumValue
from dcpdump.startup import dataclass

#: The bits of a datatype byte, which describes a value. A value of 0 is raw bytes.
DATATYPE = Bits({0x01: "JSON", 0x02: "Snappy", 0x04: "XATTR"})
JSON: Final = 0x01
SNAPPY: Final = 0x02
XATTR: Final = 0x04
MOST_DATATYPE: Final = 0x07  #: all of them
#: The name of the field with a message's own seqno.
OWN_SEQNO = ("by_seqno", "commit_seqno", "abort_seqno")

OPEN_FLAGS = Bits(
    {
        0x001: "producer",
        0x002: "notifier",
        0x004: "include-xattrs",
        0x008: "no-value",
        0x010: "collections",
        0x020: "include-delete-times",
        0x040: "no-value-with-underlying-datatype",
        0x080: "pitr",
        0x100: "include-deleted-user-xattrs",
        0x200: "skip-deletes-in-initial-backfill",
    },
    {
        0x001: "the receiver is to produce; without it, it is to consume",
        0x002: "a connection that only notifies",
        0x004: "documents come with their xattrs",
        0x008: "documents come without their bodies",
        0x010: "the developer preview of collections, 5.0 to 6.0",
        0x020: "DELETION has the time of the deletion (layout 2)",
        0x040: "as no-value, but the datatype stays that of the whole document",
        0x080: "point in time recovery, never generally available",
        0x100: "deletions keep their user xattrs",
        0x200: "a first backfill leaves deletions out",
    },
    old=0x002 | 0x010 | 0x080,
)

#: The flags of DCP_OPEN, to test for.
PRODUCER: Final = 0x001
NOTIFIER: Final = 0x002
INCLUDE_XATTRS: Final = 0x004
NO_VALUE: Final = 0x008
COLLECTIONS_PREVIEW: Final = 0x010
DELETE_TIMES: Final = 0x020
UNDERLYING_DATATYPE: Final = 0x040
DELETED_XATTRS: Final = 0x100
SKIP_DELETES: Final = 0x200

#: Flags of ADD_STREAM and STREAM_REQ.
STREAM_FLAGS = Bits(
    {
        0x001: "takeover",
        0x002: "disk-only",
        0x004: "to-latest",
        0x008: "no-value",
        0x010: "active-vb-only",
        0x020: "strict-vbuuid",
        0x040: "from-latest",
        0x080: "ignore-purged-tombstones",
        0x100: "cache-transfer",
    },
    {
        0x001: "sends all that is left, then hands the vbucket over: active there, dead here",
        0x002: "the server sets the end seqno to the last one on disk at the request, and sends what is there",
        0x004: "the server sets the end seqno to the high seqno at the request, of the vbucket or its collections",
        0x008: "keys and metadata only; removed in 5.0, where no-value of DCP_OPEN took over",
        0x010: "refused with NotMyVbucket unless the vbucket is active (5.0)",
        0x020: "the vb UUID has to be in the failover log even at start seqno 0, else a rollback (5.1)",
        0x040: "the server sets the start seqno to the vbucket's high seqno (7.2)",
        0x080: "spares the rollback of a client that is behind the purge seqno: it may miss deletions (7.2)",
        0x100: "first sends what is cached up to the start seqno; only with takeover and active-vb-only",
    },
    old=0x008,
)

#: These flags, to test for.
TAKEOVER: Final = 0x001
DISK_ONLY: Final = 0x002
TO_LATEST: Final = 0x004
ACTIVE_ONLY: Final = 0x010
STRICT_UUID: Final = 0x020
FROM_LATEST: Final = 0x040
IGNORE_PURGED: Final = 0x080
CACHE_TRANSFER: Final = 0x100

SNAPSHOT_TYPE = Bits(
    {
        0x01: "memory",
        0x02: "disk",
        0x04: "checkpoint",
        0x08: "acknowledge",
        0x10: "history",
        0x20: "may-contain-duplicates",
    },
    {
        0x01: "its items come from memory",
        0x02: "its items come from disk",
        0x04: "a checkpoint begins, for replicas to begin one too; the first memory snapshot always has it",
        0x08: "to be answered once all of the snapshot is there; set during a takeover",
        0x10: "of collections that keep their history it has every version (7.2)",
        0x20: "a key may come more than once (7.2)",
    },
)

#: The flags of a snapshot type, to test for.
MEMORY: Final = 0x01
DISK: Final = 0x02
CHECKPOINT: Final = 0x04
ACKNOWLEDGE: Final = 0x08
HISTORY: Final = 0x10
DUPLICATES: Final = 0x20

OSO_FLAGS = Bits({0x01: "start", 0x02: "end"}, {0x01: "items follow in any order", 0x02: "all of them were sent"})
OSO_START: Final = 0x01
OSO_END: Final = 0x02

STREAM_END_STATUS = EnumValue(
    {
        0: "Ok",
        1: "Closed",
        2: "StateChanged",
        3: "Disconnected",
        4: "Slow",
        5: "BackfillFail",
        6: "Rollback",
        7: "FilterEmpty",
        8: "LostPrivileges",
    },
    {
        0: "all up to the end seqno was sent",
        1: "answers CLOSE_STREAM",
        2: "the vbucket changed its state, went away or rolled back, or what a backfill needed was purged",
        3: "the connection is about to close; servers do not send it",
        4: "from 8.0 on, a backfill from disk made no progress for 720 s, with the disk over 90 % full",
        5: "a backfill failed",
        6: "the vbucket itself rolls back; servers send StateChanged",
        7: "the last collection of the filter was dropped",
        8: "the user lost a privilege that the stream needs",
    },
)

#: Reasons why a stream ended, to test for.
OK: Final = 0
CLOSED: Final = 1
SLOW: Final = 4
BACKFILL_FAILED: Final = 5
FILTER_EMPTY: Final = 7
LOST_PRIVILEGES: Final = 8

VBUCKET_STATE = EnumValue({1: "active", 2: "replica", 3: "pending", 4: "dead"})
ACTIVE: Final = 1
PENDING: Final = 3
#: GET_ALL_VB_SEQNOS may ask for every live state at once.
VBUCKET_STATE_FILTER = EnumValue({0: "alive", **VBUCKET_STATE.names})

SYSTEM_EVENT = EnumValue(
    {
        0: "BeginCollection",
        1: "EndCollection",
        2: "CollectionsSeparatorChanged",  # 5.x only; reserved now
        3: "CreateScope",
        4: "DropScope",
        5: "ModifyCollection",
    }
)

DURABILITY_LEVEL = EnumValue({1: "majority", 2: "majorityAndPersistOnMaster", 3: "persistToMajority"})
DELETED = EnumValue({0: "alive"}, otherwise="deleted")

#: HELLO features. Only those in the response are on.
FEATURE = EnumValue(
    {
        0x0001: "Invalid",
        0x0002: "TLS",
        0x0003: "TcpNoDelay",
        0x0004: "MUTATION_SEQNO",
        0x0005: "TCPDELAY_Unsupported",
        0x0006: "XATTR",
        0x0007: "XERROR",
        0x0008: "SELECT_BUCKET",
        0x0009: "Invalid2",
        0x000A: "SNAPPY",
        0x000B: "JSON",
        0x000C: "Duplex",
        0x000D: "ClustermapChangeNotification",
        0x000E: "UnorderedExecution",
        0x000F: "Tracing",
        0x0010: "AltRequestSupport",
        0x0011: "SyncReplication",
        0x0012: "Collections",
        0x0013: "SnappyEverywhere",
        0x0014: "PreserveTtl",
        0x0015: "VAttr",
        0x0016: "Invalid3",
        0x0017: "SubdocCreateAsDeleted",
        0x0018: "SubdocDocumentMacroSupport",
        0x0019: "SubdocReplaceBodyWithXattr",
        0x001A: "ReportUnitUsage",
        0x001B: "NonBlockingThrottlingMode",
        0x001C: "SubdocReplicaRead",
        0x001D: "GetClusterConfigWithKnownVersion",
        0x001E: "DedupeNotMyVbucketClustermap",
        0x001F: "ClustermapChangeNotificationBrief",
        0x0020: "SubdocAllowsAccessOnMultipleXattrKeys",
        0x0021: "SubdocBinaryXattr",
        0x0022: "RangeScanIncludeXattr",
        0x0023: "SubdocAllowReplicaReadOnDeletedDocs",
        0x0024: "GetRandomKeyIncludeXattr",
        0x0025: "MutateWithMeta",
        0x0026: "DcpSkipDeletesInInitialBackfill",
    }
)
COLLECTIONS = 0x0012


@dataclass(frozen=True, slots=True)
class ControlKey:
    """A key of DCP_CONTROL: the values it takes, what it does, and since which release."""

    name: str
    values: str
    effect: str
    since: str


#: The values of controls, but for names.
CONTROL_SETTINGS = r"[0-9.]{1,20}|true|false|high|medium|low|true_with_seqno_advanced|round-robin|sequential"
CONTROL_KEYS: dict[str, ControlKey] = {
    key.name: key
    for key in (
        ControlKey("connection_buffer_size", "decimal u32, 0 = off", "flow-control window in bytes", "3.0"),
        ControlKey("stream_buffer_size", "any", "always refused (NotSupported)", "3.0"),
        ControlKey("enable_noop", "true", "keep-alive; some stream requests need it", "3.0"),
        ControlKey("set_noop_interval", "seconds", "period of the keep-alive", "3.0"),
        ControlKey("set_priority", "high, medium, low", "scheduling", "4.0"),
        ControlKey("enable_ext_metadata", "true", "metadata after the value (removed)", "3.5-6.x"),
        ControlKey("enable_value_compression", "true", "Snappy values (removed)", "4.x-5.1"),
        ControlKey("force_value_compression", "true", "compresses every value", "5.5"),
        ControlKey("supports_cursor_dropping", "true", "a slow client may be moved to disk", "4.5"),
        ControlKey("supports_cursor_dropping_vulcan", "true", "a slow client may be moved to disk", "5.5"),
        ControlKey("supports_hifi_MFU", "true", "the nru byte is an 8-bit frequency counter", "5.5"),
        ControlKey("send_stream_end_on_client_close_stream", "true", "STREAM_END(Closed) after CLOSE_STREAM", "5.5"),
        ControlKey("enable_expiry_opcode", "true", "EXPIRATION in place of DELETION", "6.5"),
        ControlKey("enable_stream_id", "true", "stream ids become mandatory", "6.5"),
        ControlKey("enable_sync_writes", "true", "PREPARE, COMMIT, ABORT", "6.5"),
        ControlKey("consumer_name", "a name", "with enable_sync_writes: acknowledges durable writes", "6.5"),
        ControlKey("include_deleted_user_xattrs", "true", "asks whether the open flag took effect", "6.6"),
        ControlKey("enable_out_of_order_snapshots", "true, true_with_seqno_advanced", "OSO backfills", "7.0"),
        ControlKey("v7_dcp_status_codes", "true", "DcpStreamNotFound and OpaqueNoMatch in replies", "7.0"),
        ControlKey("flatbuffers_system_events", "true", "system events of version 2", "7.2"),
        ControlKey("change_streams", "true", "history snapshots", "7.2"),
        ControlKey("max_marker_version", "2.2", "snapshot markers V2.2", "8.0"),
        ControlKey("backfill_order", "round-robin, sequential", "order of backfills", "6.6"),
        ControlKey("cache_transfer", "any", "asks whether cache transfer is there", "after 8.0"),
    )
}

#: Prefixes of the names of connections that servers open between themselves.
REPLICATION = ("replication:", "eq_dcpq:replication:", "eq_dcpq:", "repl:")
MECHANISMS = "PLAIN|OAUTHBEARER|SCRAM-SHA(?:1|256|512)"
#: A stream request's JSON without other content than identifiers, under the protocol's names.
STREAM_FILTER = (
    r"(?:[\s{}\[\]:,]|-?[0-9]{1,20}(?![0-9])|true|false|null"
    r'|"(?:uid|sid|collections|scope|purge_seqno|cts|free_memory|all_keys|(?:0x)?[0-9a-fA-F]{1,16})")*'
)
#: The names of members in servers' JSON about clusters, buckets and collections.
MEMBERS = frozenset(
    "addressFamily alternateAddresses appTelemetryPath bucketCapabilities bucketCapabilitiesVer cas "
    "clusterCapabilities clusterCapabilitiesVer clusterName clusterUUID collections collectionsManifestUid "
    "consumer_name context couchApiBase couchApiBaseHTTPS ddocs direct error external external_port fts "
    "hashAlgorithm history hostname https index kv kvSSL localRandomKeyUri maxTTL max_ttl metered mgmt mgmtSSL "
    "n1ql n1qlSSL name nodeEncryption nodeLocator nodes nodesExt numReplicas ports prod proxy pools ref rev "
    "revEpoch saslPassword scope scopes serverGroup serverList services sid status streamingUri streams thisNode "
    "topology uid uri use_snapshot uuid vBucketMap vBucketMapForward vBucketServerMap version".split()
)
