# SPDX-License-Identifier: Apache-2.0
"""What several commands of bench need: options of platforms."""

import argparse
import dataclasses

from nova_pinning.cli import common_options
from nova_pinning.instance_bench.platforms import settings

_MAX_SECONDS = 24 * 60 * 60


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add an option for each of the settings of platforms."""
    usual = settings.PlatformSettings()
    guests = parser.add_argument_group('guests (vm, vmcn)')
    guests.add_argument('--connect', metavar='URI', default=usual.connect,
                        help="libvirt's URI (default: %(default)s)")
    guests.add_argument('--image', metavar='DIR', default='',
                        help='what nova-pinning bench image build made')
    guests.add_argument('--accelerator', choices=('kvm', 'tcg'), default='',
                        help='if not given, KVM where a guest boots with it')
    cloud = parser.add_argument_group('servers of a cloud (nova)')
    cloud.add_argument('--cloud', metavar='NAME', default='',
                       help='in clouds.yaml; OS_CLOUD and the like by '
                       'default')
    cloud.add_argument('--server-image', metavar='IMAGE',
                       default=usual.server_image,
                       help='that servers boot (default: %(default)s)')
    cloud.add_argument('--hypervisor', metavar='COMMAND', default='',
                       help="put before virsh to reach a compute host's "
                       "libvirt, {host} being the host's name: 'ssh {host}'")
    inside = parser.add_argument_group('guests and servers')
    inside.add_argument('--boot-seconds', metavar='SECONDS',
                        type=common_options.number(1, _MAX_SECONDS),
                        default=int(usual.boot_seconds),
                        help='after which an instance that does not answer '
                        'has failed (default: %(default)s)')


def read_settings(
        parsed_args: argparse.Namespace) -> settings.PlatformSettings:
    """What the options of add_settings say."""
    names = (field.name for field in dataclasses.fields(
        settings.PlatformSettings))
    return dataclasses.replace(
        settings.PlatformSettings(**{
            name: getattr(parsed_args, name) for name in names}),
        boot_seconds=float(parsed_args.boot_seconds))
