"""Constants that programs test for have the numbers that the tables of names give them."""

from dcpdump.spec import names, statuses
from dcpdump.spec.field import Bits, EnumValue


def test_statuses_have_the_numbers_of_their_names() -> None:
    assert {
        name: statuses.STATUS.names.get(number) for name, number in vars(statuses).items() if isinstance(number, int)
    } == {
        "APPLICATION_STATUS": None,
        "SUCCESS": "Success",
        "KEY_ENOENT": "KeyEnoent",
        "KEY_EEXISTS": "KeyEexists",
        "EINVAL": "Einval",
        "NOT_MY_VBUCKET": "NotMyVbucket",
        "STREAM_NOT_FOUND": "DcpStreamNotFound",
        "OPAQUE_NO_MATCH": "OpaqueNoMatch",
        "AUTH_CONTINUE": "AuthContinue",
        "ERANGE": "Erange",
        "ROLLBACK": "Rollback",
        "EACCESS": "Eaccess",
        "ENOMEM": "Enomem",
        "NOT_SUPPORTED": "NotSupported",
        "ETMPFAIL": "Etmpfail",
        "UNKNOWN_COLLECTION": "UnknownCollection",
        "UNKNOWN_SCOPE": "UnknownScope",
        "STREAM_ID_INVALID": "DcpStreamIdInvalid",
    }


def test_flags_and_reasons_have_the_numbers_of_their_names() -> None:
    tables: dict[Bits | EnumValue, str] = {
        names.DATATYPE: "JSON SNAPPY XATTR",
        names.OPEN_FLAGS: "PRODUCER NOTIFIER INCLUDE_XATTRS NO_VALUE COLLECTIONS_PREVIEW DELETE_TIMES "
        "UNDERLYING_DATATYPE DELETED_XATTRS SKIP_DELETES",
        names.STREAM_FLAGS: "TAKEOVER DISK_ONLY TO_LATEST ACTIVE_ONLY STRICT_UUID FROM_LATEST IGNORE_PURGED "
        "CACHE_TRANSFER",
        names.SNAPSHOT_TYPE: "MEMORY DISK CHECKPOINT ACKNOWLEDGE HISTORY DUPLICATES",
        names.OSO_FLAGS: "OSO_START OSO_END",
        names.STREAM_END_STATUS: "OK CLOSED FILTER_EMPTY",
        names.VBUCKET_STATE: "ACTIVE PENDING",
        names.FEATURE: "COLLECTIONS",
    }
    assert [[table.names[getattr(names, name)] for name in text.split()] for table, text in tables.items()] == [
        ["JSON", "Snappy", "XATTR"],
        [
            "producer",
            "notifier",
            "include-xattrs",
            "no-value",
            "collections",
            "include-delete-times",
            "no-value-with-underlying-datatype",
            "include-deleted-user-xattrs",
            "skip-deletes-in-initial-backfill",
        ],
        [
            "takeover",
            "disk-only",
            "to-latest",
            "active-vb-only",
            "strict-vbuuid",
            "from-latest",
            "ignore-purged-tombstones",
            "cache-transfer",
        ],
        ["memory", "disk", "checkpoint", "acknowledge", "history", "may-contain-duplicates"],
        ["start", "end"],
        ["Ok", "Closed", "FilterEmpty"],
        ["active", "pending"],
        ["Collections"],
    ]
