# SPDX-License-Identifier: Apache-2.0
"""Dedicated and shared hosts of one cloud, and whether they are kept apart.

::

    import openstack
    from nova_pinning.model import hostclass
    from nova_pinning.segregation import change
    from nova_pinning.segregation import cloud

    nova = cloud.Cloud(openstack.connect(cloud='north'), 'north')
    for host in change.find_hosts(['cmp-d-1'], nova.hosts()):
        wanted = change.plan(host, hostclass.HostClass.DEDICATED)
        print(change.apply(nova, wanted).status)
"""
