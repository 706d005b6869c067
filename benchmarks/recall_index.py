"""How fast passages are found, and how much room they take: 1k, 10k and 100k passages of one user, on both databases.

The passages are turns of the chats in `recall/locomo` of a data folder, repeated with other names, places and dates until
there are enough. The data is not part of this repository.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.model.memory.passages import (
    IndexedPassage,
    IndexMark,
    Passage,
    PassageBatch,
    PassageFilter,
    PassageQuery,
    PlaceSpan,
    StreamSpan,
)
from holdfast.model.names import Scope, StreamId
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.testing.appends import append_of, write_to
from holdfast.text.words import stem_words

TENANT, USER = "acme", "ada"
SESSION_TURNS = 20
CANDIDATES = 200
NEIGHBOURS = 16
QUERIES = 200
DEFAULT_DATA = Path("../shared/data")
