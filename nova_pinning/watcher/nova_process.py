# SPDX-License-Identifier: Apache-2.0
"""Functions that need nova, called in a process of their own.

Nova cannot be imported where Watcher is: both register options of the same
names with oslo.config, with other definitions. The process is a new one, not
one of multiprocessing's, which would import Watcher's program too.
"""

from collections.abc import Callable
import os
import pickle
import subprocess
import sys
from types import TracebackType
from typing import Any
from typing import TypeVar

from nova_pinning import errors
from nova_pinning import fit
from nova_pinning import model

_T = TypeVar('_T')


class NovaProcess:
    """The process, which the first call begins and leaving the context ends.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> 'NovaProcess':
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """What a function returns there.

        :param function: of a module, that pickle finds by its name
        :raises errors.InputError: if the process ends
        :raises Exception: that the function raises
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, '-m', __name__],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                # Eventlet warns about itself, and whoever imports it.
                env={**os.environ, 'PYTHONWARNINGS': 'ignore'})
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None and answers is not None
        try:
            pickle.dump((function, arguments), questions)
            questions.flush()
            result, error = pickle.load(answers)
        except (EOFError, OSError) as trouble:
            raise errors.InputError(
                f'ended with status {self._process.wait()}',
                errors.Location('the process that has nova')) from trouble
        if error is not None:
            raise error
        return result

    def predict_claim(
        self, attempt: fit.ClaimAttempt, choice: fit.CellChoice,
        bounds: fit.ClaimBounds,
    ) -> fit.Claim | model.Refusal:
        """Nova's claim, as planning asks for it."""
        from nova_pinning.bridge.offline import deferred_claim

        return self.call(deferred_claim.predict_claim, attempt, choice,
                         bounds._replace(ask_nova=None))


def _answer() -> None:
    """Answer what is asked on the standard input, until that ends."""
    # Whatever else is printed must not get between the answers.
    with os.fdopen(os.dup(1), 'wb') as answers:
        os.dup2(2, 1)
        while True:
            try:
                function, arguments = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            result = error = None
            try:
                result = function(*arguments)
            except Exception as raised:
                error = raised
            pickle.dump((result, error), answers)
            answers.flush()


if __name__ == '__main__':
    _answer()
