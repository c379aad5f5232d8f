# SPDX-License-Identifier: Apache-2.0
"""The image that guests of benchmarks are booted from, built if missing."""

from collections.abc import Collection
from collections.abc import Iterator
import contextlib
import pathlib
import sys

import rich.progress

from nova_pinning.cli import progress_bars
from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.image import build
from nova_pinning.instance_bench import image_manifest


def build_missing(directory: str,
                  workloads: Collection[bench_model.Workload]) -> None:
    """Build the image, if there is none in a directory.

    :raises errors.InputError: if it cannot be built, or is none
    """
    output = pathlib.Path(directory).absolute()
    if (output / image_manifest.MANIFEST).is_file():
        return
    build.check(output)
    try:
        with _steps() as tell:
            made = build.build_image(workloads, output, tell)
    except bench_errors.BenchError as error:
        raise errors.InputError(str(error), advice=error.advice) from None
    except OSError as error:
        raise errors.InputError(
            f'cannot be written: {error.strerror}',
            errors.Location(str(error.filename or output))) from error
    print(_summary(output, made), file=sys.stderr)


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
