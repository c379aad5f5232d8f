# SPDX-License-Identifier: Apache-2.0
"""Where interrupts and threads that serve guests go, and floating guests."""

from nova_pinning.agent import agent_model
from nova_pinning.agent import decision
from nova_pinning.agent import home_domains
from nova_pinning.agent import interrupts
from nova_pinning import cpuset
from nova_pinning.tests import forms
from nova_pinning.tests.oracle import agent_home_fuzz
from nova_pinning.tests.unit import unit_base

CPUS = cpuset.CpuSet.parse


def host(**values):
    """Four L3 domains of four CPUs on two nodes, each with one of each."""
    return agent_model.AgentHost(**{
        'l3_domains': {domain: cpuset.CpuSet(range(4 * domain, 4 * domain + 4))
                       for domain in range(4)},
        'nodes': {0: CPUS('0-7'), 1: CPUS('8-15')},
        'host_cpus': CPUS('0,8'), 'shared_cpus': CPUS('1,5'),
        'dedicated_cpus': CPUS('2-4,6-7,9-15'), **values})


def guest(cpus, **values):
    pins = {number: CPUS(str(cpu)) for number, cpu in enumerate(CPUS(cpus))}
    return agent_model.AgentGuest(**{
        'uuid': f'uuid-{cpus}', 'name': cpus, 'pid': 1000 + min(CPUS(cpus)),
        'vcpus': pins, 'emulator_cpus': CPUS(cpus),
        'emulator_group': f'uuid-{cpus}', **values})


def nic(*numbers, **queues):
    return agent_model.ServingNic('0000:01:00.0', ('eth0',), numbers, queues)


class StaticTestCase(unit_base.TestCase):

    def wanted(self, the_host, *guests, present=()):
        return {str(setting): str(cpus) for setting, cpus
                in interrupts.desired(the_host, guests,
                                      dict(present)).items()}

    def test_emulator_threads_share_the_cache(self):
        self.assertEqual(
            {'group uuid-6-7': '5', 'thread 1006/1006': '5',
             'thread 1006/77': '5'},
            self.wanted(host(), guest(
                '6-7', vhost=frozenset([77]),
                emulator_tasks=frozenset([1006]))))

    def test_their_group_lets_them_go_there_first(self):
        first, *_others = self.wanted(host(), guest(
            '6-7', emulator_tasks=frozenset([1006])))
        self.assertEqual('group uuid-6-7', first)

    def test_without_a_group(self):
        """Libvirt runs in a session, or without control groups."""
        self.assertEqual({'thread 1006/1006': '5'}, self.wanted(host(), guest(
            '6-7', emulator_group='', emulator_tasks=frozenset([1006]))))

    def test_else_they_share_the_node(self):
        self.assertEqual({'group uuid-12-13': '8'},
                         self.wanted(host(), guest('12-13')))

    def test_else_they_stay(self):
        self.assertEqual({}, self.wanted(
            host(host_cpus=CPUS('0'), shared_cpus=CPUS('1')), guest('12')))

    def test_isolated_emulator_threads_stay(self):
        """Nova has given them a dedicated CPU."""
        self.assertEqual({}, self.wanted(
            host(), guest('6', emulator_cpus=CPUS('7'))))

    def test_interrupts_of_devices_of_guests(self):
        self.assertEqual(
            '0', self.wanted(
                host(interrupts={'0000:81:00.0': (33,)}),
                guest('2', hostdevs=frozenset(['0000:81:00.0'])),
            )['interrupt 33'])

    def test_queues_go_where_the_guests_are(self):
        here = host(nics=(nic(40, 41, 42, 43),))
        wanted = self.wanted(here, guest('2', interfaces=3),
                             guest('9', interfaces=1))
        self.assertEqual(
            ['0', '0', '0', '8'],
            sorted(cpus for setting, cpus in wanted.items()
                   if setting.startswith('interrupt')))

    def test_queues_that_are_right_stay(self):
        here = host(nics=(nic(40, 41),))
        present = {agent_model.interrupt(40): CPUS('8'),
                   agent_model.interrupt(41): CPUS('0')}
        wanted = self.wanted(here, guest('2', interfaces=1),
                             guest('9', interfaces=1), present=present)
        self.assertEqual(('8', '0'), (wanted['interrupt 40'],
                                      wanted['interrupt 41']))

    def test_no_guest_no_change(self):
        self.assertEqual({}, self.wanted(host(nics=(nic(40, 41),))))

    def test_packet_steering(self):
        here = host(nics=(nic(
            40, 41, **{'eth0/queues/tx-0/xps_cpus': 0,
                       'eth0/queues/tx-1/xps_cpus': 1,
                       'eth0/queues/rx-0/rps_cpus': 0}),))
        wanted = self.wanted(
            here, guest('2', interfaces=1), guest('6', interfaces=1),
            guest('9', interfaces=1))
        # Fewer queues than caches with guests: the others get theirs too.
        self.assertEqual('0,5,8', wanted['queue eth0/queues/rx-0/rps_cpus'])
        near = {'0': '0-1', '5': '5', '8': '8'}
        for number in 0, 1:
            self.assertEqual(
                near[wanted[f'interrupt {40 + number}']],
                wanted[f'queue eth0/queues/tx-{number}/xps_cpus'])
        self.assertNotIn('queue eth0/queues/rx-0/rps_cpus', self.wanted(
            here, guest('2', interfaces=1)))

    def test_never_on_dedicated_cpus(self):
        here = host(nics=(nic(*range(40, 50)),))
        for cpus in interrupts.desired(
                here, [guest(str(cpu), interfaces=1)
                       for cpu in here.dedicated_cpus], {}).values():
            self.assertTrue(cpus.isdisjoint(here.dedicated_cpus))


class DynamicTestCase(unit_base.TestCase):

    DOMAINS = {0: CPUS('0-3'), 1: CPUS('4-7')}

    def floating(self, load=None, vcpus=2, **values):
        return home_domains.FloatingGuest(vcpus, CPUS('0-7'), load, **values)

    def test_new_guests_spread(self):
        homes = home_domains.HomeDomains().decide(
            0, self.DOMAINS, {'a': self.floating(), 'b': self.floating()})
        self.assertEqual({frozenset([0]), frozenset([1])},
                         set(homes.values()))

    def test_larger_guests_get_neighbours(self):
        domains = {**self.DOMAINS, 2: CPUS('8-11')}
        homes = home_domains.HomeDomains().decide(0, domains, {
            'a': home_domains.FloatingGuest(6, CPUS('0-11'))})
        self.assertEqual({'a': frozenset([0, 1])}, homes)

    def test_who_needs_all_cpus_has_no_home(self):
        self.assertEqual({}, home_domains.HomeDomains().decide(
            0, self.DOMAINS, {'a': self.floating(vcpus=6)}))

    def test_the_kernel_does_it(self):
        domains = {**self.DOMAINS, 2: CPUS('8-11')}
        guests = {'small': home_domains.FloatingGuest(4, CPUS('0-11')),
                  'large': home_domains.FloatingGuest(5, CPUS('0-11'))}
        self.assertEqual(['large'], list(home_domains.HomeDomains().decide(
            0, domains, guests, only_large=True)))

    def together(self, **limits):
        """Two busy guests in one domain, and nobody in the other."""
        return home_domains.HomeDomains(
            home_domains.HomeLimits(**limits),
            {'a': frozenset([0]), 'b': frozenset([0])})

    def test_load_moves_a_guest(self):
        agent = self.together()
        guests = {'a': self.floating(2.0), 'b': self.floating(2.0)}
        homes = agent.decide(0, self.DOMAINS, guests)
        self.assertNotEqual(homes['a'], homes['b'])
        self.assertEqual([0], agent.moves)

    def test_little_load_moves_none(self):
        homes = self.together().decide(0, self.DOMAINS, {
            'a': self.floating(0.2), 'b': self.floating(0.2)})
        self.assertEqual(homes['a'], homes['b'])

    def test_a_limit_of_moves(self):
        homes = self.together(moves_per_hour=0).decide(0, self.DOMAINS, {
            'a': self.floating(2.0), 'b': self.floating(2.0)})
        self.assertEqual(homes['a'], homes['b'])

    def test_a_peak_does_not_count(self):
        agent = self.together()
        idle = {'a': self.floating(0.1), 'b': self.floating(0.1)}
        agent.decide(0, self.DOMAINS, idle)
        homes = agent.decide(10, self.DOMAINS, {
            'a': self.floating(2.0), 'b': self.floating(2.0)})
        self.assertEqual(homes['a'], homes['b'])

    def test_who_moves_nodes(self):
        agent = home_domains.HomeDomains()
        near = agent.decide(0, self.DOMAINS, {
            'a': self.floating(near=CPUS('5'))})
        self.assertEqual({'a': frozenset([1])}, near)

    def test_who_has_memory_stays(self):
        """Unless much is to be gained elsewhere."""
        def homes(agent, load):
            return agent.decide(0, self.DOMAINS, {
                name: self.floating(load, memory=CPUS('0-3'))
                for name in 'ab'})

        self.assertEqual(
            {frozenset([0])}, set(homes(self.together(), 0.8).values()))
        self.assertEqual(
            {frozenset([0]), frozenset([1])},
            set(homes(self.together(), 2.0).values()))
        new = home_domains.HomeDomains().decide(0, self.DOMAINS, {
            'a': self.floating(memory=CPUS('4-7'))})
        self.assertEqual({'a': frozenset([1])}, new)

    def test_at_random(self):
        moves = 0
        for seed in range(20 if forms.SHORT else 200):
            case = agent_home_fuzz.HomeCase(seed)
            case.run(100)
            moves += case.moves
        self.assertGreater(moves, 0)


class DecisionTestCase(unit_base.TestCase):

    def floating(self, **values):
        return agent_model.AgentGuest(**{
            'uuid': 'u', 'name': 'n', 'pid': 7,
            'vcpus': {0: CPUS('1-7'), 1: CPUS('1-7')},
            'emulator_cpus': CPUS('1-7'), 'vcpu_tasks': frozenset([70, 71]),
            'emulator_tasks': frozenset([7]), 'vhost': frozenset([72]),
            **values})

    def test_homes_are_not_in_the_xml(self):
        """Nova would hand them on to the destination of a migration."""
        here = host(shared_cpus=CPUS('1-7'), dedicated_cpus=CPUS('9-15'))
        settings = decision.decide(
            here, [self.floating()], decision.Scheme(),
            home_domains.HomeDomains(), {}, {}, 0).settings
        self.assertEqual(
            {'thread 7/7', 'thread 7/70', 'thread 7/71', 'thread 7/72'},
            set(map(str, settings)))
        self.assertEqual({CPUS('4-7')}, set(settings.values()))

    def test_traffic(self):
        """Who has much of it is drawn to where packets are handled."""
        here = host(shared_cpus=CPUS('1-7'), nics=(nic(40),))
        present = {agent_model.interrupt(40): CPUS('0')}
        for traffic, home in (20e6, CPUS('1-3')), (0.0, CPUS('4-7')):
            settings = decision.decide(
                here, [self.floating()], decision.Scheme(interrupts=False),
                home_domains.HomeDomains(),
                {'u': decision.Activity(traffic=traffic)}, present, 0).settings
            self.assertEqual({home}, set(settings.values()))

    def test_nothing_outside_of_the_plan(self):
        """A guest that floats over all CPUs is not ours to confine."""
        anywhere = agent_model.AgentGuest(
            'u', 'n', 7, {0: CPUS('0-15')}, CPUS('0-15'))
        self.assertEqual({}, decision.decide(
            host(), [anywhere], decision.Scheme(),
            home_domains.HomeDomains(), {}, {}, 0).settings)
