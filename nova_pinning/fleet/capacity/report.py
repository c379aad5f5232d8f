#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.


"""Capacity for machines: JSON, CSV and metrics."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import csv
import io
from typing import Any

from nova_pinning.fleet.capacity import capacity
from nova_pinning.fleet.capacity import count
from nova_pinning.fleet.capacity import stranded
from nova_pinning.model import hostclass
from nova_pinning.reports import gauges

_UNKNOWN = 'unknown'
_BYTES_PER_MIB = 1024 ** 2


def as_dict(found: capacity.Capacity, per_host: bool = False) -> dict[
        str, Any]:
    """All of it for JSON.

    :param per_host: whether to list the hosts
    """
    data: dict[str, Any] = {
        'version': 1,
        'source': found.fleet.source,
        'taken_at': found.fleet.taken_at,
        'hosts': len(found.hosts),
        'guests': len(found.fleet.guests),
        'flavors': [_flavor(size) for size in found.sizes()],
        'stranded': _stranded(total(found.hosts)),
        'by_class': {
            class_name(one): {
                'hosts': len(hosts),
                'flavors': [_counts(size) for size in found.sizes(hosts)],
                'stranded': _stranded(total(hosts)),
            } for one, hosts in found.by_class().items()},
        'mixes': [{
            'flavors': [
                {'name': wanted.name, 'weight': weight, 'fits': fits}
                for wanted, weight, fits in zip(
                    one.wanted, one.weights, one.mix.counts)],
            'fits': one.mix.guests,
            'bound': one.mix.bound,
            'exact': one.mix.is_exact,
        } for one in found.mixes],
        'left_out_of_mixes': dict(found.left_out),
    }
    if per_host:
        data['by_host'] = [{
            'name': host.host.name,
            'class': class_name(host.host.host_class),
            'flavors': [_counts(size) for size in found.sizes([host])],
            'stranded': _stranded(host.stranded),
        } for host in found.hosts]
    return data


def as_csv(found: capacity.Capacity, per_host: bool = False) -> str:
    """A line for each flavor and class of hosts, or flavor and host."""
    groups: Iterable[tuple[tuple[str, ...], Sequence[capacity.Host]]]
    if per_host:
        columns = ['host', 'class']
        groups = (((host.host.name, class_name(host.host.host_class)),
                   [host]) for host in found.hosts)
    else:
        columns = ['class']
        groups = (((class_name(one),), hosts)
                  for one, hosts in found.by_class().items())
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow([*columns, 'flavor', 'vcpus', 'memory_mib', 'fits',
                     'most', 'by_host_totals', 'missing_because'])
    for labels, hosts in groups:
        for size in found.sizes(hosts):
            flavor = size.wanted.flavor
            writer.writerow([
                *map(_cell, labels), _cell(flavor.name), flavor.vcpus,
                flavor.memory_mib, size.fits,
                '' if size.most is None else size.most, size.totals,
                next(iter(size.missing), '')])
    return text.getvalue()


def as_metrics(found: capacity.Capacity) -> str:
    """Gauges for Prometheus' textfile collector."""
    made = gauges.Gauges('nova_pinning_capacity')
    fits = made.add('guests', 'Further guests that nova will place',
                    'flavor', 'class')
    totals = made.add(
        'guests_by_host_totals',
        'Further guests that the free CPUs of hosts as a whole promise',
        'flavor', 'class')
    missing = made.add(
        'guests_missing',
        'Guests that host totals promise and that do not fit, by cause',
        'flavor', 'class', 'cause')
    free = made.add('free_cpus', 'Free dedicated CPUs', 'class')
    cpus = made.add(
        'stranded_cpus',
        'Free dedicated CPUs that no flavor on sale can use, by cause',
        'class', 'cause')
    orphans = made.add(
        'orphan_threads',
        'Free CPUs on cores of which another CPU is taken', 'class')
    memory = made.add(
        'stranded_memory_bytes',
        'Free memory for which no CPU is left, by page size', 'class',
        'page_size_kib')
    by_class = found.by_class()
    # What is missing is there with 0, so that an alert sees it come and go.
    page_sizes = _page_sizes(found)
    for one in (*hostclass.HostClass, None):
        name, hosts = class_name(one), by_class.get(one, [])
        for size in found.sizes(hosts):
            fits.labels(size.wanted.name, name).set(size.fits)
            totals.labels(size.wanted.name, name).set(size.totals)
            for cause, guests in size.missing.items():
                missing.labels(size.wanted.name, name, cause).set(guests)
        sums = total(hosts)
        free.labels(name).set(sums.free_cpus)
        orphans.labels(name).set(sums.orphans)
        for cause in count.Cause:
            cpus.labels(name, cause).set(sums.cpus.get(cause, 0))
        for page_size in page_sizes:
            memory.labels(name, page_size).set(
                sums.memory_mib.get(page_size, 0) * _BYTES_PER_MIB)
    return made.text()


def _page_sizes(found: capacity.Capacity) -> list[int]:
    """In KiB, as what is stranded has them."""
    layouts = {id(host.host.cells): host.host.cells for host in found.hosts}
    return sorted({0, *(pool.size_kib for cells in layouts.values()
                        for cell in cells for pool in cell.pages)})


def total(hosts: Iterable[capacity.Host]) -> stranded.Stranded:
    """What is stranded on hosts together."""
    found = stranded.Stranded()
    for host in hosts:
        found.add(host.stranded)
    return found


def class_name(host_class: object) -> str:
    """A class of hosts in words."""
    return _UNKNOWN if host_class is None else str(host_class)


def _flavor(size: capacity.Size) -> dict[str, Any]:
    flavor = size.wanted.flavor
    guest = size.wanted.topology
    return {
        'name': flavor.name,
        'class': str(size.wanted.guest_class),
        'vcpus': flavor.vcpus,
        'memory_mib': flavor.memory_mib,
        'cells': len(guest.cells) if guest is not None else 0,
        **_figures(size),
    }


def _counts(size: capacity.Size) -> dict[str, Any]:
    return {'name': size.wanted.name, **_figures(size)}


def _figures(size: capacity.Size) -> dict[str, Any]:
    return {
        'fits': size.fits,
        'most': size.most,
        'by_host_totals': size.totals,
        'missing': dict(_plain(size.missing.items())),
    }


def _stranded(one: stranded.Stranded) -> dict[str, Any]:
    return {
        'free_cpus': one.free_cpus,
        'stranded_cpus': dict(_plain(one.cpus.items())),
        'orphan_threads': one.orphans,
        'stranded_memory_mib': {
            str(size): mib for size, mib in sorted(one.memory_mib.items())},
    }


def _plain(items: Iterable[tuple[object, int]]) -> Iterator[tuple[str, int]]:
    return ((str(key), value) for key, value in items)


def _cell(text: str) -> str:
    """A name that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in ('=', '+', '-', '@') else text
