"""The items of a session of the SDK, as entries of a session of Holdfast: what the SDK added, took back and cleared.

Laws: nothing is deleted. An item that was taken back, or cleared, is named by a later entry. Items of one call are added
together or not at all. What the SDK added comes back equal.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

import holdfast
from holdfast.openai_agents.items import Item, decode_json, encode_json, item_key
from holdfast.types import Entry, NewEntry, SessionState

KIND = "openai_agents.item"
"""The kind of the entries."""
_PAGE = 500
_FIRST_PAGE = 16
"""Few entries are new since the last time."""


class ItemGroup(msgspec.Struct, frozen=True):
    """The message that an item belongs to."""

    name: str
    """The id of the message in the shadow."""
    size: int = 1
    """How many items the message has."""
    digest: str = ""
    """The digest under which the message was recorded, if it was recorded before its items were added."""


class NewItem(NamedTuple):
    """An item that is added."""

    item: Item
    group: ItemGroup
    is_adopted: bool = False
    """It is from a run that broke off. The SDK did not add it."""
    replaces: str = ""
    """The key of the same item further ahead, which the SDK sees no more."""


class LoggedItem(msgspec.Struct, frozen=True):
    """An item, and where it is."""

    key: str
    seq: int
    item: Item
    group: ItemGroup
    is_adopted: bool = False
    """It is from a run that broke off. The SDK did not add it."""
    mark: str = ""
    """What the item is recognized by: its item_key()."""
    replaces: str = ""
    """The key of the same item further ahead, which the SDK sees no more."""


class ItemLog:
    """Reads and writes the items of a session. Only new entries are read, after the first time."""

    def __init__(self, session: holdfast.Session) -> None:
        self._session = session
        self.last = 0
        """The seq of the newest entry that was read."""
        self.popped = 0
        """How many items were taken back, as far as they were read."""
        self.items: list[LoggedItem] = []
        """All that were not taken back, also those before the last time that the session was cleared."""
        self.cleared = 0
        """The seq of the last entry that cleared the session."""
        self._has_replaced = False
        """Whether items were ever replaced."""
        self.groups: set[str] = set()
        """The names of all messages of items that were ever added."""
        self.version = 0
        """The version of the session up to which entries were read."""
        self.state = SessionState()
        """The state of the session when it was read last."""

    def load(self) -> None:
        """Read what is new."""
        self.state = self._session.state()
        if self.state.version == self.version:
            return
        if self.last:
            newest = self._session.entries.list(kind=KIND, limit=1, bodies=False)
            has_new = bool(newest) and newest[0].seq > self.last
        if not self.last or has_new:
            for entry in reversed(list(self._read_new())):
                self._apply(entry)
        self.version = self.state.version

    def reload(self) -> None:
        """Read everything again: entries may have been erased."""
        self.last, self.version, self.cleared = 0, 0, 0
        self.items, self.groups = [], set()
        self.load()

    def drop_erased(self) -> None:
        """Forget the items that were erased, by any process."""
        keys: set[str] = set()
        before: int | None = None
        while page := self._session.entries.list(kind=KIND, before=before, limit=_PAGE, bodies=False):
            keys.update(entry.key for entry in page)
            before = page[-1].seq
            if len(page) < _PAGE:
                break
        if any(each.key not in keys for each in self.items):
            self.items = [each for each in self.items if each.key in keys]

    @property
    def shown(self) -> list[LoggedItem]:
        """The items that the SDK sees."""
        if not self.cleared and not self._has_replaced:
            return self.items
        replaced = {each.replaces for each in self.items} if self._has_replaced else set()
        return [each for each in self.items if each.seq > self.cleared and each.key not in replaced]

    def append(self, new: Sequence[NewItem]) -> list[str]:
        """Add items, all or none. Returns their keys."""
        batch = uuid.uuid4().hex
        bodies: list[dict[str, object]] = []
        for item, group, is_adopted, replaces in new:
            body: dict[str, object] = {"item": item, "group": group.name}
            body |= {"size": group.size} if group.size > 1 else {}
            body |= {"digest": group.digest} if group.digest else {}
            body |= {"replaces": replaces} if replaces else {}
            bodies.append(body | ({"adopted": True} if is_adopted else {}))
        entries = [NewEntry(KIND, f"{batch}/{number}", encode_json(body)) for number, body in enumerate(bodies)]
        self._apply_added(self._session.entries.append_all(entries))
        return [entry.key for entry in entries]

    def withdraw(self, keys: Sequence[str]) -> None:
        """Take these items back."""
        markers = [NewEntry(KIND, f"{uuid.uuid4().hex}/pop", encode_json({"pop": key})) for key in keys]
        self._session.entries.append_all(markers)
        self.load()

    def withdraw_last(self) -> LoggedItem | None:
        """Take the newest item back. Raises VersionConflict if somebody else wrote meanwhile."""
        shown = self.shown
        if not shown:
            return None
        last = shown[-1]
        marker = NewEntry(KIND, f"{uuid.uuid4().hex}/pop", encode_json({"pop": last.key}))
        self._session.entries.append_all([marker], expect=self.version)
        self.load()
        return last

    def clear(self) -> None:
        """Hide all items from the SDK."""
        self._session.entries.append(KIND, f"{uuid.uuid4().hex}/clear", encode_json({"clear": True}))
        self.load()

    def _apply_added(self, added: Sequence[Entry]) -> None:
        """Take over what was added; if others wrote before it, read it with theirs."""
        if [entry.seq for entry in added] != list(range(self.version + 1, self.version + 1 + len(added))):
            self.load()
            return
        for entry in added:
            self._apply(entry)
        self.version = self.last

    def _read_new(self) -> Iterator[Entry]:
        """The new entries, newest first."""
        before: int | None = None
        limit = _FIRST_PAGE if self.last else _PAGE
        while page := self._session.entries.list(kind=KIND, before=before, limit=limit):
            new = [entry for entry in page if entry.seq > self.last]
            yield from new
            if len(new) < limit:
                return
            before, limit = page[-1].seq, _PAGE

    def _apply(self, entry: Entry) -> None:
        assert isinstance(entry.body, bytes), "all entries of this kind are bytes"
        self.last = entry.seq
        fields = decode_json(entry.body)
        if "item" in fields:
            group = ItemGroup(fields["group"], fields.get("size", 1), fields.get("digest", ""))
            item, is_adopted, replaces = fields["item"], bool(fields.get("adopted")), fields.get("replaces", "")
            self.items.append(LoggedItem(entry.key, entry.seq, item, group, is_adopted, item_key(item), replaces))
            self._has_replaced = self._has_replaced or bool(replaces)
            self.groups.add(group.name)
        elif "pop" in fields:
            at = next((at for at in range(len(self.items) - 1, -1, -1) if self.items[at].key == fields["pop"]), None)
            self.popped += 1
            if at is not None:
                del self.items[at]
        else:
            self.cleared = entry.seq
