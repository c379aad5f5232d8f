# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: the decisions of a simulation that was broken off.

To go on, the decisions that are choose from carried out without looking for
them again, which takes a small part of the time, and leads to the same state.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import hashlib
import importlib.metadata
import json
import time
from typing import Any

from nova_pinning.document import packed
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.simulation import compare

#: Of the form of checkpoints.
VERSION = 1

Decisions = dict[compare.StudyCase, list[int]]


def inputs(study: compare.Study) -> str:
    """A digest of everything that decisions depend on, this release too."""
    parts = [importlib.metadata.version('nova-pinning'),
             document.dumps(study.fleet), json.dumps([
                 study.source, study.plan, study.configurations, study.seeds,
                 study.is_fast], default=_plain, sort_keys=True)]
    return hashlib.sha256('\n'.join(parts).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """What JSON has in the place of a value, equal for equal ones."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name)
                for field in dataclasses.fields(value) if field.compare}
    return dict(value) if isinstance(value, Mapping) else sorted(value)


def read(path: str, digest: str) -> Decisions:
    """The decisions of a checkpoint, none if there is no such file.

    :param digest: of the inputs
    :raises errors.InputError: if it is that of another simulation, or none
        at all
    """
    where = errors.Location(path)
    try:
        with open(path, 'rb'):
            pass
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise errors.InputError(
            f'cannot be read: {error.strerror}', where) from None
    try:
        content = json.loads(packed.read(path))
        version, of = content['version'], content['inputs']
        decisions = {
            compare.StudyCase(str(run['configuration']), int(run['seed'])):
                list(map(int, run['decisions']))
            for run in content['runs']}
    except (KeyError, TypeError, ValueError, RecursionError):
        raise errors.InputError(
            'is not a checkpoint of a simulation', where,
            'name another file') from None
    if version != VERSION or of != digest:
        raise errors.InputError(
            'is a checkpoint of another simulation: of another fleet, other '
            'arrivals, configurations, options or release', where,
            'name another file, or remove it')
    return decisions


class CheckpointWriter:
    """Keeps a checkpoint up to date.

    :param every_seconds: that pass between two writes
    :param clock: seconds since any moment
    """

    def __init__(
        self, path: str, digest: str, known: Decisions,
        every_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._digest = digest
        self._decisions: Decisions = {
            case: list(decisions) for case, decisions in known.items()}
        self._every_seconds = every_seconds
        self._clock = clock
        self._written = clock()

    def decided(self, case: compare.StudyCase,
                decisions: Sequence[int]) -> None:
        """Take note of further decisions."""
        self._decisions.setdefault(case, []).extend(decisions)
        if self._clock() - self._written >= self._every_seconds:
            self.write()

    def write(self) -> None:
        """Replace the file as a whole.

        :raises errors.InputError: if it cannot be written
        """
        content: Mapping[str, object] = {
            'version': VERSION,
            'inputs': self._digest,
            'runs': [{'configuration': case.configuration, 'seed': case.seed,
                      'decisions': decisions}
                     for case, decisions in sorted(self._decisions.items())]}
        packed.write(self._path, json.dumps(content, separators=(',', ':')))
        self._written = self._clock()
