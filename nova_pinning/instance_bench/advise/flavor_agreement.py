# SPDX-License-Identifier: Apache-2.0
"""Which flavors agree with all answers, so that they cannot contradict them.
"""

from collections.abc import Mapping
from collections.abc import Sequence

from nova_pinning.flavors.checks import checked
from nova_pinning.flavors import flavor_model
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.instance_bench.advise import advice_model
from nova_pinning import model

_SMALL_PAGES = frozenset(('', 'small', '4', '4kb', '4kib'))


def choose(
    flavors: Sequence[flavor_model.Flavor],
    lines: Sequence[advice_model.AdviceLine],
    host: host_model.HostDescription | None,
    refused: Mapping[str, str],
) -> tuple[tuple[str, ...], str]:
    """The flavors that agree with all answers, or what stands in the way.

    Devices are for who asks for them, which nobody can here.

    :param lines: that on the class first
    :param refused: why flavors do not go on the host, by their names; those
        that do are left out
    """
    ranked = []
    for flavor in flavors:
        if checked.CheckedFlavor(flavor).devices:
            continue
        values = flavor_values(flavor, host)
        way = [f'{advice_model.TOPICS[line.topic]} {line}, it has '
               f'{values[line.topic]}'
               for line in lines if not line.takes(values[line.topic])]
        lesser = [f'{advice_model.TOPICS[line.topic]} ({values[line.topic]})'
                  for line in lines
                  if str(values[line.topic]) in line.otherwise]
        # Of the class above all; then what is best, then what is smallest.
        ranked.append((
            not lines[0].takes(values['class']), len(way), len(lesser), sum(
                line.answers.index(str(values[line.topic])) for line in lines
                if values[line.topic] in line.answers),
            flavor.vcpus, flavor.memory_mib, flavor.name, lesser, way))
    if not ranked:
        return (), 'there are no flavors without devices'
    ranked.sort()
    fitting = {name: lesser for *_rank, name, lesser, way in ranked
               if not way and name not in refused}
    if fitting:
        names = tuple(fitting)
        why = 'it agrees with all answers'
        if fitting[names[0]]:
            why += (', with the second best in '
                    + ' and '.join(fitting[names[0]]))
        if names[1:]:
            why += f'; so do {", ".join(names[1:])}'
        return names, why
    nearest, _lesser, way = ranked[0][-3:]
    if nearest in refused:
        way = [*way, refused[nearest]]
    return (), f'{nearest} comes nearest; in the way: {"; ".join(way)}'


def flavor_values(
    flavor: flavor_model.Flavor,
    host: host_model.HostDescription | None = None,
) -> Mapping[str, str | int]:
    """What a flavor has on each topic, in the words of the answers.

    :param host: without which no more than one cell is known to be needed
    """
    subject = checked.CheckedFlavor(flavor)
    page = (subject.value('mem_page_size') or '').strip().lower()
    cells = checked.whole_number(subject.value('numa_nodes')) or int(
        subject.is_pinned or bool(page))
    fewest = 1 if host is None else max(1, *(
        -(-flavor.vcpus // max(1, max(
            len(cell.dedicated_cpus) for cell in engine.engine_cells(host)))),
        -(-flavor.memory_mib // max(
            node.memory_mib for node in host.nodes))))
    is_dedicated = subject.host_class == 'dedicated'
    return {
        'class': 'another' if subject.cpu_policy is model.CpuPolicy.MIXED
        or subject.is_pinned != is_dedicated else subject.host_class,
        'size': flavor.vcpus,
        'emulator': subject.emulator_policy or 'on-vcpus',
        'multiqueue': _on(subject.value('vif_multiqueue_enabled')),
        'pages': 'small' if page in _SMALL_PAGES else
        page if page == 'any' else 'huge',
        'cells': 'none' if not cells else 'fewest' if cells <= fewest
        else f'{cells} where {fewest} would do',
        'threads': str(subject.thread_policy),
        'realtime': _on(subject.value('cpu_realtime'))}


def _on(text: str | None) -> str:
    return 'on' if checked.is_true(text) else 'off'
