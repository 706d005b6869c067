"""The documentation site: `make docs` builds it from the pages of this folder and the docstrings of the code."""

import sys
from pathlib import Path

import holdfast

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "Holdfast"
author = "The Holdfast developers"
copyright = author
version = release = holdfast.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "api", "outside"]
exclude_patterns = ["_build", "_extensions"]
root_doc = "index"

myst_heading_anchors = 4
"""The depth of headings that links such as `context.md#prices` lead to."""

PRIVATE_TYPES = (
    "AssembledPack|AsyncTurnBlock|AsyncWatch|AutoCompact|AwaitableFrame|Calibration|Collapse|CompactionCandidate"
    "|DropOutdated|Fold|FrameReference|KeepLines|Lease|MessagePositions|Reduction|SeqRanges|SituationState|Snip|Spool"
    "|SummaryRef|Suspension|TimeDecayMicro|TurnBlock|ViewState|Watch|WithdrawalRef"
)
nitpick_ignore_regex = [("py:class", rf"holdfast\..*\.({PRIVATE_TYPES})"), ("py:class", r"TextOrigin\..*")]
"""Types that public signatures name, and that are not public themselves: they have no link."""

autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 115
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"Holdfast {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
