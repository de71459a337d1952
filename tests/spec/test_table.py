"""The table tests the table: it is well-formed, unambiguous, and as complete as the server's own lists."""

from collections.abc import Iterator
from itertools import combinations

import pytest

from dcpdump.record import columns
from dcpdump.spec import MESSAGES, PUSHES, choose, find, names, opcodes, statuses
from dcpdump.spec.connection import AT_CONSUMER, AT_PRODUCER
from dcpdump.spec.field import Bits, Blob, EnumValue, Field, FlatTable, Layout, Message, Part, Repeat, Sender
from dcpdump.spec.names import FEATURE, OPEN_FLAGS, OSO_FLAGS, SNAPSHOT_TYPE, STREAM_END_STATUS, STREAM_FLAGS
from dcpdump.spec.statuses import STATUS
from tests.support.strategies import SHAPES, Shape

#: The client opcodes of the server's include/mcbp/protocol/opcode.h.
CLIENT_OPCODES = """
00:Get 01:Set 02:Add 03:Replace 04:Delete 05:Increment 06:Decrement 07:Quit 08:Flush_Unsupported 09:Getq 0a:Noop
0b:Version 0c:Getk 0d:Getkq 0e:Append 0f:Prepend 10:Stat 11:Setq 12:Addq 13:Replaceq 14:Deleteq 15:Incrementq
16:Decrementq 17:Quitq 18:Flushq_Unsupported 19:Appendq 1a:Prependq 1b:Verbosity 1c:Touch 1d:Gat 1e:Gatq 1f:Hello
20:SaslListMechs 21:SaslAuth 22:SaslStep 23:IoctlGet 24:IoctlSet 25:ConfigValidate 26:ConfigReload 27:AuditPut
28:AuditConfigReload 29:Shutdown 2a:SetBucketThrottleProperties 2b:SetBucketDataLimitExceeded
2c:SetNodeThrottleProperties_Unsupported 2d:SetActiveEncryptionKeys 2e:PruneEncryptionKeys 2f:RegisterAuthToken
30:Rget_Unsupported 31:Rset_Unsupported 32:Rsetq_Unsupported 33:Rappend_Unsupported 34:Rappendq_Unsupported
35:Rprepend_Unsupported 36:Rprependq_Unsupported 37:Rdelete_Unsupported 38:Rdeleteq_Unsupported 39:Rincr_Unsupported
3a:Rincrq_Unsupported 3b:Rdecr_Unsupported 3c:Rdecrq_Unsupported 3d:SetVbucket 3e:GetVbucket 3f:DelVbucket
40:TapConnect_Unsupported 41:TapMutation_Unsupported 42:TapDelete_Unsupported 43:TapFlush_Unsupported
44:TapOpaque_Unsupported 45:TapVbucketSet_Unsupported 46:TapCheckpointStart_Unsupported
47:TapCheckpointEnd_Unsupported 48:GetAllVbSeqnos 49:GetEx 4a:GetExReplica 4b:MutateWithMeta 50:DcpOpen
51:DcpAddStream 52:DcpCloseStream 53:DcpStreamReq 54:DcpGetFailoverLog 55:DcpStreamEnd 56:DcpSnapshotMarker
57:DcpMutation 58:DcpDeletion 59:DcpExpiration 5a:DcpFlush_Unsupported 5b:DcpSetVbucketState 5c:DcpNoop
5d:DcpBufferAcknowledgement 5e:DcpControl 5f:DcpSystemEvent 60:DcpPrepare 61:DcpSeqnoAcknowledged 62:DcpCommit
63:DcpAbort 64:DcpSeqnoAdvanced 65:DcpOsoSnapshot 66:DcpCacheTransfer 67:DcpCacheTransferEnd
70:GetFusionStorageSnapshot 71:ReleaseFusionStorageSnapshot 72:MountFusionVbucket 73:UnmountFusionVbucket
74:SyncFusionLogstore 75:StartFusionUploader 76:StopFusionUploader 77:DeleteFusionNamespace 78:GetFusionNamespaces
79:CreateFusionNamespace 80:StopPersistence 81:StartPersistence 82:SetParam 83:GetReplica 84:SetChronicleAuthToken
85:CreateBucket 86:DeleteBucket 87:ListBuckets 89:SelectBucket 8a:PauseBucket 8b:ResumeBucket
8c:ValidateBucketConfig 91:ObserveSeqno 92:Observe 93:EvictKey 94:GetLocked 95:UnlockKey 96:GetFailoverLog
97:LastClosedCheckpoint_Unsupported 9e:DeregisterTapClient_Unsupported 9f:ResetReplicationChain_Unsupported
a0:GetMeta a1:GetqMeta a2:SetWithMeta a3:SetqWithMeta a4:AddWithMeta a5:AddqWithMeta a6:SnapshotVbStates_Unsupported
a7:VbucketBatchCount_Unsupported a8:DelWithMeta a9:DelqWithMeta aa:CreateCheckpoint_Unsupported
ac:NotifyVbucketUpdate_Unsupported ad:EnableTraffic ae:DisableTraffic af:Ifconfig b0:ChangeVbFilter_Unsupported
b1:CheckpointPersistence_Unsupported b2:ReturnMeta b3:CompactDb b4:SetClusterConfig b5:GetClusterConfig
b6:GetRandomKey b7:SeqnoPersistence b8:GetKeys b9:CollectionsSetManifest ba:CollectionsGetManifest
bb:CollectionsGetID bc:CollectionsGetScopeID c1:SetDriftCounterState_Unsupported c2:GetAdjustedTime_Unsupported
c5:SubdocGet c6:SubdocExists c7:SubdocDictAdd c8:SubdocDictUpsert c9:SubdocDelete ca:SubdocReplace
cb:SubdocArrayPushLast cc:SubdocArrayPushFirst cd:SubdocArrayInsert ce:SubdocArrayAddUnique cf:SubdocCounter
d0:SubdocMultiLookup d1:SubdocMultiMutation d2:SubdocGetCount d3:SubdocReplaceBodyWithXattr da:RangeScanCreate
db:RangeScanContinue dc:RangeScanCancel e0:PrepareSnapshot e1:ReleaseSnapshot e2:DownloadSnapshot e3:GetFileFragment
f0:Scrub_Unsupported f1:IsaslRefresh f2:SslCertsRefresh_Unsupported f3:GetCmdTimer f4:SetCtrlToken f5:GetCtrlToken
f6:UpdateExternalUserPermissions f7:RbacRefresh f8:AuthProvider fb:DropPrivilege fc:AdjustTimeofday
fd:EwouldblockCtl fe:GetErrorMap ff:Invalid
"""
#: And its server opcodes.
SERVER_OPCODES = """
01:ClustermapChangeNotification 02:Authenticate 03:ActiveExternalUsers 04:GetAuthorization
"""
#: status.h, without the range that is left to applications.
STATUSES = """
00:Success 01:KeyEnoent 02:KeyEexists 03:E2big 04:Einval 05:NotStored 06:DeltaBadval 07:NotMyVbucket 08:NoBucket
09:Locked 0a:DcpStreamNotFound 0b:OpaqueNoMatch 0c:EWouldThrottle 0d:EConfigOnly 0e:NotLocked 0f:CasValueInvalid
1f:AuthStale 20:AuthError 21:AuthContinue 22:Erange 23:Rollback 24:Eaccess 25:NotInitialized
26:EncryptionKeyNotAvailable 27:ChecksumMismatch 28:ExpiryOverflow 29:LockExpiryOverflow
30:RateLimitedNetworkIngress 31:RateLimitedNetworkEgress 32:RateLimitedMaxConnections 33:RateLimitedMaxCommands
35:BucketSizeLimitExceeded 36:BucketResidentRatioTooLow 37:BucketDataSizeTooBig 38:BucketDiskSpaceTooLow
50:BucketPaused 51:Cancelled 80:UnknownFrameInfo 81:UnknownCommand 82:Enomem 83:NotSupported 84:Einternal 85:Ebusy
86:Etmpfail 87:XattrEinval 88:UnknownCollection 8a:CannotApplyCollectionsManifest 8c:UnknownScope
8d:DcpStreamIdInvalid a0:DurabilityInvalidLevel a1:DurabilityImpossible a2:SyncWriteInProgress a3:SyncWriteAmbiguous
a4:SyncWriteReCommitInProgress a5:RangeScanCancelled a6:RangeScanMore a7:RangeScanComplete a8:VbUuidNotEqual
c0:SubdocPathEnoent c1:SubdocPathMismatch c2:SubdocPathEinval c3:SubdocPathE2big c4:SubdocDocE2deep
c5:SubdocValueCantinsert c6:SubdocDocNotJson c7:SubdocNumErange c8:SubdocDeltaEinval c9:SubdocPathEexists
ca:SubdocValueEtoodeep cb:SubdocInvalidCombo cc:SubdocMultiPathFailure cd:SubdocSuccessDeleted
ce:SubdocXattrInvalidFlagCombo cf:SubdocXattrInvalidKeyCombo d0:SubdocXattrUnknownMacro d1:SubdocXattrUnknownVattr
d2:SubdocXattrCantModifyVattr d3:SubdocMultiPathFailureDeleted d4:SubdocInvalidXattrOrder
d5:SubdocXattrUnknownVattrMacro d6:SubdocCanOnlyReviveDeletedDocuments d7:SubdocDeletedDocumentCantHaveValue
d8:SubdocFieldNotBinaryValue
"""
#: feature.h.
FEATURES = """
01:Invalid 02:TLS 03:TcpNoDelay 04:MUTATION_SEQNO 05:TCPDELAY_Unsupported 06:XATTR 07:XERROR 08:SELECT_BUCKET
09:Invalid2 0a:SNAPPY 0b:JSON 0c:Duplex 0d:ClustermapChangeNotification 0e:UnorderedExecution 0f:Tracing
10:AltRequestSupport 11:SyncReplication 12:Collections 13:SnappyEverywhere 14:PreserveTtl 15:VAttr 16:Invalid3
17:SubdocCreateAsDeleted 18:SubdocDocumentMacroSupport 19:SubdocReplaceBodyWithXattr 1a:ReportUnitUsage
1b:NonBlockingThrottlingMode 1c:SubdocReplicaRead 1d:GetClusterConfigWithKnownVersion
1e:DedupeNotMyVbucketClustermap 1f:ClustermapChangeNotificationBrief 20:SubdocAllowsAccessOnMultipleXattrKeys
21:SubdocBinaryXattr 22:RangeScanIncludeXattr 23:SubdocAllowReplicaReadOnDeletedDocs 24:GetRandomKeyIncludeXattr
25:MutateWithMeta 26:DcpSkipDeletesInInitialBackfill
"""
#: Names of the server's list that we spell differently, and why.
RENAMED = {
    "UPDATEEXTERNALUSERPERMISSIONS": "UPDATEUSERPERMISSIONS",  # as its printed form has it
    "DROPPRIVILEGE": "DROPPRIVILEGES",
    "EWOULDBLOCKCTL": "EWBCTL",
}
#: Names that mean different things in different messages. Their width is the same everywhere.
OVERLOADED = {"flags": "every message with flags has its own; of documents they are the client's bytes, without names"}
STREAM_END_REASONS = "Ok Closed StateChanged Disconnected Slow BackfillFail Rollback FilterEmpty LostPrivileges"

ALL = [*MESSAGES.values(), *PUSHES.values()]
DCP = [message for message in ALL if message.dcp]


def listed(text: str) -> dict[int, str]:
    """Parse "50:DcpOpen 51:DcpAddStream …"."""
    return {int(number, 16): name for number, name in (entry.split(":") for entry in text.split())}


def plain(name: str) -> str:
    """Return a name as letters only, so that DcpAddStream and DCP_ADD_STREAM are one."""
    return name.removesuffix("_Unsupported").replace("_", "").upper()


def layouts() -> Iterator[tuple[Message, Layout]]:
    for message in ALL:
        for layout in message.layouts:
            yield message, layout


def parts(layout: Layout) -> tuple[Part, ...]:
    return (*layout.extras, *layout.parts)


def leaves(part: Part) -> Iterator[Field | Blob]:
    if isinstance(part, (Repeat, FlatTable)):
        yield from part.fields
    else:
        yield part


def fields() -> Iterator[tuple[str, Field]]:
    """Yield the fields of all layouts that are numbers, each with the place where it stands."""
    for message, layout in layouts():
        for part in parts(layout):
            for leaf in leaves(part):
                if isinstance(leaf, Field):
                    yield f"{message.name} {layout.version} {leaf.name}", leaf


def test_every_opcode_of_the_server_is_an_entry_under_its_name() -> None:
    for table, text in ((MESSAGES, CLIENT_OPCODES), (PUSHES, SERVER_OPCODES)):
        theirs = {number: plain(name) for number, name in listed(text).items()}
        ours = {number: plain(message.name) for number, message in table.items()}
        assert ours == {number: RENAMED.get(name, name) for number, name in theirs.items()}


def test_every_status_and_feature_of_the_server_has_its_name() -> None:
    assert listed(STATUSES).items() <= STATUS.names.items()
    assert listed(FEATURES) == dict(FEATURE.names)
    assert STREAM_END_STATUS.names == dict(enumerate(STREAM_END_REASONS.split()))


def test_opcodes_and_names_are_keys_of_their_table() -> None:
    for table in (MESSAGES, PUSHES):
        assert [message.opcode for message in table.values()] == list(table)
        assert list(table) == sorted(table)
        assert len({message.name for message in table.values()}) == len(table)
    assert find(0x57) is MESSAGES[0x57]
    assert find(0x01, server=True) is PUSHES[0x01]
    assert find(0x99).name == "UNKNOWN"


@pytest.mark.parametrize("message", ALL, ids=lambda message: message.name)
def test_no_two_layouts_of_a_message_answer_to_the_same_facts(message: Message) -> None:
    for family in (message.request, message.response):
        for one, other in combinations(family, 2):
            facts = {"extras_length": one.extras_length, **one.when}
            others = {"extras_length": other.extras_length, **other.when}
            assert any(facts[fact] != others[fact] for fact in facts.keys() & others.keys()), (
                f"{one.version} and {other.version} may both fit"
            )


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.message.dcp], ids=str)
def test_a_layout_is_chosen_by_its_own_facts(shape: Shape) -> None:
    message, layout, response = shape
    extras = b"".join(layout.when.get(field.name, 0).to_bytes(field.width, "big") for field in layout.extras)
    length = layout.when.get("value_length", layout.value_length or 0)
    chosen = choose(
        message,
        response=response,
        status=layout.when.get("status", 0x04 if layout.version == "error" else 0),
        extras=extras,
        extras_length=len(extras),
        value_length=length,
    )
    assert chosen == (layout, "")


def test_what_distinguishes_layouts_is_length_status_or_a_field_of_the_extras() -> None:
    for message, layout in layouts():
        extras = {field.name: field for field in layout.extras}
        known = {"extras_length": layout.extras_length, "value_length": layout.value_length}
        for fact, value in layout.when.items():
            place = f"{message.name} {layout.version}: {fact}"
            assert known[fact] == value if fact in known else fact == "status" or fact in extras, place
        assert not layout.tail or extras[layout.tail].width == 2


def test_one_column_name_has_one_width_and_one_meaning_everywhere() -> None:
    seen: dict[str, set[tuple[object, ...]]] = {}
    for _, layout in layouts():
        for part in parts(layout):
            if isinstance(part, Repeat):
                seen.setdefault(part.name, set()).add(("list", *(leaf.name for leaf in part.fields)))
                continue
            for leaf in leaves(part):
                names = leaf.names if isinstance(leaf, Field) else None
                meaning = "overloaded" if leaf.name in OVERLOADED else (type(names), getattr(names, "names", None))
                kind = (leaf.width, leaf.identity, leaf.seqno) if isinstance(leaf, Field) else ("bytes",)
                if (*kind, repr(meaning)) not in seen.setdefault(leaf.name, set()):
                    seen[leaf.name].add((*kind, repr(meaning)))
    assert {name: kinds for name, kinds in seen.items() if len(kinds) > 1} == {}
    assert len(columns()) == len(set(columns()))


def test_fields_have_machine_widths_and_names_that_fit_them() -> None:
    for place, field in fields():
        assert field.width in (1, 2, 4, 8), place
        assert not (field.seqno or field.identity) or field.width == 8, place
        names = getattr(field.names, "names", {})
        assert all(0 <= value < 1 << (8 * field.width) for value in names), place
        assert len(set(names.values())) == len(names), place
        if isinstance(field.names, Bits):
            assert all(bit.bit_count() == 1 for bit in names), place
            assert field.names.old & sum(names) == field.names.old, place
        # templates of tables use the bytes that are no ASCII for digits
        assert "".join([place, field.label, *names.values()]).isascii(), place


def test_labels_and_names_are_unique_within_a_layout() -> None:
    for message, layout in layouts():
        every = [leaf for part in parts(layout) for leaf in leaves(part)]
        for texts in ([field.label for field in every], [field.name for field in every]):
            assert len(texts) == len(set(texts)), f"{message.name} {layout.version}"


def test_the_size_of_bytes_in_a_repeated_group_is_a_field_before_them() -> None:
    for _, layout in layouts():
        for part in parts(layout):
            if isinstance(part, Repeat):
                before: set[str] = set()
                for leaf in part.fields:
                    assert isinstance(leaf, Field) or leaf.size in before
                    before.add(leaf.name)


@pytest.mark.parametrize("message", DCP, ids=lambda message: message.name)
def test_every_dcp_message_says_where_it_is_specified_and_how_it_is_answered(message: Message) -> None:
    assert message.source.startswith("commands/")
    assert message.since
    assert message.answered
    assert message.replies is not message.answered.startswith(("only", "never"))
    assert message.request
    assert message.response
    assert all(status in STATUS.names for status, _ in message.errors)


def test_a_consumer_refuses_each_message_of_a_stream_that_is_not_its_own() -> None:
    never_taken, end = {"DCP_SEQNO_ADVANCED", "DCP_OSO_SNAPSHOT"}, {"DCP_STREAM_END": {0x01, 0x0A}}
    for message in DCP:
        if message.streamed and message.sender is Sender.PRODUCER and message.name not in never_taken:
            statuses = [status for status, _ in message.errors]
            assert len(set(statuses)) == len(statuses)
            assert {0x01, 0x02, 0x0A, 0x0B} & set(statuses) == end.get(message.name, {0x01, 0x02, 0x0A, 0x0B})


def test_where_the_table_says_what_values_mean_it_says_it_of_all_of_them() -> None:
    explained = [field.names for _, field in fields() if isinstance(field.names, (Bits, EnumValue))]
    explained = [names for names in explained if names.meanings]
    assert all(names.meanings.keys() == names.names.keys() for names in explained)
    assert {id(names) for names in explained} == {
        id(names) for names in (OPEN_FLAGS, STREAM_FLAGS, SNAPSHOT_TYPE, OSO_FLAGS, STREAM_END_STATUS)
    }


#: What neither closes a connection: a failover log is given by both sides, the rest answer with a status.
NEVER_CLOSE = {
    *("DCP_OPEN", "DCP_CLOSE_STREAM", "DCP_GET_FAILOVER_LOG"),
    *("DCP_FLUSH", "DCP_SEQNO_ADVANCED", "DCP_OSO_SNAPSHOT"),
}


@pytest.mark.parametrize("message", DCP, ids=lambda message: message.name)
def test_a_dcp_message_says_where_it_closes_the_connection(message: Message) -> None:
    expected = {Sender.PRODUCER: AT_PRODUCER, Sender.MANAGER: AT_PRODUCER, Sender.CONSUMER: AT_CONSUMER}
    sides = tuple(text for text in message.disconnects if text in (AT_PRODUCER, AT_CONSUMER))
    assert sides == (() if message.name in NEVER_CLOSE else (expected[message.sender],))


def test_every_message_with_layouts_has_its_opcode_by_name() -> None:
    named = {name: number for name, number in vars(opcodes).items() if name.isupper()}
    assert named == {message.name: message.opcode for message in MESSAGES.values() if message.known}
    assert all(type(number) is int for number in named.values()), "loops compare many: members of an enum are slower"


#: Names of constants, where the table of names has others.
SPELLED = {
    "COLLECTIONS_PREVIEW": "collections",
    "DELETE_TIMES": "include-delete-times",
    "OSO_START": "start",
    "UNDERLYING_DATATYPE": "no-value-with-underlying-datatype",
    "DELETED_XATTRS": "include-deleted-user-xattrs",
    "SKIP_DELETES": "skip-deletes-in-initial-backfill",
    "ACTIVE_ONLY": "active-vb-only",
    "OSO_END": "end",
    "STRICT_UUID": "strict-vbuuid",
    "IGNORE_PURGED": "ignore-purged-tombstones",
    "DUPLICATES": "may-contain-duplicates",
}
CONSTANTS: dict[Bits | EnumValue, str] = {
    names.DATATYPE: "JSON SNAPPY XATTR",
    names.OPEN_FLAGS: "PRODUCER NOTIFIER INCLUDE_XATTRS NO_VALUE COLLECTIONS_PREVIEW DELETE_TIMES "
    "UNDERLYING_DATATYPE DELETED_XATTRS SKIP_DELETES",
    names.STREAM_FLAGS: "TAKEOVER DISK_ONLY TO_LATEST ACTIVE_ONLY STRICT_UUID FROM_LATEST IGNORE_PURGED CACHE_TRANSFER",
    names.SNAPSHOT_TYPE: "MEMORY DISK CHECKPOINT ACKNOWLEDGE HISTORY DUPLICATES",
    names.OSO_FLAGS: "OSO_START OSO_END",
    names.STREAM_END_STATUS: "OK CLOSED FILTER_EMPTY",
    names.VBUCKET_STATE: "ACTIVE PENDING",
    names.FEATURE: "COLLECTIONS",
}


def test_constants_that_programs_test_for_have_the_numbers_of_their_names() -> None:
    of_statuses = {name: number for name, number in vars(statuses).items() if isinstance(number, int)}
    assert of_statuses.pop("APPLICATION_STATUS") not in STATUS.names
    assert len(of_statuses) == 17
    for name, number in of_statuses.items():
        assert plain(STATUS.names[number]).removeprefix("DCP") == plain(name)
    for table, text in CONSTANTS.items():
        for name in text.split():
            found = table.names[getattr(names, name)]
            assert found == SPELLED.get(name) or found.replace("-", "_").upper() in (name, name.replace("_", ""))
