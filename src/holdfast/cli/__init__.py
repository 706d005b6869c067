"""The command `holdfast`: look into a file, check it, copy it, and keep it in order.

Exit codes: 0 done (also when whoever read the output left early); 1 problems found by `verify` or `doctor`; 2 wrong usage;
3 bad input, nothing there, or a conflict; 4 the storage is damaged or cannot do its work; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from holdfast import errors
from holdfast.cli.commands import ReaderLeft, root
from holdfast.cli.screen import Styled, json_text, say
from holdfast.cli.settings import Settings
from holdfast.cli.words import clean

REFUSED, STORAGE, INTERRUPTED = 3, 4, 130


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code."""
    settings = Settings()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = root.main(args, prog_name="holdfast", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except (ReaderLeft, BrokenPipeError):
        _discard_output()
        return 0
    except errors.HoldfastError as error:
        _tell(settings, error, {name: _plain(value) for name, value in vars(error).items()})
        return exit_code(error)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except OSError as error:
        _tell(settings, error, {})
        _discard_output()
        return STORAGE
    return code or 0


def exit_code(error: errors.HoldfastError) -> int:
    refused = errors.InvalidInput | errors.NotFound | errors.Conflict | errors.ImportRefused
    return REFUSED if isinstance(error, refused) else STORAGE


def _tell(settings: Settings, error: Exception, data: dict[str, object]) -> None:
    if settings.json:
        told = {"error": {"type": type(error).__name__, "message": str(error), **data}}
        click.echo(json_text(told, ascii_only=True), err=True)
    else:
        say(Styled("Error: ", "bold red"), clean(str(error)), error=True)


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _discard_output() -> None:
    """What is still buffered has nowhere to go, and Python must not complain about it on its way out."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
