# SPDX-License-Identifier: Apache-2.0
"""Schedule a guest with the filters and weighers of nova-pinning alone.

    python -I tools/check_base_install.py

nova's own handlers load them, as for nova-scheduler. ``tox -e bare`` runs
this where nothing but the wheel and what it depends on is installed.
"""

import contextlib
import io
import pathlib
import sys
import tempfile

from nova import config
from nova.scheduler import filters
from nova.scheduler import weights

import nova_pinning
from nova_pinning import conf
from nova_pinning.scheduler import selftest

# Behind what is installed, for benchmarks alone.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks import requests  # noqa: E402
from benchmarks.speed import hosts  # noqa: E402


def schedule():
    """Return the names of the hosts that will do, the best one first."""
    request = requests.Request(4, 4096, {'hw:cpu_policy': 'dedicated'})
    spec = request.spec()
    records = [hosts.fill_cells(hosts.TWO_SOCKETS, free, name)
               for name, free in (('full', (2, 2)), ('scattered', (5, 7)),
                                  ('exact', (4, 0)))]
    states = [hosts.host_state(record, [request.candidate(record.uuid)])
              for record in records]
    handler = filters.HostFilterHandler()
    chosen = [kind() for kind in handler.get_matching_classes(
        ['nova_pinning.scheduler.filters.all_filters'])]
    states = handler.get_filtered_objects(chosen, states, spec)
    handler = weights.HostWeightHandler()
    weighers = [kind() for kind in handler.get_matching_classes(
        ['nova_pinning.scheduler.weights.all_weighers'])]
    print(*(type(one).__name__ for one in (*chosen, *weighers)), sep=', ')
    return [weighed.obj.host for weighed in handler.get_weighed_objects(
        weighers, states, spec)]


def main():
    print(f'{nova_pinning.__file__}, {len(sys.modules)} modules')
    config.parse_args(['check'], default_config_files=[],
                      configure_db=False, init_rpc=False)
    # There is no Placement to ask.
    conf.CONF.set_override('traits_refresh_seconds', 0, group='pinning')
    result = selftest.run()
    print(f'self-test: {result}')
    found = schedule()
    print(f'hosts: {found}')
    said = io.StringIO()
    with (tempfile.NamedTemporaryFile('w', suffix='.zst') as fleet,
          contextlib.redirect_stderr(said)):
        print('packed', file=fleet, flush=True)
        try:
            # Whatever of its packages is not there, it says so.
            from nova_pinning.cli import shell
            status = shell.main(['fleet', 'show', fleet.name])
        except SystemExit as end:
            status = end.code
    print(f'nova-pinning: {status}, {said.getvalue()}')
    return not (
        result.checked and not result.failures and
        found == ['exact', 'scattered'] and
        status == 2 and 'nova-pinning[tools]' in said.getvalue())


if __name__ == '__main__':
    sys.exit(main())
