"""Types of arguments, answers and stored data: everything public that is not at the top level of `holdfast`."""

from holdfast.core.history.previews import Spooling
from holdfast.flows.maintain import VerificationProblem, VerificationReport
from holdfast.model.content import Body, Data, Opaque, Part, Source
from holdfast.model.entries.entry import Entry, NewEntry
from holdfast.model.facts.detection import FactCandidate, MessageSpan, Observation, Proposal, Utterance
from holdfast.model.facts.fact import Dispute, FactExplanation, FactMatch, FactSource, FactStep, Mention
from holdfast.model.facts.outcomes import ObservationResult, ObservedProposal
from holdfast.model.frames.frames import (
    Budget,
    FrameLimits,
    FrameRecord,
    FrameSpend,
    FrameState,
    PendingWork,
    Recovery,
    Reservation,
    StartedCall,
    SuspendedFrame,
    SuspensionToken,
    SweepResult,
    TokenWeights,
)
from holdfast.model.history.handles import HandleText, ResultRef
from holdfast.model.history.plans import (
    Classic,
    CustomStrategy,
    Faithful,
    Frugal,
    Occupancy,
    PlanFigures,
    PlanStep,
    PriorityBased,
    SummarizeOldest,
    TruncateAt,
)
from holdfast.model.history.ranges import LedgerFacts
from holdfast.model.history.views import HistoryView, Summary, SummaryDraft, TranscriptView
from holdfast.model.history.withdrawals import Restoration, Withdrawal
from holdfast.model.log import FeedEvent, FeedPage, StoredEvent, StoreTotals
from holdfast.model.memory.deliveries import Delivery, DeliveryBacklog, DeliveryOutcome, DeliveryReport
from holdfast.model.memory.passages import MemorySubject, PassageKey, PassageTotals
from holdfast.model.memory.recall import (
    ForgetReport,
    MemoryAnswer,
    MemoryRange,
    MemoryReader,
    RecalledPassage,
    SessionHistory,
    UserKnowledge,
)
from holdfast.model.names import LedgerId, Scope, StreamId, shorten_name
from holdfast.model.packs.calls import Boundary, CacheReport, CallCost, ModelCall
from holdfast.model.packs.pack import (
    Exposure,
    ManifestEntry,
    PackChange,
    PackDiff,
    PackRecord,
    PackRequest,
    PassageTrace,
    PassageUse,
    TokenSummary,
)
from holdfast.model.packs.redactions import PackRedaction
from holdfast.model.policy import AuthorityLadder
from holdfast.model.rows import LedgerRow, SessionRow
from holdfast.model.sessions.activity import Activity, ActivityBudget
from holdfast.model.sessions.diffs import FactDifference, SessionDiff
from holdfast.model.sessions.forks import ForkOrigin, ForkSegment
from holdfast.model.sessions.layers import Environment, EnvironmentItem, WorkingItem
from holdfast.model.sessions.messages import MessageGroup, Offload
from holdfast.model.sessions.model_uses import MeteredAnswer, ModelUse
from holdfast.model.situation.situations import Action, ActionCall, Situation, SituationField, SituationUpdate
from holdfast.model.state import OpenCall, OpenProposal, SessionState
from holdfast.model.tools.tool import FunctionTool
from holdfast.planner import SpoolDecision, plan_eviction, plan_spool
from holdfast.providers.deltas import Deltas
from holdfast.runtime.options import (
    ActionOptions,
    CompactOptions,
    EngineOptions,
    FrameOptions,
    RecordOptions,
    SessionOptions,
    WriteOptions,
)
from holdfast.runtime.store_copy import CopyReport

__all__ = [
    "Action",
    "ActionCall",
    "ActionOptions",
    "Activity",
    "ActivityBudget",
    "AuthorityLadder",
    "Body",
    "Boundary",
    "Budget",
    "CacheReport",
    "CallCost",
    "Classic",
    "CompactOptions",
    "CopyReport",
    "CustomStrategy",
    "Data",
    "Delivery",
    "DeliveryBacklog",
    "DeliveryOutcome",
    "DeliveryReport",
    "Deltas",
    "Dispute",
    "EngineOptions",
    "Entry",
    "Environment",
    "EnvironmentItem",
    "Exposure",
    "FactCandidate",
    "FactDifference",
    "FactExplanation",
    "FactMatch",
    "FactSource",
    "FactStep",
    "Faithful",
    "FeedEvent",
    "FeedPage",
    "ForgetReport",
    "ForkOrigin",
    "ForkSegment",
    "FrameLimits",
    "FrameOptions",
    "FrameRecord",
    "FrameSpend",
    "FrameState",
    "Frugal",
    "FunctionTool",
    "HandleText",
    "HistoryView",
    "LedgerFacts",
    "LedgerId",
    "LedgerRow",
    "ManifestEntry",
    "MemoryAnswer",
    "MemoryRange",
    "MemoryReader",
    "MemorySubject",
    "Mention",
    "MessageGroup",
    "MessageSpan",
    "MeteredAnswer",
    "ModelCall",
    "ModelUse",
    "NewEntry",
    "Observation",
    "ObservationResult",
    "ObservedProposal",
    "Occupancy",
    "Offload",
    "Opaque",
    "OpenCall",
    "OpenProposal",
    "PackChange",
    "PackDiff",
    "PackRecord",
    "PackRedaction",
    "PackRequest",
    "Part",
    "PassageKey",
    "PassageTotals",
    "PassageTrace",
    "PassageUse",
    "PendingWork",
    "PlanFigures",
    "PlanStep",
    "PriorityBased",
    "Proposal",
    "RecalledPassage",
    "RecordOptions",
    "Recovery",
    "Reservation",
    "Restoration",
    "ResultRef",
    "Scope",
    "SessionDiff",
    "SessionHistory",
    "SessionOptions",
    "SessionRow",
    "SessionState",
    "Situation",
    "SituationField",
    "SituationUpdate",
    "Source",
    "SpoolDecision",
    "Spooling",
    "StartedCall",
    "StoreTotals",
    "StoredEvent",
    "StreamId",
    "SummarizeOldest",
    "Summary",
    "SummaryDraft",
    "SuspendedFrame",
    "SuspensionToken",
    "SweepResult",
    "TokenSummary",
    "TokenWeights",
    "TranscriptView",
    "TruncateAt",
    "UserKnowledge",
    "Utterance",
    "VerificationProblem",
    "VerificationReport",
    "Withdrawal",
    "WorkingItem",
    "WriteOptions",
    "plan_eviction",
    "plan_spool",
    "shorten_name",
]
