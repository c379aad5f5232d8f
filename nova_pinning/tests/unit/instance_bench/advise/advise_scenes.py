# SPDX-License-Identifier: Apache-2.0
"""Questions about the hosts that come with the package."""

from nova_pinning.host import host_loader
from nova_pinning.instance_bench.advise import advice_model
from nova_pinning.instance_bench import bench_model
from nova_pinning.tests.unit.cli import cli_case

HOSTS = {path.stem: host_loader.load(str(path))
         for path in sorted((cli_case.ETC / 'hosts').glob('*.yaml'))}
GUESTS = ('vm', 'vmcn', 'nova')


def ask(load='cpu', platform='nova', is_steady=False, host=None, workload='',
        workload_class=bench_model.WorkloadClass.CPU):
    return advice_model.Question(
        workload=workload, workload_class=workload_class,
        load=advice_model.WorkloadBound(load), is_steady=is_steady,
        platform=bench_model.PlatformName(platform),
        host=HOSTS[host] if isinstance(host, str) else host)


def line(advice, topic):
    return next(line for line in advice.lines if line.topic == topic)
