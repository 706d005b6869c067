"""DevUI of the Microsoft Agent Framework as a server, for its environment: `python server_devui.py PORT FOLDER`.

Without its pages and its key, which are not what is measured. It keeps conversations in memory.
"""

from __future__ import annotations

import sys

import uvicorn
from agent_framework_devui import DevServer  # type: ignore[import-not-found]

port, folder = int(sys.argv[1]), sys.argv[2]
server = DevServer(entities_dir=folder, port=port, ui_enabled=False, auth_enabled=False)
uvicorn.run(server.get_app(), host="127.0.0.1", port=port, log_level="warning", access_log=False)
