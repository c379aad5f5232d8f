# SPDX-License-Identifier: Apache-2.0
"""Placement: the traits that mark hosts, provider.yaml, and a client.

::

    from keystoneauth1 import adapter
    from nova_pinning.placement import client
    from nova_pinning.placement import traits

    placement = client.Placement(adapter.Adapter(
        session, service_type='placement'))
    for provider in placement.providers(required=traits.DEDICATED):
        print(provider.name)
"""
