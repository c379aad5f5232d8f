# SPDX-License-Identifier: Apache-2.0
"""The requests that found no host lately, as nova-scheduler remembers them.

Each process of nova-scheduler keeps its own, and writes them into a file of
``[pinning] metrics_directory``. ``nova-pinning explain`` reads these files.
Nothing of nova is imported here. ``record_reader`` reads them, which
nova-scheduler does without.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping
from collections.abc import Sequence
import datetime
import json
import os
import socket
import threading
from typing import Any
from typing import NamedTuple

from oslo_context import context

from nova_pinning import compat
from nova_pinning import conf

#: The files of all processes.
PATTERN = 'nova-pinning-*.json'


class RecordedCause(NamedTuple):
    """One of the reasons for which a filter refused hosts.

    :param reason: a model.Reason
    :param hosts: how many it refused for this
    :param example: the name of one of them
    :param figures: what lies behind the reason there; may be empty
    """

    reason: str
    hosts: int
    example: str
    figures: str


@compat.dataclass(frozen=True, slots=True)
class NoHost:
    """A request, or one instance of it, for which no host was left.

    :param instance: UUID
    :param request_id: req-..., None if it is not known
    :param time: ISO 8601 in UTC, as :func:`now` gives it
    :param flavor: its name
    :param host: where the scheduler runs, as nova calls it
    :param refused: by filter, in the order in which they ran
    """

    instance: str
    request_id: str | None
    time: str
    flavor: str
    host: str
    refused: Mapping[str, Sequence[RecordedCause]]


def no_host(instance: str, flavor: str,
            refused: Mapping[str, Sequence[RecordedCause]]) -> NoHost:
    """What there is to say now, in the thread that serves the request."""
    current = context.get_current()
    return NoHost(
        instance=instance,
        request_id=getattr(current, 'request_id', None) or None,
        time=now(), flavor=flavor, host=host_name(), refused=refused)


def now() -> str:
    """The time, in a form of which the greater text is the later time."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(
        timespec='milliseconds').replace('+00:00', 'Z')


def host_name() -> str:
    """This host, as ``[DEFAULT] host`` of nova.conf calls it."""
    # Without nova there is no such option.
    return str(getattr(conf.CONF, 'host', None) or socket.gethostname())


class RefusalRing:
    """The last of the requests that found no host; for any thread.

    :param kept: how many are remembered, 0 or more
    """

    def __init__(self, kept: int) -> None:
        self._since = now()
        self._limit = kept
        self._kept: collections.deque[NoHost] = collections.deque(maxlen=kept)
        self._count = 0
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """How many there were, those that are forgotten included."""
        return self._count

    def add(self, refusal: NoHost) -> None:
        """Remember one; the oldest is forgotten for it, if need be."""
        with self._lock:
            self._kept.append(refusal)
            self._count += 1

    def text(self) -> str:
        """The document with all that are remembered, the last one last."""
        with self._lock:
            kept, count = tuple(self._kept), self._count
        return _text(ProcessRecord(
            host=host_name(), process=os.getpid(), since=self._since,
            limit=self._limit, forgotten=count - len(kept), refusals=kept))


@compat.dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """What one process of nova-scheduler remembers.

    :param host: where it runs or ran
    :param process: its pid
    :param since: when it began to remember, ISO 8601 in UTC
    :param limit: how many requests it remembers
    :param forgotten: how many are forgotten since
    :param refusals: the others, the last one last
    """

    host: str
    process: int
    since: str
    limit: int
    forgotten: int
    refusals: tuple[NoHost, ...]


def _text(memory: ProcessRecord) -> str:
    """A line for each request, so that grep helps too."""
    head = {
        'version': 1, 'host': memory.host, 'process': memory.process,
        'since': memory.since, 'limit': memory.limit,
        'forgotten': memory.forgotten}
    return ''.join((json.dumps(head)[:-1], ', "refusals": [', ','.join(
        '\n' + json.dumps(as_dict(refusal))
        for refusal in memory.refusals), '\n]}\n'))


def as_dict(refusal: NoHost) -> dict[str, Any]:
    """A request that found no host, as the document has it."""
    return {
        'instance': str(refusal.instance),
        'request_id': refusal.request_id and str(refusal.request_id),
        'time': refusal.time, 'flavor': str(refusal.flavor),
        'host': refusal.host,
        'refused': {
            str(name): [{'reason': str(reason), 'hosts': int(hosts),
                         'example': str(example), 'figures': str(figures)}
                        for reason, hosts, example, figures in causes]
            for name, causes in refusal.refused.items()}}
