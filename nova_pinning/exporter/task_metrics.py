# SPDX-License-Identifier: Apache-2.0
"""How the exporter itself fares: what it did when, and what went wrong."""

from collections.abc import Callable
import logging
import threading
import time
from typing import TypeVar

import prometheus_client

from nova_pinning import errors

LOG = logging.getLogger(__name__)

_PREFIX = 'nova_pinning_exporter_'
_T = TypeVar('_T')


class TaskMetrics:
    """Runs what may fail, and counts how it goes. For several threads.

    :param clock: gives seconds of the epoch
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._registry = prometheus_client.CollectorRegistry()
        self._errors = prometheus_client.Counter(
            f'{_PREFIX}errors_total', 'Times that a task failed', ['task'],
            registry=self._registry)
        self._successes = prometheus_client.Gauge(
            f'{_PREFIX}last_success_timestamp_seconds',
            'When a task came to its end last; 0 if it never did', ['task'],
            registry=self._registry)
        self._durations = prometheus_client.Gauge(
            f'{_PREFIX}duration_seconds',
            'How long a task took when it came to its end last', ['task'],
            registry=self._registry)
        self.hosts_recounted = prometheus_client.Counter(
            f'{_PREFIX}hosts_recounted_total', 'Hosts that were counted, '
            'again or for the first time', registry=self._registry)
        self.flavors_left_out = prometheus_client.Gauge(
            f'{_PREFIX}flavors_left_out', 'Flavors that are not counted, '
            'since nova refuses them or there are too many',
            registry=self._registry)
        self._trouble: dict[str, str] = {}
        self._has_figures = set[str]()
        self._lock = threading.Lock()

    def expect(self, task: str) -> None:
        """Have the series of a task from the start, for alerts."""
        self._errors.labels(task)
        self._successes.labels(task)

    def run(self, task: str, action: Callable[[], _T]) -> _T | None:
        """What the action returns, None if it failed. Never raises."""
        start = time.monotonic()
        try:
            result = action()
        except Exception as error:
            self._errors.labels(task).inc()
            self._note(task, error)
            return None
        self._durations.labels(task).set(time.monotonic() - start)
        self._successes.labels(task).set(self._clock())
        self._has_figures.add(task)
        self._note(task, None)
        return result

    def text(self) -> str:
        """All of them, as Prometheus reads them."""
        exposition: str = prometheus_client.generate_latest(
            self._registry).decode()
        return exposition

    def _note(self, task: str, error: Exception | None) -> None:
        """Say that a task fails when it begins to, or fails differently."""
        text = ''
        if error is not None:
            text = str(error)
            if not isinstance(error, (errors.InputError, errors.CloudError)):
                text = f'{type(error).__name__}: {error}'
        with self._lock:
            if self._trouble.get(task, '') == text:
                return
            self._trouble[task] = text
        if text:
            LOG.error('%s failed: %s%s', task, text, '; the last figures are '
                      'served, and it is tried again'
                      if task in self._has_figures else '')
            LOG.debug('%s failed', task, exc_info=error)
        else:
            LOG.warning('%s works again', task)
