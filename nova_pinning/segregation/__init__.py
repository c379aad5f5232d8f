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
