# SPDX-License-Identifier: Apache-2.0
"""What changed on a host between two sessions, of one run or of two."""

from collections.abc import Mapping
from collections.abc import Sequence

from nova_pinning.instance_bench import bench_model

#: Load of each CPU that matters.
LOAD = 0.25
# The memory is left out: what the kernel keeps of it goes by its version.
_ATTRIBUTES = {'cpu_model': 'CPU model', 'topology': 'topology',
               'kernel': 'kernel', 'governor': 'governor', 'smt': 'SMT'}
_MORE = {'memory_mib': 'MiB of memory', 'virtualised': 'virtualised',
         'emulated': 'emulated'}
_MAPPINGS = {'layout': '{} CPUs', 'mitigations': 'mitigation of {}'}


def changes(before: Sequence[bench_model.Conditions],
            now: bench_model.Conditions) -> tuple[str, ...]:
    """What is not as it was in a run, in words, the load left aside.

    :param before: of earlier sessions; the last counts. Of versions those
        that both know are compared, since a platform that was not used has
        told none
    """
    if not before:
        return ()
    versions: dict[str, str] = {}
    for session in before:
        versions |= session.versions
    both = sorted(versions.keys() & now.versions)
    return (_changed(before[-1], now, _ATTRIBUTES)
            + _changed_words('{}', {name: versions[name] for name in both},
                             {name: now.versions[name] for name in both}))


def between_runs(before: Sequence[bench_model.Conditions],
                 after: Sequence[bench_model.Conditions]) -> tuple[str, ...]:
    """What an operator may have changed between two runs, on purpose."""
    if not before or not after:
        return ()
    was, now = before[-1], after[-1]
    changed = _changed(was, now, _ATTRIBUTES | _MORE)
    if abs(was.load - now.load) > LOAD * now.cpus:
        changed += _changed_words('{}', {'load before': f'{was.load:.2f}'},
                                  {'load before': f'{now.load:.2f}'})
    return changed + _changed_words('{}', was.versions, now.versions)


def _changed(was: bench_model.Conditions, now: bench_model.Conditions,
             attributes: Mapping[str, str]) -> tuple[str, ...]:
    changed = _changed_words('{}', *(
        {word: getattr(conditions, name) for name, word in attributes.items()}
        for conditions in (was, now)))
    for name, words in _MAPPINGS.items():
        changed += _changed_words(
            words, getattr(was, name), getattr(now, name))
    return changed


def _changed_words(words: str, was: Mapping[str, object],
                   now: Mapping[str, object]) -> tuple[str, ...]:
    """:param words: with a place for the name of what changed"""
    names = was if was.keys() == now.keys() else sorted({*was, *now})
    return tuple(
        f'{words.format(name)}: {_word(was.get(name))}, now '
        f'{_word(now.get(name))}'
        for name in names
        if _word(was.get(name)) != _word(now.get(name)))


def _word(value: object) -> str:
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    return str(value or '') or 'none'
