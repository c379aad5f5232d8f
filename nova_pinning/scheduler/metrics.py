# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler counts and times of the filters and weighers.

Each process has one recorder, which does nothing unless ``[pinning]
metrics_directory`` is set. What is told to it is then written by
:mod:`nova_pinning.scheduler.metrics_writer`.

Filters are made, and may test themselves, before nova-scheduler forks its
workers. So the thread that writes is started by the first request that a
process serves, and what the self-test found is handed on to forked processes.
Workers end by os._exit(), which runs no functions registered with atexit;
so their parent, in which they are run, removes the metrics of its workers.
"""

import atexit
from collections.abc import Mapping
from importlib import metadata
import os
import threading

from oslo_log import log as logging

from nova_pinning import conf
from nova_pinning import model
from nova_pinning.scheduler import record

CONF = conf.CONF
LOG = logging.getLogger(__name__)


class MetricsRecorder:
    """What filters and weighers tell of themselves; this one drops it.

    No method raises, and any thread may call them.

    :ivar self_test_passed: what the self-test at start-up found, None if it
        is not known
    """

    self_test_passed: bool | None = None

    def filtered(self, filter_name: str, passed: int,
                 refused: Mapping[model.Reason, int], seconds: float) -> None:
        """A filter has seen all hosts for one instance.

        :param passed: how many hosts it passed
        :param refused: how many it refused, by model.Reason
        :param seconds: that it took
        """

    def weighed(self, weigher_name: str, hosts: int, seconds: float) -> None:
        """A weigher has weighed so many hosts for one instance."""

    def held_back(self, reason: str, hosts: int, used: bool) -> None:
        """Hosts are good only where no other is left.

        :param reason: a model.Reason
        :param used: whether no other was
        """

    def differed(self, filter_name: str, who_refuses: str, reason: str,
                 hosts: int) -> None:
        """One of nova's filter and ours refuses hosts, the other does not.

        :param who_refuses: 'nova' or 'ours'
        :param reason: a model.Reason
        """

    def error(self, component: str, kind: str) -> None:
        """Something went wrong that should not.

        :param component: the filter or weigher
        :param kind: the name of the exception's class
        """

    def searched(self, longest_seconds: float, is_exceeded: bool) -> None:
        """Hosts took a search, for one instance.

        :param longest_seconds: what the host took that took longest
        :param is_exceeded: whether the request took up all its time
        """

    def self_test(self, passed: bool) -> None:
        """What the self-test at start-up found."""

    def no_host(self, refusal: record.NoHost) -> None:
        """Our filters left no host for an instance."""

    def stop(self) -> None:
        """Write what is to stay, and no more after that."""


def package_version(package: str) -> str:
    """'unknown' of one that was not installed as a package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return 'unknown'


#: The one recorder of this process, and what guards making it.
_recorder: MetricsRecorder | None = None
_making = threading.Lock()
#: What the self-test found in a process that this one was forked from.
_self_test_passed: bool | None = None


def recorder() -> MetricsRecorder:
    """The one of this process, made on first use."""
    return _recorder or _made()


def _made() -> MetricsRecorder:
    global _recorder
    with _making:
        if _recorder is None:
            _recorder = _make()
        return _recorder


def _make() -> MetricsRecorder:
    options = CONF.pinning
    if not options.metrics_directory:
        return MetricsRecorder()
    try:
        from nova_pinning.scheduler import metrics_writer
        return metrics_writer.WritingRecorder(
            options.metrics_directory, options.metrics_interval_seconds,
            options.refusals_kept, _self_test_passed)
    except Exception:
        LOG.exception('Neither metrics nor refusals are kept')
    return MetricsRecorder()


def use(replacement: MetricsRecorder | None) -> None:
    """Replace the recorder of this process, and stop the one before.

    :param replacement: None for one that is made when it is needed
    """
    global _recorder
    with _making:
        before, _recorder = _recorder, replacement
    if before is not None:
        before.stop()


def _forget() -> None:
    """Begin anew: a forked process has neither the thread nor who locked."""
    global _recorder, _making, _self_test_passed
    if _recorder is not None and _recorder.self_test_passed is not None:
        _self_test_passed = _recorder.self_test_passed
    _recorder = None
    _making = threading.Lock()


def _end() -> None:
    """Leave no metrics of processes that have ended, this one included."""
    if _recorder is not None:
        _recorder.stop()
    if CONF.pinning.metrics_directory:
        from nova_pinning.scheduler import metrics_files
        metrics_files.sweep(
            CONF.pinning.metrics_directory, (metrics_files.PROM,))


os.register_at_fork(after_in_child=_forget)
atexit.register(_end)
