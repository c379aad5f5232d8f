# SPDX-License-Identifier: Apache-2.0
"""nova-pinning bench image build: the image that guests are booted from."""

import argparse
from collections.abc import Iterator
import contextlib
import pathlib
import sys

import rich.progress

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import progress_bars
from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.image import build
from nova_pinning.instance_bench import image_manifest
from nova_pinning.instance_bench.workloads import workload_catalogue

_INTERRUPTED = 130
_MAX_GIB = 1024


class BuildImage(base_command.FileCommand):
    """Build the image that guests of benchmarks are booted from.

    Made of Debian packages with mmdebstrap: a kernel, the QEMU guest agent,
    and what workloads need; no service manager and no timers, so that nothing
    runs beside a workload. The directory gets a bootable disk (qcow2), its
    kernel and initial file system to boot directly, and manifest.json. It is
    there as a whole or not at all; an image that is there is replaced.

    Root can log in on the serial console without a password. Do not put such
    a guest where others reach its console.

    Examples::

      sudo nova-pinning bench image build -o /var/lib/bench-image
      sudo nova-pinning bench image build -o small --size 4 \\
        --workload sysbench-cpu --workload stream --cache packages
      openstack image create --disk-format qcow2 --container-format bare \\
        --file /var/lib/bench-image/disk.qcow2 \\
        --property hw_qemu_guest_agent=yes nova-pinning-bench
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('-o', '--output', metavar='DIR',
                            type=common_options.file_path,
                            default='nova-pinning-bench-image',
                            help='directory to make (default: %(default)s)')
        parser.add_argument('--suite', default='bookworm',
                            help='of Debian (default: %(default)s)')
        parser.add_argument('--workload', metavar='NAME', action='append',
                            help='put in what this one needs; may be given '
                            'several times; all that ship, and those of '
                            '--workloads, unless given')
        parser.add_argument('--workloads', metavar='FILE', action='append',
                            default=[], help='workloads of your own; may be '
                            'given several times')
        parser.add_argument('--size', metavar='GiB', default=8,
                            type=common_options.number(1, _MAX_GIB),
                            help='of the disk, as guests see it (default: '
                            '%(default)s)')
        parser.add_argument('--sources', metavar='FILE', default='',
                            help='where packages come from, as apt has it in '
                            'sources.list.d; unless given, what this host '
                            'has for the suite')
        parser.add_argument('--cache', metavar='DIR', default='',
                            help='keep packages there, so that the next '
                            'image takes less time')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        wish = build.ImageSpec(
            workloads=_workloads(parsed_args), suite=parsed_args.suite,
            size_gib=parsed_args.size, sources=parsed_args.sources,
            cache=parsed_args.cache)
        output = pathlib.Path(parsed_args.output).absolute()
        build.check(wish, output)
        try:
            with _steps() as tell:
                made = build.build_image(wish, output, tell)
        except KeyboardInterrupt:
            print('interrupted: nothing was left behind', file=sys.stderr)
            return _INTERRUPTED
        except bench_errors.BenchError as error:
            raise errors.InputError(str(error), advice=error.advice) from None
        except OSError as error:
            raise errors.InputError(
                f'cannot be written: {error.strerror}',
                errors.Location(str(error.filename or output))) from error
        print(_summary(output, made))
        return base_command.OK


def _workloads(
    parsed_args: argparse.Namespace,
) -> tuple[bench_model.Workload, ...]:
    known = workload_catalogue.load(parsed_args.workloads)
    for name in parsed_args.workload or ():
        if name not in known:
            raise errors.InputError(f'there is no workload {name!r}',
                                    errors.Location('--workload'),
                                    common_options.known(sorted(known)))
    return tuple(known[name] for name in dict.fromkeys(
        parsed_args.workload or known))


def _summary(output: pathlib.Path, made: image_manifest.Manifest) -> str:
    size_mib = (output / image_manifest.DISK).stat().st_blocks * 512 // 2 ** 20
    return (f'{output}: Debian {made.suite}, kernel {made.kernel}, '
            f'{len(made.packages)} packages, {size_mib} MiB, workloads '
            f'{", ".join(made.workloads)}')


@contextlib.contextmanager
def _steps() -> Iterator[build.Tell]:
    """Shows what is being done: a line each, or one that changes."""
    with progress_bars.progress_bars(
            rich.progress.SpinnerColumn(),
            rich.progress.TextColumn('{task.description}'),
            rich.progress.TimeElapsedColumn()) as bars:
        if bars.disable:
            yield lambda text: print(text, file=sys.stderr)
            return
        task = bars.add_task('')
        yield lambda text: bars.update(task, description=text[:100])
