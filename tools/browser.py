"""The browser of the tests of the inspector: find a Chromium on this machine, and install one where that is possible.

    python -m tools.browser            prints its path, or how to get one
    python -m tools.browser --install  installs Debian's package first, if there is none

`make test` runs the second form. It installs only as root on a machine with apt-get, and goes on without a browser
otherwise: the tests that need one say then what is missing, and fail where CI is true.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

VARIABLE = "HOLDFAST_CHROMIUM"
"""The environment variable with the path of a Chromium."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE = "chromium"
ADVICE = (
    f"There is no Chromium on this machine. Install one (Debian: `apt-get install {PACKAGE}`; as root, `make browser` does "
    f"it), or name one with {VARIABLE}=/path/to/chromium."
)
INSTALL_S = 900
"""How long the package manager may take, a lock that another process has included."""


def find_browser() -> str | None:
    """The path of a Chromium: the one that the environment names, or the first one in PATH."""
    named = os.environ.get(VARIABLE)
    if named:
        return shutil.which(named)
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def can_install() -> bool:
    """Whether this process may install packages of Debian."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None and VARIABLE not in os.environ


def install_browser() -> None:
    """Install Debian's Chromium. What the package manager says goes to stderr."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    wait = ("-o", "DPkg::Lock::Timeout=300", "-qq")
    for command in (("update",), ("install", "--yes", "--no-install-recommends", PACKAGE)):
        try:
            subprocess.run(
                ["apt-get", *wait, *command], env=environment, stdout=sys.stderr, check=True, timeout=INSTALL_S
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"{PACKAGE} was not installed: {error}", file=sys.stderr)
            return


def main() -> None:
    if find_browser() is None and "--install" in sys.argv[1:] and can_install():
        install_browser()
    print(find_browser() or ADVICE)


if __name__ == "__main__":
    main()
