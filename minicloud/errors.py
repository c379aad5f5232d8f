# SPDX-License-Identifier: Apache-2.0
"""What can go wrong while a cloud is brought up or taken down."""


class MiniCloudError(Exception):
    """Something the person at the terminal has to see to.

    :param problem: str, what is wrong and where, one sentence
    :param remedy: str, what to do about it, one sentence
    :param detail: str, lines that help to find out more, such as a log's last
    """

    def __init__(self, problem: str, remedy: str = '',
                 detail: str = '') -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.detail = detail

    def __str__(self) -> str:
        said = '. '.join(part for part in (self.problem, self.remedy) if part)
        return f'{said}\n{self.detail}' if self.detail else said


class TooLate(MiniCloudError):
    """A service was not ready in time."""


class NotReady(Exception):
    """A service does not answer yet; the message says what was tried."""
