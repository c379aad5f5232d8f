# SPDX-License-Identifier: Apache-2.0
"""CPU models of hosts, and between which of them guests move live."""

from typing import Any

from nova_pinning.admission import offered_host
from nova_pinning.host import words


def of_cpu_info(cpu_info: Any) -> offered_host.HostCpuModel | None:
    """The model in what nova-compute reports of its CPUs.

    :param cpu_info: compute_nodes.cpu_info, decoded (nova's
        LibvirtDriver._get_cpu_info)
    :returns: None if it names no model, as libvirt does on ARM
    :raises AttributeError, TypeError, ValueError: if it is something else
    """
    model = cpu_info.get('model')
    if not model:
        return None
    features = cpu_info.get('features') or ()
    for text in (model, *features):
        if not isinstance(text, str):
            raise ValueError(f'{text!r} is no name')
    return offered_host.HostCpuModel(
        arch=cpu_info.get('arch') or '', vendor=cpu_info.get('vendor') or '',
        model=model, features=frozenset(features))


def live_refusal(source: offered_host.HostCpuModel | None,
                 target: offered_host.HostCpuModel | None) -> str:
    """Why a guest with its host's CPU model cannot move live; '' if it can.

    Nova-compute on the target asks libvirt whether its CPUs have all that the
    source's are reported with (LibvirtDriver._compare_cpu). What a model
    stands for only libvirt knows, so another model counts as incompatible,
    though libvirt may find that one has all of the other.

    :param source: None if not known, and then nothing is refused
    """
    if source is None or target is None or source == target:
        return ''
    if (source.arch, source.vendor, source.model) != (
            target.arch, target.vendor, target.model):
        return f'has CPUs of model {target}, its own host {source}'
    missing = sorted(source.features - target.features)
    if not missing:
        return ''
    return ("has CPUs without features of its own host's: "
            + words.listed(missing, 3))
