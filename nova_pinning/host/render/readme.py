# SPDX-License-Identifier: Apache-2.0
"""README.txt: which file is for what, and in which order they go in."""

from collections.abc import Iterable
from collections.abc import Iterator
import textwrap

from nova_pinning.host.render import forms
from nova_pinning.host.render import manifest
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host

PATH = 'README.txt'


def file(
    layout: planned_host.PlannedHost, chosen: options.RenderOptions,
    plain: Iterable[manifest.RenderedFile],
    rendered: Iterable[manifest.RenderedFile],
) -> manifest.RenderedFile:
    """What to read first.

    :param plain: the files as they go on a host
    :param rendered: those that are written, in any form
    """
    parts = ((name, cpus) for name, cpus in (
        ('host', layout.host_cpus), ('poll', layout.poll_cpus),
        ('shared', layout.shared_cpus),
        ('dedicated', layout.dedicated_cpus)) if cpus)
    paragraphs = [
        f'Files for hosts like {layout.name}, written by nova-pinning host '
        'render.',
        f'CPUs: {"; ".join(f"{name} {cpus}" for name, cpus in parts)}.',
        'In this order:',
        *(f'{number}. {step}'
          for number, step in enumerate(_steps(chosen, tuple(plain)), 1)),
        'Host services are kept off the CPUs of guests by ' + (
            "tuned's profile cpu-partitioning, which sees to systemd, "
            'workqueues and the kernel command line (nohz_full) as well.'
            if chosen.confinement is options.Confinement.TUNED
            else 'CPUAffinity= of systemd.'),
        'To take it all back, empty the host, disable the units, take the '
        'files away, and update-grub and boot again.',
        'The files, and how each takes effect where a host is not booted '
        'anew:']
    text = '\n\n'.join(textwrap.fill(
        paragraph, 78, break_long_words=False, break_on_hyphens=False,
        subsequent_indent='   ' if paragraph[:1].isdigit() else '')
        for paragraph in paragraphs)
    return manifest.RenderedFile(PATH,
                                 text + '\n\n' + '\n'.join(_listed(rendered)),
                                 'what to read first', 'by reading')


def _steps(chosen: options.RenderOptions,
           plain: tuple[manifest.RenderedFile, ...]) -> Iterator[str]:
    yield ('Empty the host: disable its nova-compute and migrate its guests '
           'away. Guests keep the CPUs they had.')
    form = forms.FORMS.get(chosen.format)
    yield form.install if form else (
        'Copy the files, as they lie, below the root of the host, keeping '
        'their modes: scripts are executable.')
    yield from (
        file.before_boot for file in plain if file.before_boot
        and (form is None or file.part not in form.takes_over))
    yield 'Boot the host.'
    yield from (file.after_boot for file in plain if file.after_boot)
    yield 'nova-pinning host check PLAN on the host tells what is not right.'
    yield 'Enable nova-compute again.'


def _listed(files: Iterable[manifest.RenderedFile]) -> Iterator[str]:
    for rendered in files:
        mode = ' (executable)' if rendered.executable else ''
        yield f'{rendered.path}{mode}'
        for line in (rendered.summary,
                     f'takes effect: {rendered.takes_effect}'):
            yield textwrap.fill(line, 78, initial_indent='    ',
                                subsequent_indent='    ',
                                break_on_hyphens=False)
    yield ''
