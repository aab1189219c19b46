# SPDX-License-Identifier: Apache-2.0
"""The command line of Python programs here, and how they end."""

import argparse
import re
import textwrap


class Mdoc(argparse.Action):
    """Prints the list of options for the man page: docs/man/expand."""

    def __call__(self, parser, *_):
        print(".Bl -tag -width Ds")
        for action in parser._actions:  # pylint: disable=protected-access
            if action.help == argparse.SUPPRESS:
                continue
            argument = f" Ar {action.metavar.lower()}" if action.metavar else ""
            print(f".It Fl {action.option_strings[0][1:]}{argument}")
            for sentence in re.split(r"(?<=\.) ", action.help):
                print(textwrap.fill(sentence, 78, break_on_hyphens=False))
        print(".El")
        parser.exit()


class Stop(Exception):
    """The program ends with this exit status."""

    def __init__(self, status, message=""):
        super().__init__(message)
        self.status = status


def whole(least, most):
    """For an argument: a whole number; k, M and G are powers of 1,000."""

    def take(text):
        factor = {"k": 10**3, "M": 10**6, "G": 10**9}.get(text[-1:], 1)
        digits = text if factor == 1 else text[:-1]
        if not digits.isdecimal():
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number")
        if not least <= int(digits) * factor <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least} and {most}")
        return int(digits) * factor

    return take


def seconds(most):
    """For an argument: a time from a millisecond on.  most: as text."""

    def take(text):
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None
        if not 0.001 <= value <= float(most):
            raise argparse.ArgumentTypeError(f"{text} is not between 0.001 and {most}")
        return value

    return take
