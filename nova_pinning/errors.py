# SPDX-License-Identifier: Apache-2.0
"""Errors in what people hand to the tools, and errors of a cloud.

What was handed in is wrong: InputError, with what, where, and what to do
about it. A command that meets one prints it and ends with status 2.

A cloud does not do what is asked: CloudError and its kinds, sorted by what
helps.
"""

from __future__ import annotations

from nova_pinning import compat


@compat.dataclass(frozen=True, slots=True)
class Location:
    """Where something stands in a file or on a command line.

    :param source: the file's name, or what else was read ('--flavor',
        'cloud mycloud')
    :param line: counted from 1, 0 if there are no lines
    :param column: counted from 1, 0 if not known
    :param key: the path of keys to it, joined by dots, with list positions
        in brackets: ``families.enterprise.sizes[2].vcpus``
    """

    source: str
    line: int = 0
    column: int = 0
    key: str = ''

    def __str__(self) -> str:
        text = self.source
        if self.line:
            text += f':{self.line}'
            if self.column:
                text += f':{self.column}'
        return f'{text}: {self.key}' if self.key else text


class InputError(Exception):
    """Something that was handed in cannot be used.

    :param message: what is wrong, a sentence without a full stop
    :param where: where it stands
    :param advice: what to do about it, if the message does not say
    """

    def __init__(self, message: str, where: Location | None = None,
                 advice: str = '') -> None:
        super().__init__(message, where, advice)
        self.message = message
        self.where = where
        self.advice = advice

    def __str__(self) -> str:
        text = f'{self.where}: {self.message}' if self.where else self.message
        return f'{text}; {self.advice}' if self.advice else text


class InputErrors(InputError):
    """Several of them, found in one go.

    :param errors: at least one, in the order in which they stand
    :param has_more: whether there are others, which are not told
    """

    def __init__(self, errors: tuple[InputError, ...],
                 has_more: bool = False) -> None:
        super().__init__(errors[0].message, errors[0].where, errors[0].advice)
        self.errors, self.has_more = errors, has_more
        # By these it is pickled.
        self.args = errors, has_more

    def __str__(self) -> str:
        return '\n'.join(map(str, self.errors))


class CloudError(Exception):
    """The cloud cannot be worked with at all; the message says why."""


class RefusedError(CloudError):
    """The cloud refuses what was asked, and will refuse it again."""


class UnsettledError(CloudError):
    """Nobody knows how a request ended, or things have changed before it.

    What helps is to look again.
    """
