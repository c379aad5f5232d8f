# SPDX-License-Identifier: Apache-2.0
"""The page of the documentation that lists the register of defects."""

from collections.abc import Iterable
from collections.abc import Iterator

from nova_pinning.checks import reference
from nova_pinning.model import nova_release
from nova_pinning.upgrade import defect_model
from nova_pinning.upgrade import nova_version
from nova_pinning.upgrade import register
from nova_pinning.upgrade import upgrade_check

_NOTE = """\
.. Generated from nova_pinning/upgrade/register.yaml: this file is written by
   tools/write_check_references.py
"""
_LAUNCHPAD = 'https://bugs.launchpad.net/nova/+bug'
_OPENDEV = 'https://opendev.org/openstack/nova/commit'


def page(defects: register.DefectRegister) -> str:
    """A section for each defect, and each rule of upgrades, as reST."""
    by_code = {defect.code: defect for defect in defects.defects}
    return reference.page(upgrade_check.rules(), lambda code: (
        _fields(by_code[code]) if code in by_code else ()))


def moves_table(defects: register.DefectRegister) -> str:
    """What the newest version of each release gets wrong in moves, as reST.

    Mended before the oldest release that all this is tested with is left out.
    """
    return _NOTE + '\n'.join(_rows(defects)) + '\n'


def _rows(defects: register.DefectRegister) -> Iterator[str]:
    releases = [nova_version.NovaVersion(
        release.name, defects.newest[release.name], release)
        for release in nova_release.RELEASES
        if release.name in defects.newest]
    yield from ('', '.. list-table::', '   :header-rows: 1', '   :widths: '
                + ' '.join(['40', '20', *['8'] * len(releases)]), '')
    yield from _row(['', 'Moves', *(
        f'{version.name} ({nova_version.joined(defects.newest[version.name])})'
        for version in releases)])
    for defect in sorted(defects.defects, key=lambda one: one.code):
        moves = [str(operation) for operation in defect.operations
                 if operation in defect_model.MOVES]
        wrong = [defect.affects(version) for version in releases]
        if moves and any(wrong):
            yield from _row([
                f'{defect.code}: {defect.title}', ', '.join(moves),
                *('wrong' if one else '' for one in wrong)])


def _row(cells: Iterable[str]) -> Iterator[str]:
    for number, cell in enumerate(cells):
        yield f'   {" " if number else "*"} - {cell}'.rstrip()


def _fields(defect: defect_model.Defect) -> Iterator[str]:
    yield ''
    if defect.bug:
        yield f':bug: `{defect.bug} <{_LAUNCHPAD}/{defect.bug}>`__'
    releases = ', '.join(map(str, defect.in_releases))
    yield f':releases that have it: {releases or "older than all known ones"}'
    if defect.since:
        yield f':wrong in: {defect.since_text}'
    yield f':whose code: {defect.service}'
    if defect.shown_by.test:
        yield f':shown by: a test, ``{defect.shown_by.test}``'
    else:
        commit = defect.shown_by.commit
        yield (':shown by: the commit that mends it, '
               f'`{commit} <{_OPENDEV}/{commit}>`__')
    if defect.on_the_way_out:
        yield f':where the new version is right: {defect.on_the_way_out}'
