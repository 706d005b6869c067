"""What hypothesis needs to know of the nouns."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from holdfast import chain
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.content import (
    BlobRef,
    Body,
    Data,
    File,
    Image,
    Opaque,
    Part,
    Role,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.model.entries.commands import AppendEntries, DeleteEntries, EntryDraft, JsonDraft
from holdfast.model.entries.entry import BytesBody
from holdfast.model.entries.events import EntryAppended, EntryChunksStored
from holdfast.model.events import EVENTS, Event
from holdfast.model.facts.commands import DecideProposal, ProposeFacts
from holdfast.model.frames.commands import (
    CancelTokens,
    CommitTokens,
    GrantTokens,
    PopFrame,
    PushFrame,
    ReissueToken,
    ReserveTokens,
    ResumeActor,
    ResumeFrame,
    RevokeToken,
    SuspendFrame,
    TimeOutFrame,
    UpdateFrame,
)
from holdfast.model.frames.events import (
    ActorResumed,
    BudgetCancelled,
    BudgetCommitted,
    BudgetGranted,
    BudgetReserved,
    BudgetUsed,
    FramePopped,
    FramePushed,
    FrameResumed,
    FrameSuspended,
    FrameUpdated,
    ResultAdded,
    TokenReissued,
    TokenRevoked,
)
from holdfast.model.frames.frames import ENDINGS, FrameLimits
from holdfast.model.history.commands import (
    AddHandle,
    CompactContext,
    MoveHandle,
    RedactContext,
    ReplaceHandle,
    RestoreMessages,
    Summarize,
    WithdrawMessages,
)
from holdfast.model.history.events import (
    ContextCompacted,
    ContextRedacted,
    HandleAdded,
    HandleMoved,
    HandleReplaced,
    MessagesRestored,
    MessagesWithdrawn,
    SummaryRecorded,
)
from holdfast.model.history.handles import HANDLE_KINDS, PRIORITY_SCORES
from holdfast.model.history.plans import (
    AutoCompact,
    BoundaryReason,
    Collapse,
    Fold,
    Level,
    Op,
    PieceForm,
    PlanFigures,
    Redaction,
    RedactionReason,
    Reduction,
    Residency,
    Snip,
    Spool,
    SummarizeOldest,
    Tier,
    TimeDecayMicro,
    TruncateAt,
)
from holdfast.model.inputs import DecisionInput, FrameInput
from holdfast.model.log import GENESIS, Append, NewEvent, StoredEvent, StreamHead, StreamWrite
from holdfast.model.names import Scope, StreamId
from holdfast.model.packs.commands import RecordPack
from holdfast.model.packs.events import PackRecorded
from holdfast.model.sessions.commands import (
    AcknowledgeOffload,
    BranchSession,
    ClearEnvironment,
    ClearWorking,
    CloseCalls,
    CloseSession,
    CreateSession,
    DestroySession,
    EndTurn,
    ErasePayloads,
    ForkSession,
    NewMessage,
    ObserveEnvironment,
    RecordMessages,
    RecordModelUses,
    RefreshIdentity,
    RenewTurn,
    ResetSession,
    SetWorking,
    StartCall,
    TakeTurn,
    TimeOutSession,
)
from holdfast.model.sessions.events import (
    CallStarted,
    EnvironmentCleared,
    EnvironmentObserved,
    EvidenceKept,
    IdentityRefreshed,
    MessageRecorded,
    ModelUsed,
    OffloadAcknowledged,
    PayloadsErased,
    SessionBranched,
    SessionClosed,
    SessionCreated,
    SessionDestroyed,
    SessionForked,
    SessionReset,
    SessionTimedOut,
    TurnAwaited,
    TurnEnded,
    TurnRenewed,
    TurnTaken,
    WorkingCleared,
    WorkingSet,
)
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.model_uses import ModelUse
from holdfast.model.state import SessionState
from tests.core import fact_strategies, situation_strategies
from tests.core.json_strategies import digests, json_objects, json_values, names, texts, whole_numbers
from tests.core.struct_strategies import structs

scopes = st.builds(Scope, names, names, names, st.none() | names)
streams = scopes.map(lambda scope: scope.stream)
keys = fact_strategies.keys

refs = st.builds(
    BlobRef,
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.integers(0, limits.BLOB_BYTES),
    st.none() | names,
)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts),
    st.builds(Data, json_values),
    st.builds(Body, refs, texts),
    st.builds(lambda ref: Image(ref=ref), refs),
    st.builds(lambda url: Image(url=url), texts),
    st.builds(File, refs, st.none() | names),
    st.builds(Opaque, names, texts | refs),
)
contents = st.lists(parts, min_size=1, max_size=3).map(tuple)
roles = st.sampled_from(get_args(Role))
reasons = texts.filter(bool)
seqs = st.lists(st.integers(1, 50), min_size=1, max_size=5).map(tuple)

tokens = st.integers(0, 50)
messages = st.builds(MessageRecorded, role=roles, content=contents, tokens=st.integers(0, 2**40), counter=names)
calls = st.builds(ToolCall, id=names, name=names, args=json_objects | texts, provider_id=st.none() | names)
results = st.builds(ToolResult, tool_call_id=names, content=contents, is_error=st.booleans())
usages = st.builds(Usage, *[st.integers(0, 2**40)] * 5)
model_uses = st.builds(ModelUse, purpose=names, model=names, usage=usages, prompt=names)
sources = st.builds(Source, *[st.none() | names] * 4)

frame_ids = st.integers(1, 9).map("f{}".format)
some_frames = st.lists(frame_ids, max_size=3).map(tuple)
hexes = digests.map(bytes.hex)
times = st.none() | whole_numbers
bounds = st.builds(
    FrameLimits, max_subframe_depth=st.integers(0, 64), max_tool_calls=st.none() | whole_numbers, timeout_us=times
)
endings = st.sampled_from(ENDINGS)
kinds = st.sampled_from(HANDLE_KINDS)
priorities = st.sampled_from(list(PRIORITY_SCORES))
residencies = st.sampled_from(get_args(Residency))
tiers = st.sampled_from(get_args(Tier))
ops: st.SearchStrategy[Op] = st.one_of(
    st.builds(Spool, names),
    st.builds(Snip, st.sampled_from([0.1, 0.5]), tokens),
    st.builds(TimeDecayMicro, tokens, tokens),
    st.builds(Collapse, tokens),
    st.builds(AutoCompact, tokens, tokens),
    st.builds(SummarizeOldest, tokens),
    st.builds(TruncateAt, tokens),
)
pieces = st.builds(
    Reduction,
    message=st.integers(1, 60),
    piece=st.integers(0, 3),
    form=st.sampled_from(get_args(PieceForm)),
    head=tokens,
    tail=tokens,
    tokens=tokens,
    saved=st.integers(-50, 50),
    size=tokens,
    digest=hexes,
    ref=st.none() | refs,
    tier=tiers,
    source=st.none() | names,
)
some_pieces = st.lists(pieces, max_size=3).map(tuple)
folds = st.builds(
    Fold, first=tokens, last=tokens, messages=seqs, summaries=seqs, count=tokens, text=texts, tokens=tokens
)
figures = st.builds(
    PlanFigures, before=tokens, after=tokens, window=tokens, cold=st.booleans(), calls=tokens, grown=tokens
)
boundary: dict[str, st.SearchStrategy[Any]] = {
    "frame": st.none() | frame_ids,
    "policy": names,
    "why": st.sampled_from(get_args(BoundaryReason)),
    "ops": st.lists(ops, max_size=2).map(tuple),
    "reduced": some_pieces,
    "fold": st.none() | folds,
    "first_changed": st.none() | tokens,
    "original": tokens,
    "final": tokens,
    "level": st.sampled_from(get_args(Level)),
    "target_met": st.booleans(),
    "figures": figures,
}
redaction: dict[str, st.SearchStrategy[Any]] = {
    "frame": st.none() | frame_ids,
    "redacted": st.lists(
        st.builds(
            Redaction,
            at=tokens,
            facts=st.lists(st.sampled_from(("0:k1", "1:k22", "k3")), max_size=2).map(tuple),
            mark=st.sampled_from(("", "0123abcd", "mark")),
        ),
        max_size=3,
    ).map(tuple),
    "why": st.sampled_from(get_args(RedactionReason)),
    "first_changed": st.none() | tokens,
    "original": tokens,
    "final": tokens,
}
pack: dict[str, st.SearchStrategy[Any]] = {
    "frame": st.none() | frame_ids,
    "at": tokens,
    "context_hash": hexes,
    "budget": tokens,
    "used": tokens,
    "level": st.sampled_from(get_args(Level)),
    "query": texts,
    "shown": st.lists(st.tuples(tokens, tokens), max_size=3).map(tuple),
    "manifest": refs | st.binary(max_size=9),
    "brief": st.none() | refs,
}
view_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(PackRecorded, **pack, asked=tokens, reply=tokens, reservation=st.none() | names),
    st.builds(ContextCompacted, **boundary, counter=names),
    st.builds(ContextRedacted, **redaction, counter=names),
    st.builds(HandleMoved, frame=st.none() | frame_ids, residency=residencies, piece=pieces),
    st.builds(
        HandleReplaced,
        frame=frame_ids,
        handle=names,
        kind=kinds,
        priority=priorities,
        title=texts,
        source=st.none() | names,
        content=st.none() | contents,
        tokens=tokens,
        counter=names,
        digest=hexes,
        at=tokens,
        metadata=json_objects,
        residency=residencies,
        tier=st.none() | tiers,
        ref=st.none() | refs,
        size=tokens,
    ),
)
frame_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        FramePushed,
        goal=names,
        inputs=json_values,
        parent=st.none() | frame_ids,
        budget=whole_numbers,
        limits=bounds,
        deadline_us=times,
    ),
    st.builds(
        FrameUpdated, frame=frame_ids, goal=st.none() | names, inputs=json_values, context_hash=st.none() | names
    ),
    st.builds(
        FramePopped,
        frame=frame_ids,
        status=endings,
        summary=texts,
        result=contents,
        cascade=some_frames,
        used=whole_numbers,
    ),
    st.builds(
        FrameSuspended,
        frame=frame_ids,
        reason=reasons,
        digest=hexes,
        by=names,
        expires_us=times,
        resumable_by=st.lists(names, max_size=3).map(tuple),
        cascade=some_frames,
    ),
    st.builds(FrameResumed, frame=frame_ids, by=names),
    st.builds(TokenReissued, frame=frame_ids, digest=hexes, by=names, expires_us=times),
    st.builds(TokenRevoked, frame=frame_ids, reason=reasons),
    st.builds(
        HandleAdded,
        frame=frame_ids,
        kind=kinds,
        priority=priorities,
        title=texts,
        source=st.none() | names,
        content=contents,
        tokens=tokens,
        counter=names,
        digest=hexes,
        metadata=json_objects,
    ),
    st.builds(
        ResultAdded,
        frame=frame_ids,
        child=frame_ids,
        status=endings,
        at=tokens,
        title=texts,
        tokens=tokens,
        counter=names,
        digest=hexes,
    ),
    st.builds(BudgetReserved, frame=frame_ids, purpose=names, amount=whole_numbers),
    st.builds(BudgetCommitted, frame=frame_ids, reservation=names, tokens=whole_numbers, usage=st.none() | usages),
    st.builds(BudgetCancelled, frame=frame_ids, reservation=names),
    st.builds(BudgetUsed, frame=frame_ids, tokens=whole_numbers, usage=st.none() | usages),
    st.builds(BudgetGranted, frame=frame_ids, amount=whole_numbers),
    st.builds(CallStarted, call=names, key=names, attempt=tokens, frame=st.none() | frame_ids, turn=tokens),
    st.builds(ActorResumed, frames=some_frames, pending=st.dictionaries(names, tokens, max_size=3)),
)
identities = st.builds(
    Identity,
    user_name=texts,
    user_id=texts,
    authority=names,
    department=texts,
    organization=texts,
    permissions=st.lists(names, max_size=3, unique=True).map(sorted).map(tuple),
)
ledger_keys = st.lists(st.tuples(st.sampled_from(["user", "project"]), names), max_size=3, unique=True).map(tuple)
items = st.sampled_from(["draft", "timezone", "location", "weather"]) | names
some_items = st.lists(items, max_size=3, unique=True).map(sorted).map(tuple)
layer_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(IdentityRefreshed, identity=identities),
    st.builds(WorkingSet, item=items, value=json_values, expires_us=times),
    st.builds(WorkingCleared, items=some_items),
    st.builds(EnvironmentObserved, item=items, value=json_values, observed_us=whole_numbers, expires_us=times),
    st.builds(EnvironmentCleared, items=some_items),
    st.builds(TurnTaken, owner=names, until_us=whole_numbers, frame=st.none() | frame_ids, ticket=tokens),
    st.builds(TurnRenewed, number=tokens, until_us=whole_numbers, frame=st.none() | frame_ids),
    st.builds(TurnEnded, number=tokens, frame=st.none() | frame_ids),
    st.builds(TurnAwaited, owner=names, until_us=whole_numbers, frame=st.none() | frame_ids),
)
other_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        SessionCreated,
        metadata=json_objects,
        idle_timeout_us=whole_numbers,
        identity=identities,
        ledgers=ledger_keys,
    ),
    messages,
    st.builds(ModelUsed, purpose=names, model=names, prompt=names, usage=usages, frame=st.none() | frame_ids),
    st.builds(
        MessageRecorded,
        role=roles,
        content=contents,
        tool_calls=st.lists(calls, max_size=3).map(tuple),
        tool_results=st.lists(results, max_size=3).map(tuple),
        tokens=st.integers(0, 2**40),
        counter=names,
        usage=st.none() | usages,
        source=st.none() | sources,
        metadata=json_objects,
        closing=st.booleans(),
        frame=st.none() | frame_ids,
    ),
    st.builds(EvidenceKept, reason=reasons, role=roles, tool_results=st.tuples(results), tokens=tokens, counter=names),
    st.builds(
        SummaryRecorded,
        first=tokens,
        last=tokens,
        messages=tokens,
        text=texts,
        tokens=tokens,
        counter=names,
        frame=st.none() | frame_ids,
    ),
    st.builds(SessionClosed, reason=reasons),
    st.builds(SessionReset, reason=reasons, keep_system=st.booleans()),
    st.builds(SessionTimedOut, idle_us=whole_numbers),
    st.builds(SessionDestroyed, reason=reasons, offload=st.booleans()),
    st.builds(OffloadAcknowledged, entry=tokens, why=names, first=tokens, last=tokens, at_us=whole_numbers),
    st.builds(PayloadsErased, seqs=seqs, reason=texts),
    st.builds(SessionForked, session=keys, parent=keys, cut=tokens, lineage=fact_strategies.lineages),
    st.builds(SessionBranched, fork=keys, cut=tokens),
)
any_events: st.SearchStrategy[Event] = st.sampled_from(list(EVENTS.values())).flatmap(structs)
"""Events of all types, also of those that are not named above."""
entry_drafts = st.builds(
    EntryDraft,
    kind=names,
    key=names,
    parent=st.none() | names,
    body=st.builds(JsonDraft, value=json_values) | structs(BytesBody),
    digest=hexes,
    size=tokens,
)
"""Without parts: a command brings the chunks that its parts name."""
entry_events = structs(EntryAppended) | structs(EntryChunksStored)
withdrawal_events = structs(MessagesWithdrawn) | structs(MessagesRestored)
events = st.one_of(
    entry_events,
    withdrawal_events,
    other_events,
    frame_events,
    view_events,
    layer_events,
    fact_strategies.events,
    situation_strategies.events,
    any_events,
)


def commands(scope: st.SearchStrategy[Scope] = scopes) -> st.SearchStrategy[SessionCommand]:
    plain = st.builds(NewMessage, role=roles, content=contents, metadata=json_objects)
    return (
        _frame_commands(scope)
        | _layer_commands(scope)
        | st.builds(AppendEntries, scope=scope, entries=st.tuples(entry_drafts))
        | st.builds(DeleteEntries, scope=scope, keys=st.tuples(names), reason=reasons)
        | situation_strategies.commands(scope)
        | st.builds(ProposeFacts, scope=scope, detector=names, message=tokens, proposals=fact_strategies.proposed)
        | st.builds(DecideProposal, scope=scope, proposal=names, accepted=st.booleans())
        | st.one_of(
            st.builds(
                CreateSession,
                scope=scope,
                metadata=json_objects,
                identity=st.none() | identities,
                ledgers=ledger_keys,
            ),
            st.builds(
                RecordMessages,
                scope=scope,
                messages=st.tuples(plain),
                as_found=st.booleans(),
                frame=st.none() | frame_ids,
            ),
            st.builds(RecordModelUses, scope=scope, uses=st.tuples(model_uses), frame=st.none() | frame_ids),
            st.builds(ForkSession, scope=scope, parent=scopes, cut=tokens),
            st.builds(BranchSession, scope=scope, fork=scopes, cut=tokens),
            st.builds(CloseCalls, scope=scope, reason=reasons),
            st.builds(Summarize, scope=scope, first=tokens, last=tokens, version=tokens, text=texts),
            st.builds(CompactContext, scope=scope, version=tokens, **boundary),
            st.builds(RedactContext, scope=scope, version=tokens, **redaction),
            st.builds(RecordPack, scope=scope, **pack, reply=st.integers(0, 2)),
            st.builds(MoveHandle, scope=scope, frame=st.none() | frame_ids, residency=residencies, piece=pieces),
            st.builds(WithdrawMessages, scope=scope, after=st.none() | tokens, reason=texts),
            st.builds(RestoreMessages, scope=scope, withdrawal=tokens, reason=texts),
            st.builds(ResetSession, scope=scope, reason=reasons, keep_system=st.booleans()),
            st.builds(CloseSession, scope=scope, reason=reasons),
            st.builds(TimeOutSession, scope=scope),
            st.builds(DestroySession, scope=scope, reason=reasons, offload=st.booleans()),
            st.builds(AcknowledgeOffload, scope=scope, entry=tokens),
            st.builds(ErasePayloads, scope=scope, seqs=seqs, reason=texts),
        )
    )


def _layer_commands(scope: st.SearchStrategy[Scope]) -> st.SearchStrategy[SessionCommand]:
    return st.one_of(
        st.builds(RefreshIdentity, scope=scope, identity=identities),
        st.builds(TakeTurn, scope=scope, owner=names, lease_us=whole_numbers, wait_us=whole_numbers, ticket=tokens),
        st.builds(RenewTurn, scope=scope, number=tokens, lease_us=whole_numbers),
        st.builds(EndTurn, scope=scope, number=tokens),
        st.builds(SetWorking, scope=scope, item=items, value=json_values, ttl_us=times),
        st.builds(ClearWorking, scope=scope, items=some_items),
        st.builds(
            ObserveEnvironment,
            scope=scope,
            item=items,
            value=json_values,
            observed_us=times,
            ttl_us=times,
            expires_us=times,
        ),
        st.builds(ClearEnvironment, scope=scope, items=some_items),
    )


def _frame_commands(scope: st.SearchStrategy[Scope]) -> st.SearchStrategy[SessionCommand]:
    own = {"scope": scope, "frame": frame_ids}
    depths = st.none() | st.integers(0, 64)
    return st.one_of(
        st.builds(
            PushFrame,
            scope=scope,
            goal=names,
            inputs=json_values,
            parent=st.none() | frame_ids,
            budget=whole_numbers,
            max_subframe_depth=depths,
            max_tool_calls=st.none() | tokens,
            timeout_us=times,
        ),
        st.builds(UpdateFrame, **own, goal=st.none() | names, inputs=json_values, context_hash=st.none() | names),
        st.builds(PopFrame, **own, status=endings, summary=texts, result=contents, digest=hexes, cascade=st.booleans()),
        st.builds(TimeOutFrame, **own),
        st.builds(
            SuspendFrame,
            **own,
            reason=reasons,
            expires_us=times,
            resumable_by=st.lists(names, max_size=3).map(tuple),
            cascade=st.booleans(),
        ),
        st.builds(ReissueToken, **own, expires_us=times),
        st.builds(RevokeToken, **own, reason=reasons),
        st.builds(ResumeFrame, **own, digest=hexes),
        st.builds(
            AddHandle,
            **own,
            kind=kinds,
            priority=priorities,
            title=texts,
            source=st.none() | names,
            content=contents,
            digest=hexes,
            metadata=json_objects,
        ),
        st.builds(
            ReplaceHandle,
            **own,
            handle=names,
            priority=st.none() | priorities,
            title=st.none() | texts,
            content=st.none() | contents,
            digest=hexes,
            metadata=st.none() | json_objects,
            residency=st.none() | residencies,
            tier=st.none() | tiers,
            ref=st.none() | refs,
            size=tokens,
        ),
        st.builds(ReserveTokens, **own, purpose=names, amount=whole_numbers),
        st.builds(CommitTokens, **own, reservation=st.none() | names, tokens=whole_numbers, usage=st.none() | usages),
        st.builds(CancelTokens, **own, reservation=names),
        st.builds(GrantTokens, **own, amount=whole_numbers),
        st.builds(
            StartCall,
            scope=scope,
            call=names,
            key=st.none() | names,
            again=st.booleans(),
            frame=st.none() | frame_ids,
        ),
        st.builds(ResumeActor, scope=scope),
    )


inputs = st.builds(
    DecisionInput,
    time_us=whole_numbers,
    tokens=st.tuples(st.integers(0, 10_000)),
    counter=names,
    frame=st.builds(FrameInput, digest=hexes),
)

states = st.builds(
    SessionState,
    version=st.integers(0, 60),
    status=st.sampled_from(["absent", "open", "closed"]),
    created_us=whole_numbers,
    updated_us=whole_numbers,
    messages=st.integers(0, 60),
    tokens=st.integers(0, 2**40),
    close_reason=texts,
    metadata=json_objects,
)


@st.composite
def event_chains(draw: st.DrawFn, size: int = 4) -> tuple[StreamHead, list[StoredEvent]]:
    """A stream's events as a store records them, and the head that they follow."""
    stream: StreamId = draw(streams)
    made = draw(
        st.lists(
            st.builds(NewEvent, names, st.integers(1, 9), st.binary(max_size=20), st.binary(min_size=16, max_size=16)),
            min_size=1,
            max_size=size,
        )
    )
    start = StreamHead(stream, draw(st.integers(0, 5)), draw(digests | st.just(GENESIS)))
    append = Append(
        draw(st.binary(min_size=16, max_size=16)).hex(),
        draw(st.binary(max_size=20)),
        draw(whole_numbers),
        draw(names),
        (StreamWrite(stream, start.version, tuple(made)),),
        draw(st.none() | names),
        draw(st.none() | names),
    )
    [(_, recorded)] = chain.chain_events(append, [start])
    return start, recorded
