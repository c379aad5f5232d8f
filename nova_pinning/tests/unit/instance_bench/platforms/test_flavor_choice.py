# SPDX-License-Identifier: Apache-2.0

import ddt
import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.platforms import flavor_choice
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes
from nova_pinning.tests.unit import unit_base


def flavor(name='f', vcpus=1, memory_mib=512, **extra_specs):
    return flavor_model.Flavor(
        name=name, id=f'id-{name}', vcpus=vcpus, memory_mib=memory_mib,
        extra_specs={key.replace('__', ':'): value
                     for key, value in extra_specs.items()})


def shared(**changes):
    return platform_fakes.tenant(**{**platform_fakes.FLOATING, **changes})


def pinned(name='f', **more):
    return flavor(name, hw__cpu_policy='dedicated', **more)


def choose(tenant, *flavors, weights_differ=False):
    return flavor_choice.choose(tenant, flavors, weights_differ).name


@ddt.ddt
class TestChoose(testtools.TestCase):

    @ddt.data(
        (platform_fakes.tenant(), 'pinned'),
        (shared(), 'plain'),
        (shared(guest_class=hostclass.HostClass.DEDICATED), 'floating'),
        (platform_fakes.tenant(
            emulator_threads=bench_model.EmulatorThreads.ISOLATE),
         'isolate'),
        (platform_fakes.tenant(
            emulator_threads=bench_model.EmulatorThreads.VCPUS),
         'pinned'),
        (platform_fakes.tenant(queues=bench_model.NetworkQueues.VCPUS),
         'queues'),
        (platform_fakes.tenant(queues=bench_model.NetworkQueues.ONE),
         'pinned'),
        (shared(weight=50), 'half'),
        (shared(size=bench_model.InstanceSize(vcpus=2, memory_mib=512)),
         'two'),
        (shared(size=bench_model.InstanceSize(vcpus=1, memory_mib=1024)),
         'large'),
        (platform_fakes.tenant(flavor='isolate'), 'isolate'),
        (platform_fakes.tenant(flavor='id-isolate'), 'isolate'))
    @ddt.unpack
    def test_by_class_and_size(self, tenant, expected):
        self.assertEqual(expected, choose(
            tenant,
            pinned('queues', hw__vif_multiqueue_enabled='true'),
            pinned('isolate', hw__emulator_threads_policy='isolate'),
            pinned('pinned'), flavor('plain'), flavor('two', vcpus=2),
            flavor('large', memory_mib=1024),
            flavor('half', quota__cpu_shares='50'),
            flavor('floating', pinning__class='dedicated')))

    @ddt.data(
        # The plainest.
        (platform_fakes.tenant(), pinned('a', hw__mem_page_size='large'),
         pinned('c'), pinned('b')),
        # One that names the usual weight.
        (shared(), flavor('b', quota__cpu_shares='100')),
        # A weight is of each vCPU, as the shipped catalogue has it.
        (shared(size=bench_model.InstanceSize(vcpus=2, memory_mib=512)),
         flavor('a', vcpus=2, quota__cpu_shares='100'),
         flavor('b', vcpus=2, quota__cpu_shares='200')))
    def test_among_several(self, wanted_and_flavors):
        self.assertEqual('b', choose(*wanted_and_flavors))

    def test_usual_weight_beside_another(self):
        wanted = shared()
        self.assertEqual('b', choose(
            wanted, flavor('a'), flavor('b', quota__cpu_shares='100'),
            weights_differ=True))
        error = self.assertRaises(
            errors.InputError, choose, wanted, flavor('a'),
            weights_differ=True)
        self.assertIn('--property=quota:cpu_shares=100', str(error))

    def test_none(self):
        error = self.assertRaises(
            errors.InputError, choose,
            platform_fakes.tenant(
                emulator_threads=bench_model.EmulatorThreads.SHARE), flavor())
        self.assertEqual(
            "the cloud has no flavor for tenant 'enterprise'; create it: "
            'openstack flavor create --vcpus 1 --ram 512 --disk 4 '
            '--property=hw:cpu_policy=dedicated '
            '--property=hw:emulator_threads_policy=share bench-dedicated-1',
            str(error))

    def test_none_of_dedicated_class_that_floats(self):
        error = self.assertRaises(
            errors.InputError, choose,
            shared(guest_class=hostclass.HostClass.DEDICATED, weight=50))
        self.assertIn('--property=quota:cpu_shares=50 '
                      '--property=pinning:class=dedicated', error.advice)

    def test_pinned_and_shared(self):
        error = self.assertRaises(
            errors.InputError, choose,
            platform_fakes.tenant(guest_class=hostclass.HostClass.SHARED),
            pinned())
        self.assertEqual('nova pins servers of the dedicated class only',
                         error.advice)

    def test_named_and_not_there(self):
        error = self.assertRaises(errors.InputError, choose,
                                  platform_fakes.tenant(flavor='x'), pinned())
        self.assertIn("no flavor 'x'", error.message)
        self.assertIn('hw:cpu_policy=dedicated x', error.advice)

    @ddt.data(
        (pinned(vcpus=2, quota__cpu_shares='200'),
         'vCPUs: 2, not 1; quota:cpu_shares: 200, not left out or 100'),
        (pinned(memory_mib=1), 'memory in MiB: 1, not 512'),
        (flavor(), 'hw:cpu_policy: not set, not dedicated; '
                   'class: shared, not dedicated'),
        (pinned(pinning__class='odd'),
         "flavor extra spec pinning:class is 'odd'; it can be dedicated or "
         'shared'),
        (pinned(quota__cpu_shares='7'),
         'quota:cpu_shares: 7, not left out or 100'))
    @ddt.unpack
    def test_named_and_not_fit(self, found, wrong):
        error = self.assertRaises(errors.InputError, choose,
                                  platform_fakes.tenant(flavor='f'), found)
        self.assertEqual(
            f"flavor 'f' is not what tenant 'enterprise' wants: {wrong}",
            error.message)

    @unit_base.settings(max_examples=50)
    @hypothesis.given(strategies.data())
    def test_what_is_advised_is_chosen(self, data):
        draw = data.draw
        wanted = platform_fakes.tenant(
            provisioning=draw(strategies.sampled_from(
                bench_model.Provisioning)),
            guest_class=draw(strategies.sampled_from(hostclass.HostClass)),
            size=bench_model.InstanceSize(
                vcpus=draw(strategies.integers(1, 64)),
                memory_mib=draw(strategies.integers(1, 4096))),
            weight=draw(strategies.sampled_from([50, 100, 200])),
            emulator_threads=draw(
                strategies.sampled_from([None, *bench_model.EmulatorThreads])))
        differ = draw(strategies.booleans())
        error = self.assertRaises(
            errors.InputError, choose, wanted, weights_differ=differ)
        words = error.advice.split()
        if words[0] == 'nova':
            return
        specs = dict(
            word.removeprefix('--property=').split('=', 1)
            for word in words if '=' in word)
        made = flavor_model.Flavor(
            name=words[-1], extra_specs=specs,
            vcpus=int(words[words.index('--vcpus') + 1]),
            memory_mib=int(words[words.index('--ram') + 1]))
        self.assertEqual(words[-1], choose(
            wanted, made, weights_differ=differ))
