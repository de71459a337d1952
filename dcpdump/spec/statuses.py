"""Name the statuses of responses, and define constants of those that code tests for."""

from typing import Final

from dcpdump.spec.field import EnumValue

STATUS = EnumValue(
    {
        0x0000: "Success",
        0x0001: "KeyEnoent",
        0x0002: "KeyEexists",
        0x0003: "E2big",
        0x0004: "Einval",
        0x0005: "NotStored",
        0x0006: "DeltaBadval",
        0x0007: "NotMyVbucket",
        0x0008: "NoBucket",
        0x0009: "Locked",
        0x000A: "DcpStreamNotFound",
        0x000B: "OpaqueNoMatch",
        0x000C: "EWouldThrottle",
        0x000D: "EConfigOnly",
        0x000E: "NotLocked",
        0x000F: "CasValueInvalid",
        0x001F: "AuthStale",
        0x0020: "AuthError",
        0x0021: "AuthContinue",
        0x0022: "Erange",
        0x0023: "Rollback",
        0x0024: "Eaccess",
        0x0025: "NotInitialized",
        0x0026: "EncryptionKeyNotAvailable",
        0x0027: "ChecksumMismatch",
        0x0028: "ExpiryOverflow",
        0x0029: "LockExpiryOverflow",
        0x0030: "RateLimitedNetworkIngress",
        0x0031: "RateLimitedNetworkEgress",
        0x0032: "RateLimitedMaxConnections",
        0x0033: "RateLimitedMaxCommands",
        0x0034: "ScopeSizeLimitExceeded",
        0x0035: "BucketSizeLimitExceeded",
        0x0036: "BucketResidentRatioTooLow",
        0x0037: "BucketDataSizeTooBig",
        0x0038: "BucketDiskSpaceTooLow",
        0x0050: "BucketPaused",
        0x0051: "Cancelled",
        0x0080: "UnknownFrameInfo",
        0x0081: "UnknownCommand",
        0x0082: "Enomem",
        0x0083: "NotSupported",
        0x0084: "Einternal",
        0x0085: "Ebusy",
        0x0086: "Etmpfail",
        0x0087: "XattrEinval",
        0x0088: "UnknownCollection",
        0x0089: "NoCollectionsManifest",
        0x008A: "CannotApplyCollectionsManifest",
        0x008B: "CollectionsManifestIsAhead",
        0x008C: "UnknownScope",
        0x008D: "DcpStreamIdInvalid",
        0x00A0: "DurabilityInvalidLevel",
        0x00A1: "DurabilityImpossible",
        0x00A2: "SyncWriteInProgress",
        0x00A3: "SyncWriteAmbiguous",
        0x00A4: "SyncWriteReCommitInProgress",
        0x00A5: "RangeScanCancelled",
        0x00A6: "RangeScanMore",
        0x00A7: "RangeScanComplete",
        0x00A8: "VbUuidNotEqual",
        0x00C0: "SubdocPathEnoent",
        0x00C1: "SubdocPathMismatch",
        0x00C2: "SubdocPathEinval",
        0x00C3: "SubdocPathE2big",
        0x00C4: "SubdocDocE2deep",
        0x00C5: "SubdocValueCantinsert",
        0x00C6: "SubdocDocNotJson",
        0x00C7: "SubdocNumErange",
        0x00C8: "SubdocDeltaEinval",
        0x00C9: "SubdocPathEexists",
        0x00CA: "SubdocValueEtoodeep",
        0x00CB: "SubdocInvalidCombo",
        0x00CC: "SubdocMultiPathFailure",
        0x00CD: "SubdocSuccessDeleted",
        0x00CE: "SubdocXattrInvalidFlagCombo",
        0x00CF: "SubdocXattrInvalidKeyCombo",
        0x00D0: "SubdocXattrUnknownMacro",
        0x00D1: "SubdocXattrUnknownVattr",
        0x00D2: "SubdocXattrCantModifyVattr",
        0x00D3: "SubdocMultiPathFailureDeleted",
        0x00D4: "SubdocInvalidXattrOrder",
        0x00D5: "SubdocXattrUnknownVattrMacro",
        0x00D6: "SubdocCanOnlyReviveDeletedDocuments",
        0x00D7: "SubdocDeletedDocumentCantHaveValue",
        0x00D8: "SubdocFieldNotBinaryValue",
    }
)

#: Statuses of responses with the body of a success, or that continue an exchange.
NOT_ERRORS = frozenset({0x00, 0x21, 0x23, 0xA6, 0xA7, 0xCC, 0xCD, 0xD3})
#: Statuses that say that a later try may succeed: the server warms up or is busy, a rate limit.
TEMPORARY = frozenset({0x0C, 0x25, 0x30, 0x31, 0x33, 0x50, 0x85, 0x86})
APPLICATION_STATUS = 0xFF00  #: from here on, statuses are for applications to define

#: Statuses to test for.
SUCCESS: Final = 0x0000
KEY_ENOENT: Final = 0x0001
KEY_EEXISTS: Final = 0x0002
EINVAL: Final = 0x0004
NOT_MY_VBUCKET: Final = 0x0007
STREAM_NOT_FOUND: Final = 0x000A
OPAQUE_NO_MATCH: Final = 0x000B
AUTH_CONTINUE: Final = 0x0021
ERANGE: Final = 0x0022
ROLLBACK: Final = 0x0023
EACCESS: Final = 0x0024
ENOMEM: Final = 0x0082
NOT_SUPPORTED: Final = 0x0083
ETMPFAIL: Final = 0x0086
UNKNOWN_COLLECTION: Final = 0x0088
UNKNOWN_SCOPE: Final = 0x008C
STREAM_ID_INVALID: Final = 0x008D
