# SPDX-License-Identifier: Apache-2.0
"""On how many L3 caches the guests of a catalogue lie.

The command is ``python -m benchmarks.caches``. For kinds of hosts that are
sold today, with what firmware and nova can do about it, it simulates what
``host plan --caches`` does.
"""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
import sys

from benchmarks import judging
from benchmarks import runner
from nova_pinning import errors
from nova_pinning.fleet import shapes
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.host import words
from nova_pinning.simulation import cache_forecast
from nova_pinning.simulation import statistic

#: The sizes of etc/nova-pinning/flavors.yaml, the small ones more often.
MIX = '2:30,4:25,8:20,16:12,32:8,64:5'
_SEEDS, _FEW_SEEDS = 8, 1


def _host(name: str, cores: int, l3_cores: int, sockets: int = 2,
          threads: int = 2, nodes: int = 1) -> shapes.HostTemplate:
    """:param cores: of a socket, as nodes are"""
    return shapes.HostTemplate(
        name=name, description='', sockets=sockets, cells_per_socket=nodes,
        cores=cores // nodes, threads=threads, l3_cores=l3_cores,
        memory_mib=cores * 16384 // nodes, memory_per_vcpu_mib=4096, mix=MIX)


#: The largest of each family. Cores that share an L3 cache are those of the
#: makers' descriptions: AMD's of EPYC 7002, 7003, 9004 and 9005 (Bergamo has
#: two caches on each die), Intel's of sub-NUMA clustering (the nodes of a
#: socket share the cache), Arm's of Neoverse (one system cache on the mesh),
#: HiSilicon's of the Kunpeng 920 (one for each die).
HOSTS = (
    _host('rome', 64, 4), _host('milan', 64, 8), _host('genoa', 96, 8),
    _host('bergamo/turin', 128, 8),
    _host('turin-dense', 192, 16), _host('xeon-snc2', 60, 60, nodes=2),
    _host('altra', 80, 80, threads=1), _host('graviton4', 96, 96, threads=1),
    _host('kunpeng-920', 64, 32, threads=1, nodes=2))


def measure(cases: Sequence[shapes.HostTemplate], options: argparse.Namespace,
            step: runner.Step) -> list[runner.Outcome]:
    """Simulate some of the hosts with each setting."""
    seeds = _FEW_SEEDS if options.quick else _SEEDS
    wanted = plan_request.PlanOptions(
        sizes=plan_request.parse_sizes(MIX, errors.Location('mix')))
    outcomes: list[runner.Outcome] = []
    for case in cases:
        step(case.name)
        outcomes += _outcomes(case.name, cache_forecast.study(
            planner.plan(case.hardware(), wanted), wanted,
            seeds=range(seeds)))
    return outcomes


def _outcomes(host: str,
              study: cache_forecast.CacheStudy) -> Iterator[runner.Outcome]:
    """The bar is that the setting that is proposed sells as much."""
    found = study.forecasts[0]
    for forecast in study.forecasts:
        name, is_proposed = forecast.setting.name, forecast is study.proposed
        ratios = statistic.estimate([
            share / before for share, before in zip(
                forecast.limits, found.limits)])
        assert ratios is not None
        error = ratios.error or 0.0
        full = forecast.full
        yield runner.Outcome(
            name=f'{host}, {name}', cells=(
                host, name,
                f'{forecast.on_fewest:.1%}',
                f'{full.caches / max(1, full.guests):.2f}',
                f'{forecast.ratio:.2f}', f'{forecast.sold:.1%}',
                f'{forecast.sold_by_nova:.1%}',
                words.span(forecast.worst_claim_seconds)
                if forecast.slow_claims else ''),
            bars=[judging.at_least(
                (ratios.mean - error, ratios.mean + error),
                cache_forecast.LEAST_SOLD, '{:.1%}'.format)
            ] if is_proposed else (),
            problems=['no setting has guests on few L3 caches']
            if is_proposed and not forecast.is_good else ())


def _explain(_outcomes: Sequence[runner.Outcome],
             _options: argparse.Namespace) -> str:
    return (
        'Hosts of two sockets. Guests by vCPUs, with how often: '
        f'{MIX}. Fewest: guests on as few L3 caches as can be; caches: of a '
        'guest; ratio: of them to the fewest, while 85 to 95% of the CPUs are '
        'sold. Sold: CPUs when 1% of the guests were refused, with this '
        "project's weighers; nova's: with its own as they are by default. "
        'Claims: how long nova-compute takes at worst, where some guests find '
        'only hosts on which it is more than a second; spread: without '
        "nova's packing strategy. The verdict is on the setting that is "
        'proposed: it keeps guests together and sells 98% of what the host as '
        'found does.')


GROUPS = [runner.Group(
    cases=HOSTS, measure=measure, numbers=range(2, 7), explain=_explain,
    is_quick=lambda case: case.cpus <= 256, headings=(
        'Host', 'NUMA nodes', 'fewest', 'caches', 'ratio', 'sold', "nova's",
        'claims'))]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study, and return the exit status."""
    parser = runner.parser(
        'python -m benchmarks.caches', (__doc__ or '').partition('\n')[0],
        GROUPS)
    return runner.run(parser.parse_args(argv), GROUPS, parser.prog)


if __name__ == '__main__':
    sys.exit(main())
