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

from __future__ import annotations

import atexit
import os
import threading

from oslo_log import log as logging

from nova_pinning import conf
from nova_pinning.scheduler import metrics_recorder

CONF = conf.CONF
LOG = logging.getLogger(__name__)

#: The one recorder of this process, and what guards making it.
_recorder: metrics_recorder.MetricsRecorder | None = None
_making = threading.Lock()
#: What the self-test found in a process that this one was forked from.
_self_test_passed: bool | None = None


def recorder() -> metrics_recorder.MetricsRecorder:
    """The one of this process, made on first use."""
    return _recorder or _made()


def _made() -> metrics_recorder.MetricsRecorder:
    global _recorder
    with _making:
        if _recorder is None:
            _recorder = _make()
        return _recorder


def _make() -> metrics_recorder.MetricsRecorder:
    options = CONF.pinning
    if not options.metrics_directory:
        return metrics_recorder.MetricsRecorder()
    try:
        from nova_pinning.scheduler import metrics_writer
        return metrics_writer.WritingRecorder(
            options.metrics_directory, options.metrics_interval_seconds,
            _self_test_passed)
    except Exception:
        LOG.exception('No metrics are kept')
    return metrics_recorder.MetricsRecorder()


def use(replacement: metrics_recorder.MetricsRecorder | None) -> None:
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
        metrics_files.sweep(CONF.pinning.metrics_directory)


os.register_at_fork(after_in_child=_forget)
atexit.register(_end)
