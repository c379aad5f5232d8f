# SPDX-License-Identifier: Apache-2.0
"""Dedicated and shared hosts of one cloud, and whether they are kept apart.

::

    import openstack
    from nova_pinning.model import hostclass
    from nova_pinning.segregation import class_change
    from nova_pinning.segregation import segregation_cloud

    nova = segregation_cloud.SegregationCloud(
        openstack.connect(cloud='north'), 'north')
    for host in class_change.find_hosts(['cmp-d-1'], nova.hosts()):
        wanted = class_change.plan_change(
            host, hostclass.HostClass.DEDICATED)
        print(class_change.apply(nova, wanted, {}).status)
"""
