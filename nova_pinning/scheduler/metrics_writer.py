# SPDX-License-Identifier: Apache-2.0
"""The metrics of filters and weighers, counted and written to a directory.

This is imported only where ``[pinning] metrics_directory`` is set, by
:mod:`nova_pinning.scheduler.metrics`; files are those of
:mod:`nova_pinning.scheduler.metrics_files`.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import functools
import itertools
import os
import threading
import time
from typing import Any

from oslo_log import log as logging
import prometheus_client
from prometheus_client import core

from nova_pinning import compat
from nova_pinning import model
from nova_pinning.scheduler import census
from nova_pinning.scheduler import metrics_files
from nova_pinning.scheduler import metrics_recorder
from nova_pinning.scheduler import traits_reader

LOG = logging.getLogger(__name__)

PREFIX = 'nova_pinning_scheduler_'

#: From a few hosts to thousands, on which nova's own fit is asked.
_REQUEST_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                    0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: From the class of a host to a fit of many cells with PCI devices.
_HOST_SECONDS = (0.000001, 0.0000025, 0.000005, 0.00001, 0.000025, 0.00005,
                 0.0001, 0.00025, 0.0005, 0.001, 0.01, 0.1, 1.0)

_REASONS = frozenset(map(str, model.Reason))
_SIDES = frozenset({'nova', 'ours'})
_OTHER = 'other'
#: Kinds of errors that are told apart, so that there is an end to them.
_MAX_ERROR_KINDS = 100


@compat.dataclass(frozen=True, slots=True)
class Metric:
    """One that is exported, with the label ``process`` besides its own.

    :param kind: counter, gauge or histogram
    :param help_text: what it tells, and when it is not there
    :param buckets: upper bounds of a histogram, in seconds
    """

    kind: str
    help_text: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


#: By name, without PREFIX.
METRICS: Mapping[str, Metric] = {
    'filter_duration_seconds': Metric(
        'histogram', 'Time that a filter took for one instance, all hosts '
        'together', ('filter',), _REQUEST_SECONDS),
    'filter_host_duration_seconds': Metric(
        'histogram', 'Time that a filter took for one host, the mean over the '
        'hosts of one instance', ('filter',), _HOST_SECONDS),
    'filter_hosts_passed_total': Metric(
        'counter', 'Hosts that a filter passed', ('filter',)),
    'filter_hosts_refused_total': Metric(
        'counter', 'Hosts that a filter refused', ('filter', 'reason')),
    'weigher_duration_seconds': Metric(
        'histogram', 'Time that a weigher took for one instance, all hosts '
        'together', ('weigher',), _REQUEST_SECONDS),
    'weigher_host_duration_seconds': Metric(
        'histogram', 'Time that a weigher took for one host, the mean over '
        'the hosts of one instance', ('weigher',), _HOST_SECONDS),
    'weigher_hosts_total': Metric(
        'counter', 'Hosts that a weigher weighed', ('weigher',)),
    'hosts_held_back_total': Metric(
        'counter', 'Hosts that are used only where no other is left, and '
        'whether they were', ('reason', 'used')),
    'hosts_differed_total': Metric(
        'counter', "Hosts on which nova's own filter and ours differ under "
        '[pinning] mode = observe; refused_by is nova or ours',
        ('filter', 'refused_by', 'reason')),
    'no_host_total': Metric(
        'counter', 'Instances for which our filters left no host'),
    'errors_total': Metric(
        'counter', 'Unexpected errors, by the class of the exception',
        ('component', 'kind')),
    'search_host_duration_seconds': Metric(
        'histogram', 'Longest search on one host, reckoned as [pinning] '
        'request_budget_seconds is, for each instance for which there was '
        "one: for sets of cells near devices, or for what nova's own fit "
        'makes of them', buckets=_REQUEST_SECONDS),
    'budget_exceeded_total': Metric(
        'counter', 'Requests that ran into [pinning] '
        'request_budget_seconds'),
    'self_test_passed': Metric(
        'gauge', 'Whether the self-test at start-up passed, 1 or 0; not '
        'there without one'),
    'traits_age_seconds': Metric(
        'gauge', 'How long before the last write the traits were read from '
        'Placement; not there if they never were'),
    'hosts': Metric(
        'gauge', 'Compute nodes by what tells HostClassFilter their class: '
        'mark, cpu_sets, both_cpu_sets, nothing or bare_metal; not there '
        'where traits are not read', ('told_by',)),
    'last_write_timestamp_seconds': Metric(
        'gauge', 'When these metrics were written'),
    'info': Metric(
        'gauge', '1, with the versions of nova and nova-pinning as labels',
        ('nova', 'nova_pinning')),
}


def _harmless(method: Callable[..., None]) -> Callable[..., None]:
    """Have a method of WritingRecorder never raise."""
    @functools.wraps(method)
    def tell(self: 'WritingRecorder', *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self.complain(error)
    return tell


class WritingRecorder(metrics_recorder.MetricsRecorder):
    """Counts what it is told, and has it written to a directory.

    The thread that does so is started once a filter or weigher has run.

    :param directory: that all processes share
    :param interval_seconds: between two writes
    :param self_test_passed: what is known of it so far
    """

    def __init__(self, directory: str, interval_seconds: float,
                 self_test_passed: bool | None = None) -> None:
        self.self_test_passed = self_test_passed
        self._has_complained = False
        self._error_kinds: set[tuple[str, str]] = set()
        self._versions = (metrics_recorder.package_version('nova'),
                          metrics_recorder.package_version('nova-pinning'))
        self._registry = prometheus_client.CollectorRegistry()
        kinds = {'counter': prometheus_client.Counter,
                 'histogram': prometheus_client.Histogram}
        made = {name: kinds[metric.kind](
            PREFIX + name, metric.help_text, metric.labels,
            registry=self._registry,
            **{'buckets': metric.buckets} if metric.buckets else {})
            for name, metric in METRICS.items() if metric.kind in kinds}
        self._no_host = made['no_host_total']
        self._over_budget = made['budget_exceeded_total']
        self._search_seconds = made['search_host_duration_seconds']

        # To find a child takes as long as to count with it.
        def children(name: str) -> Any:
            return functools.cache(made[name].labels)

        self._filter_seconds = children('filter_duration_seconds')
        self._filter_host_seconds = children('filter_host_duration_seconds')
        self._passed = children('filter_hosts_passed_total')
        self._refused = children('filter_hosts_refused_total')
        self._weigher_seconds = children('weigher_duration_seconds')
        self._weigher_host_seconds = children('weigher_host_duration_seconds')
        self._weighed = children('weigher_hosts_total')
        self._held_back = children('hosts_held_back_total')
        self._differed = children('hosts_differed_total')
        self._errors = children('errors_total')
        self._writer = metrics_files.ProcessFileWriter(
            directory, interval_seconds, self.text,
            lambda text: text + self._last_write())
        self._is_started = False
        self._starting = threading.Lock()

    @_harmless
    def filtered(self, filter_name: str, passed: int,
                 refused: Mapping[model.Reason, int], seconds: float) -> None:
        hosts = passed
        for reason, count in refused.items():
            hosts += count
            self._refused(filter_name, _reason(reason)).inc(count)
        self._passed(filter_name).inc(passed)
        self._filter_seconds(filter_name).observe(seconds)
        if hosts:
            self._filter_host_seconds(filter_name).observe(seconds / hosts)
        if not self._is_started:
            self._start()

    @_harmless
    def weighed(self, weigher_name: str, hosts: int, seconds: float) -> None:
        self._weighed(weigher_name).inc(hosts)
        self._weigher_seconds(weigher_name).observe(seconds)
        if hosts:
            self._weigher_host_seconds(weigher_name).observe(seconds / hosts)
        if not self._is_started:
            self._start()

    @_harmless
    def held_back(self, reason: str, hosts: int, used: bool) -> None:
        self._held_back(_reason(reason), 'true' if used else 'false').inc(
            hosts)

    @_harmless
    def differed(self, filter_name: str, who_refuses: str, reason: str,
                 hosts: int) -> None:
        self._differed(
            filter_name, who_refuses if who_refuses in _SIDES else _OTHER,
            _reason(reason)).inc(hosts)

    @_harmless
    def error(self, component: str, kind: str) -> None:
        if (component, kind) not in self._error_kinds:
            if len(self._error_kinds) < _MAX_ERROR_KINDS:
                self._error_kinds.add((component, kind))
            else:
                kind = _OTHER
        self._errors(component, kind).inc()

    @_harmless
    def searched(self, longest_seconds: float, is_exceeded: bool) -> None:
        self._search_seconds.observe(longest_seconds)
        if is_exceeded:
            self._over_budget.inc()

    def self_test(self, passed: bool) -> None:
        self.self_test_passed = passed

    @_harmless
    def no_host(self) -> None:
        self._no_host.inc()

    @_harmless
    def stop(self) -> None:
        if self._is_started:
            self._writer.stop()

    def write(self) -> None:
        """Write now what has changed. Never raises."""
        self._writer.write()

    def complain(self, error: Exception) -> None:
        """Log an error of our own, the first one only."""
        if not self._has_complained:
            self._has_complained = True
            LOG.error('Unexpected error in the metrics of nova-pinning; '
                      'further ones are not logged', exc_info=error)

    def text(self) -> str:
        """All metrics, but for the time at which they are written."""
        return _rendered(itertools.chain(
            self._registry.collect(), self._gauges()))

    def _gauges(self) -> Iterator[Any]:
        age = traits_reader.age_seconds()
        for name, value in (
                ('self_test_passed', self.self_test_passed),
                ('traits_age_seconds', None if age is None else max(0.0, age)),
        ):
            if value is not None:
                yield _gauge(name, {(): value})
        counts = census.CENSUS.counts
        if counts is not None:
            yield _gauge('hosts', {(str(told_by),): count
                                   for told_by, count in counts.items()})
        yield _gauge('info', {self._versions: 1})

    @staticmethod
    def _last_write() -> str:
        return _rendered([
            _gauge('last_write_timestamp_seconds', {(): time.time()})])

    def _start(self) -> None:
        with self._starting:
            if not self._is_started:
                self._writer.start()
                self._is_started = True


def _reason(reason: str) -> str:
    return reason if reason in _REASONS else _OTHER


def _gauge(name: str, values: Mapping[tuple[str, ...], float]) -> Any:
    """A gauge with its values, by the values of its labels."""
    metric = METRICS[name]
    family = core.GaugeMetricFamily(
        PREFIX + name, metric.help_text, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _rendered(families: Iterable[Any]) -> str:
    """Prometheus text, with the process told apart from others.

    Without the times at which series were created, which Prometheus does not
    want in this format.
    """
    process = str(os.getpid())
    served = list(families)
    for family in served:
        family.samples = [
            sample._replace(labels={'process': process, **sample.labels})
            for sample in family.samples
            if not sample.name.endswith('_created')]
    text: str = prometheus_client.generate_latest(_Families(served)).decode()
    return text


@compat.dataclass(frozen=True, slots=True)
class _Families:
    """What prometheus_client takes for a registry."""

    families: Iterable[Any]

    def collect(self) -> Iterable[Any]:
        return self.families
