"""The command `holdfast`: inspect, check, copy and maintain a store.

Exit codes: 0 done (also if the reader of the output stopped early); 1 `verify` or `doctor` found problems, or `memory
forget` left something; 2 wrong usage; 3 bad input, not found, or a conflict; 4 the storage is damaged or failed; 130
interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from holdfast import errors
from holdfast.cli.commands import OutputClosed, root
from holdfast.cli.output import StyledText, discard_output, escape, json_text, print_line
from holdfast.cli.settings import Settings

REFUSED, STORAGE, INTERRUPTED = 3, 4, 130


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    settings = Settings()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = root.main(args, prog_name="holdfast", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except (OutputClosed, BrokenPipeError):
        discard_output(sys.stdout)
        return 0
    except errors.HoldfastError as error:
        _print_error(settings, error, {name: _to_json_value(value) for name, value in vars(error).items()})
        return exit_code(error)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except OSError as error:
        _print_error(settings, error, {})
        discard_output(sys.stdout)
        return STORAGE
    return code or 0


def exit_code(error: errors.HoldfastError) -> int:
    refused = errors.InvalidInput | errors.NotFound | errors.Conflict | errors.ImportRefused | errors.LogRefused
    return REFUSED if isinstance(error, refused) else STORAGE


def _print_error(settings: Settings, error: Exception, data: dict[str, object]) -> None:
    if settings.json:
        document = {"error": {"type": type(error).__name__, "message": str(error), **data}}
        click.echo(json_text(document, ascii_only=True), err=True)
    else:
        print_line(StyledText("Error: ", "bold red"), escape(str(error)), error=True)


def _to_json_value(value: object) -> object:
    return value if value is None or isinstance(value, str | int | float) else str(value)
