#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What changed on a host between two sessions of one run."""

from collections.abc import Sequence

from nova_pinning.bench import model

# The memory is left out: what the kernel keeps of it goes by its version.
_ATTRIBUTES = {'cpu_model': 'CPU model', 'topology': 'topology',
               'kernel': 'kernel', 'governor': 'governor', 'smt': 'SMT'}
_MAPPINGS = {'layout': '{} CPUs', 'mitigations': 'mitigation of {}'}


def changes(before: Sequence[model.Conditions],
            now: model.Conditions) -> tuple[str, ...]:
    """What is not as it was, in words, the load left aside.

    :param before: of earlier sessions; the last counts. Of versions those
        that both know are compared, since a platform that was not used has
        told none
    """
    if not before:
        return ()
    was = before[-1]
    found = [(word, str(getattr(was, name)), str(getattr(now, name)))
             for name, word in _ATTRIBUTES.items()]
    for name, words in _MAPPINGS.items():
        one, other = getattr(was, name), getattr(now, name)
        found += [(words.format(key), str(one.get(key, '')),
                   str(other.get(key, '')))
                  for key in sorted({*one, *other})]
    versions: dict[str, str] = {}
    for session in before:
        versions |= session.versions
    found += [(name, version, now.versions[name])
              for name, version in sorted(versions.items())
              if name in now.versions]
    return tuple(f'{name}: {old or "none"}, now {new or "none"}'
                 for name, old, new in found if old != new)
