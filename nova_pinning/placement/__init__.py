# SPDX-License-Identifier: Apache-2.0
"""Placement: the traits that mark hosts, provider.yaml, and a client.

::

    from keystoneauth1 import adapter
    from nova_pinning.placement import client
    from nova_pinning.placement import placement_traits

    placement = client.PlacementClient(adapter.Adapter(
        session, service_type='placement'))
    for provider in placement.providers(required=placement_traits.DEDICATED):
        print(provider.name)
"""
