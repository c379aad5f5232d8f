# SPDX-License-Identifier: Apache-2.0
"""What commands and options were called before, for who still writes that.

An old name is no alias: the command ends with an error that names the new one.
"""

import argparse
from collections.abc import Mapping
from collections.abc import Sequence
import sys

# As argparse ends.
_BAD_USAGE = 2

_SEPARATION = 'separation of the catalogue says it'
_NOVA_CONF = '--config-file NOVA.CONF, which says it'
#: The old name of an option, an option of the commands that had it, and what
#: to write now, or a sentence.
_OPTIONS: Sequence[tuple[str, str, str]] = (
    ('--auto-converge', '--maintenance-window', _NOVA_CONF),
    ('--default-zone', '--assume', _NOVA_CONF),
    ('--events', '--seeds', 'count=N of --arrivals, or a shorter trace'),
    ('--filters', '--assume', _NOVA_CONF),
    ('--isolated-aggregates', '--assume', _NOVA_CONF),
    ('--pci-alias', '--image-property', _NOVA_CONF),
    ('--separated-by', '--image-property', _SEPARATION),
    ('--dedicated-trait', '--image-property', _SEPARATION),
    ('--shared-trait', '--image-property', _SEPARATION),
    ('--post-copy', '--maintenance-window', _NOVA_CONF),
    ('--processes', '--seeds', 'write taskset -c CPUS before the command'),
    ('--accelerator', '--server-image', 'KVM is taken where a guest boots'),
    ('--boot-seconds', '--server-image', 'an instance has 300 seconds'),
    ('--claims', '--nova-claim', '--nova-claim'),
    ('--baseline', '--ignore', '--ignore FILE'),
    ('--catalogue', '--earlier', '--flavor CATALOGUE'),
    ('--catalogue', '--per-class', '--flavor CATALOGUE'),
    ('--class', '--per-class', '--per-class'),
    ('--cloud', '--server-image', 'write OS_CLOUD=NAME before the command'),
    ('--commands', '--diff', '--format commands'),
    ('--config-dir', '--config-file', '--config-file DIR'),
    ('--connect', '--server-image',
     'write LIBVIRT_DEFAULT_URI=URI before the command'),
    ('--dedicated-cpus', '--cpu-dedicated-set', '--cpu-dedicated-set'),
    ('--host', '--host-file', '--host-file'),
    ('--drawing', '--fleet-after', '--format drawing'),
    ('--drawing', '--nova-claim', '--format drawing'),
    ('--fit-width', '--column', 'write CLIFF_FIT_WIDTH=1 before the command'),
    ('--hosts', '--per-host', '--per-host'),
    ('--hosts', '--host-files', '--host-files'),
    ('--jobs', '--host-files', 'eight requests are made at once'),
    ('--limit', '--format', '--format json, which has all'),
    ('--limit', '--refusal-limit', '--refusal-limit'),
    ('--max-width', '--column',
     'write CLIFF_MAX_TERM_WIDTH=N before the command'),
    ('--noindent', '--column', 'pipe it through jq -c .'),
    ('--no-summary', '--poll-cpus', 'write 2>/dev/null'),
    ('--only', '--cpu-dedicated-set', '--format'),
    ('--only', '--lost', '--lost'),
    ('--out', '--isolation', '--output'),
    ('--output', '--ignore', 'write > FILE, as the shell has it'),
    ('-o', '--ignore', 'write > FILE, as the shell has it'),
    ('--plan', '--earlier', '--move-plan'),
    ('--prefix', '--column', 'pipe it through sed s/^/PREFIX/'),
    ('--print-empty', '--column', 'nothing is printed of what is empty'),
    ('--quote', '--column', 'what has to be is in quotes'),
    ('--release', '--undo', '--undo'),
    ('--shared-cpus', '--cpu-shared-set', '--cpu-shared-set'),
    ('--sort-ascending', '--sort-column', '--sort-column COLUMN'),
    ('--sort-descending', '--sort-column', '--sort-column COLUMN:desc'),
    ('--svg', '--column', '--format svg'),
    ('--svg', '--poll-cpus',
     'nova-pinning host show PLAN --format svg draws it'),
    ('--strict', '--fail-on', '--fail-on note'),
    ('--window', '--maintenance-window', '--maintenance-window'),
    ('--window', '--refusal-window', '--refusal-window'),
)

#: The old name of a command, and what to write now.
_COMMANDS: Mapping[str, str] = {
    'nova-pinning bench image build':
        'nova-pinning bench run EXPERIMENT --image DIR, which builds it',
    'nova-pinning bench list': 'nova-pinning bench run --dry-run',
    'nova-pinning flavor diff': 'nova-pinning flavor show NEW --diff OLD',
    'nova-pinning host provider-config':
        'nova-pinning host show HOST --format provider-config > FILE',
    'nova-pinning rebalance defragment':
        'nova-pinning rebalance plan FLEET --for SIZES',
    'nova-pinning rebalance drain':
        'nova-pinning rebalance plan FLEET --drain HOST',
    'nova-pinning rebalance verify':
        'nova-pinning rebalance show PLAN FLEET',
    'openstack pinning capacity':
        'openstack pinning fleet import | nova-pinning capacity -',
    'openstack pinning explain':
        'openstack pinning fleet import | nova-pinning explain - --flavor '
        'FLAVOR',
    'openstack pinning flavor diff':
        'openstack pinning flavor apply CATALOGUE --dry-run',
    'openstack pinning upgrade check':
        'openstack pinning fleet import -o FLEET, and then nova-pinning '
        'upgrade check FLEET --from RELEASE --to RELEASE',
}


def check_command(program: str, words: Sequence[str]) -> None:
    """End with an error that says what to write, if an old one is called.

    :param words: behind the program's name
    """
    line = ' '.join((program, *words, ''))
    for old, now in _COMMANDS.items():
        if line.startswith(f'{old} '):
            print(f"error: there is no command {old!r} any more: write {now}",
                  file=sys.stderr)
            sys.exit(_BAD_USAGE)


def options(known: Mapping[str, object]) -> Mapping[str, str]:
    """What to write now, by the names that a command's options once had.

    :param known: the options that it has
    """
    return {old: now for old, other, now in _OPTIONS
            if other in known and old not in known}


def check(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """End with an error that names the new option, if an old one is given."""
    old = options(parser._option_string_actions)
    for word in words:
        if word == '--':
            break
        name = word.partition('=')[0]
        if name in old:
            now = old[name]
            parser.error(f'there is no {name} any more: '
                         + (f'write {now}' if now[0] == '-' else now))
