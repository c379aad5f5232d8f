# SPDX-License-Identifier: Apache-2.0
"""Hosts with one thing wrong each, and odd ones that are right."""

from nova_pinning.host import agent_record
from nova_pinning.tests.unit.host.check import fact_samples

SCOPE = 'machine-qemu\\x2d1\\x2da.scope'

cpus = fact_samples.cpus
replace = fact_samples.replace


def with_settings(**values):
    right = fact_samples.right_facts()
    settings = replace(right.nova_conf.settings, **values)
    return replace(right, nova_conf=replace(
        right.nova_conf, settings=settings))


def with_conf(**values):
    right = fact_samples.right_facts()
    return replace(right, nova_conf=replace(right.nova_conf, **values))


def with_system(**values):
    right = fact_samples.right_facts()
    return replace(right, host=replace(
        right.host, system=replace(right.host.system, **values)))


def with_host(**values):
    return fact_samples.right_facts(host=fact_samples.machine(**values))


def with_nodes(change):
    """Change each node."""
    host = fact_samples.machine()
    return fact_samples.right_facts(host=replace(
        host, nodes=tuple(map(change, host.nodes))))


def with_process(*processes):
    right = fact_samples.right_facts()
    return replace(right, processes=right.processes + processes)


def with_interrupts(*interrupts):
    right = fact_samples.right_facts()
    return replace(right, interrupts=right.interrupts + interrupts)


def with_guests(*guests):
    return fact_samples.right_facts(guests=guests)


def with_qemu(guest, **values):
    return replace(guest, qemu=replace(guest.qemu, **values))


def domain(guest, **values):
    """The guest with another record of libvirt's."""
    return replace(guest, domain=replace(guest.domain, **values))


def a(vcpus=('1', '5'), **values):
    return fact_samples.guest(1000, 'a', vcpus, **values)


def b(vcpus=('3', '7'), **values):
    return fact_samples.guest(2000, 'b', vcpus, **{'node': 1} | values)


def moved(guest, where):
    """Only the kernel has the vCPUs elsewhere."""
    return with_qemu(guest, vcpus={
        number: replace(guest.qemu.vcpus[number], cpus=cpus(cpu))
        for number, cpu in enumerate(where)})


def emulator(guest, where, **values):
    """Only the kernel has the emulator threads elsewhere."""
    return with_qemu(guest, **{'emulator': tuple(
        replace(thread, cpus=cpus(where)) for thread in guest.qemu.emulator)}
        | values)


def stranger(guest):
    return replace(guest, domain=None, is_stranger=True)


def with_poll_cpus(where='3'):
    right = fact_samples.planned()
    return replace(
        right, plan=replace(right.plan, poll_cpus=cpus(where)),
        nova=replace(right.nova,
                     dedicated_cpus=right.nova.dedicated_cpus - cpus(where)))


def polling_plan(**values):
    """A plan with CPU 3 and 7 for Open vSwitch, and nova.conf as it says."""
    plan = with_poll_cpus('3,7')
    right = fact_samples.right_facts(guests=(a(),))
    return replace(
        right, nova_conf=replace(right.nova_conf, settings=plan.nova),
        free_pages={(0, fact_samples.GIB_PAGES): 2,
                    (1, fact_samples.GIB_PAGES): 4},
        **values), plan


def vswitchd(where):
    return fact_samples.process(
        500, 'ovs-vswitchd', '0,4', 'ovs.service', threads=(
            fact_samples.thread(500, 'ovs-vswitchd', '0,4'),
            *(fact_samples.thread(
                501 + number, f'pmd-c0{number}/id:{number}', cpu)
              for number, cpu in enumerate(where))))


#: Codes, and what is wrong.
WRONG = {
    # nova.conf
    'conf_broken': ('H101', lambda: fact_samples.right_facts(
        nova_conf=None, nova_conf_error='nova.conf:3: no "]"')),
    'dedicated_set': ('H102',
                      lambda: with_settings(dedicated_cpus=cpus('1,3,5-7'))),
    'dedicated_unset': ('H102', lambda: with_settings(dedicated_cpus=None)),
    'shared_set': ('H103', lambda: with_settings(shared_cpus=None)),
    'pin_set': ('H103', lambda: with_conf(pin_set=cpus('2,6'))),
    'reserved_pages': ('H104', lambda: with_settings(reserved_huge_pages={
        (1, fact_samples.GIB_PAGES): 1})),
    'reserved_memory': ('H105',
                        lambda: with_settings(reserved_memory_mib=512)),
    'cpu_ratio': ('H106', lambda: with_settings(cpu_allocation_ratio=16.0)),
    'memory_ratio': ('H106', lambda: with_settings(ram_allocation_ratio=1.5)),
    'conf_newer': ('H107', lambda: fact_samples.right_facts(
        outdated=fact_samples.right_facts().processes[1:2])),
    'file_backed': ('H108', lambda: with_conf(has_file_backed_memory=True)),
    'power': ('H108', lambda: with_conf(manages_cpu_power=True)),
    'gpu_not_offered': ('H109',
                        lambda: with_conf(offered_devices=frozenset())),
    'nic_offered': ('H109', lambda: with_conf(offered_devices=frozenset(
        [fact_samples.NIC, fact_samples.GPU]))),
    'packs_unplanned': ('H110', lambda: with_settings(packs_cells=True)),
    # Hardware and kernel
    'other_nodes': ('H203', lambda: replace(with_nodes(lambda node: replace(
        node,
        l3_domains=(),
        cores=(*node.cores[:1], ((3, 7) if node.id == 0 else (1, 5))))),
                                            guests=())),
    'other_cores': ('H203', lambda: with_nodes(lambda node: replace(
        node, cores=tuple((cpu, ) for cpu in node.cpus)))),
    'other_caches': ('H203', lambda: with_nodes(lambda node: replace(
        node, l3_domains=tuple(map(fact_samples.cpuset.CpuSet, node.cores))))),
    'host_isolated': ('H204',
                      lambda: with_system(isolated_cpus=cpus('0,1,3,5,7'))),
    'half_isolated': ('H204', lambda: with_system(isolated_cpus=cpus('1,5'))),
    'host_tickless': ('H205',
                      lambda: with_system(nohz_full_cpus=cpus('0,1,3,5,7'))),
    'slow': ('H206', lambda: with_system(governors={
        'powersave': cpus('0-3'),
        'performance': cpus('4-7')})),
    'smt': ('H207', lambda: with_system(smt='off')),
    'no_iommu': ('H208', lambda: with_system(has_iommu=False)),
    'gpu_gone': (
        'H209',
        lambda: with_host(pci_devices=fact_samples.machine().pci_devices[:1])),
    'gpu_other': ('H209', lambda: with_host(pci_devices=(
        fact_samples.machine().pci_devices[0],
        replace(fact_samples.machine().pci_devices[1], product_id='9999')))),
    'nic_moved': ('H209', lambda: with_host(pci_devices=(
        replace(fact_samples.machine().pci_devices[0], numa_node=None),
        fact_samples.machine().pci_devices[1]))),
    'less_memory': ('H210', lambda: with_nodes(lambda node: replace(
        node, memory_mib=node.memory_mib - 1024 * node.id))),
    'balancing': ('H211',
                  lambda: fact_samples.right_facts(numa_balancing=True)),
    'merging': ('H212', lambda: fact_samples.right_facts(merges_pages=True)),
    'lever': ('H213', lambda: fact_samples.right_facts(
        levers={'/proc/sys/vm/stat_interval': '1'})),
    'slow_clock': ('H214', lambda: fact_samples.right_facts(
        clocksource='hpet')),
    'no_partition': ('H215', lambda: fact_samples.right_facts(
        partition='isolated invalid (Cpu list in cpuset.cpus not exclusive)',
        partition_cpus=cpus('1,3,5,7'))),
    'other_partition': ('H215', lambda: fact_samples.right_facts(
        partition='isolated', partition_cpus=cpus('1,3'))),
    # Services
    'unconfined': ('H301', lambda: with_process(
        fact_samples.process(600, 'cron', '0-7', 'cron.service'),
        fact_samples.process(601, 'top', '0-7', 'session-1.scope'))),
    'offline_too': ('H301', lambda: with_process(
        fact_samples.process(600, 'cron', '0-63', 'cron.service'))),
    'helper_on_others': ('H302', lambda: replace(
        with_process(fact_samples.process(600, 'swtpm', '3', SCOPE)),
        guests=(replace(a(emulator='1,5'), unit=SCOPE), b()))),
    'helper_of_others': ('H302', lambda: replace(
        with_process(fact_samples.process(600, 'cron', '1,5', 'cron.service')),
        guests=(replace(a(emulator='1,5'), unit='cron.service'), b()))),
    'misplaced': ('H302', lambda: with_process(
        fact_samples.process(600, 'cron', '4-5', 'cron.service'))),
    'kernel_thread': ('H303', lambda: with_process(
        fact_samples.kernel_thread(600, 'kswapd0', '0-7'))),
    'workqueue': (
        'H304', lambda: fact_samples.right_facts(workqueue_cpus=cpus('0-7'))),
    'polling_astray': ('H305', lambda: with_process(vswitchd('4'))),
    # Interrupts
    'interrupt': (
        'H401',
        lambda: with_interrupts(fact_samples.interrupt(60, 'eth0-rx-2', '1'))),
    'interrupt_untold': ('H401', lambda: with_interrupts(
        fact_samples.interrupt(60, 'eth0-rx-2', '1', ''))),
    'gpu_interrupt': ('H401', lambda: with_interrupts(
        fact_samples.interrupt(60, 'vfio-msi[0]', '1', device=fact_samples.GPU)
    )),
    'gpu_line': ('H401', lambda: replace(
        with_system(posted_interrupts=True), interrupts=(
            *fact_samples.right_facts().interrupts, fact_samples.interrupt(
                60, 'vfio-intx', '1', device=fact_samples.GPU)))),
    'gpu_unposted': ('H401,H407', lambda: replace(
        with_system(posted_interrupts=False), interrupts=(
            *fact_samples.right_facts().interrupts, fact_samples.interrupt(
                60, 'vfio-msi[0]', '1', device=fact_samples.GPU)))),
    'many_queues': ('H408', lambda: with_host(pci_devices=(
        replace(fact_samples.machine().pci_devices[0], queues=64),
        fact_samples.machine().pci_devices[1]))),
    'managed': ('H402', lambda: with_interrupts(
        fact_samples.interrupt(60, 'nvme0q2', '1', managed=True))),
    'elsewhere': (
        'H403',
        lambda: with_interrupts(fact_samples.interrupt(60, 'eth0-rx-2', '2'))),
    'unbanned': ('H404', lambda: fact_samples.right_facts(
        irqbalance=fact_samples.facts.Irqbalance(77, cpus('1,3')))),
    'untold_irqbalance': ('H404', lambda: fact_samples.right_facts(
        irqbalance=fact_samples.facts.Irqbalance(77, None))),
    # What is isolated it bans by itself.
    'irqbalance_alone': (
        'H404',
        lambda: replace(with_system(isolated_cpus=cpus('1,3,5,7')),
                        irqbalance=fact_samples.facts.Irqbalance(77, None))),
    'irqbalance': ('H404', lambda: fact_samples.right_facts(
        irqbalance=fact_samples.facts.Irqbalance(77, cpus('1,3,5,7')))),
    'new_interrupts': (
        'H406',
        lambda: fact_samples.right_facts(default_interrupt_cpus=cpus('0-7'))),
    'allowed': ('H406', lambda: with_interrupts(
        fact_samples.interrupt(60, 'eth0-rx-2', '0-7', '0'))),
    # Pages
    'few_pages': ('H501', lambda: with_nodes(lambda node: replace(
        node, huge_pages={fact_samples.GIB_PAGES: 4 - node.id}))),
    'no_pages': (
        'H501', lambda: with_nodes(lambda node: replace(node, huge_pages={}))),
    'many_pages': ('H502', lambda: replace(with_nodes(lambda node: replace(
        node, huge_pages={fact_samples.GIB_PAGES: 5})),
                                           free_pages={
                                               (0, fact_samples.GIB_PAGES): 3,
                                               (1, fact_samples.GIB_PAGES): 3
                                           })),
    'lost_pages': (
        'H503', lambda: fact_samples.right_facts(free_pages={
            (0, fact_samples.GIB_PAGES): 1,
            (1, fact_samples.GIB_PAGES): 2})),
    # vCPUs
    'vcpu_moved': ('H601', lambda: with_guests(moved(a(), ('1', '1,5')))),
    'vcpu_moved_away': ('H601', lambda: with_guests(moved(a(),
                                                          ('1', '2')), b())),
    'vcpus_meet': ('H601,H604', lambda: with_guests(moved(a(),
                                                          ('1', '1')), b())),
    'shared_everywhere': (
        'H602,H609',
        lambda: with_guests(fact_samples.shared_guest(3000, 'c', ''))),
    'shared_on_dedicated': (
        'H602,H609',
        lambda: with_guests(fact_samples.shared_guest(3000, 'c', '2,3'))),
    'half_pinned': ('H602', lambda: with_guests(a(('1', '1,5')))),
    'on_host_cpus': ('H603', lambda: with_guests(a(('0', '4')))),
    'on_shared_cpu': ('H603', lambda: with_guests(a(('1', '4')))),
    'two_guests': (
        'H604',
        lambda: with_guests(a(), fact_samples.guest(2000, 'b', ('1', '5')))),
    'one_guest_twice': ('H604', lambda: with_guests(a(('1', '1')))),
    'siblings': ('H605',
                 lambda: with_guests(a(
                     ('1', )), fact_samples.guest(2000, 'b', ('5', )))),
    # All else of guests
    'emulator': ('H606', lambda: with_guests(emulator(a(), '2'))),
    'emulator_on_others': ('H606',
                           lambda: with_guests(emulator(a(), '3'), b())),
    'iothread': ('H606', lambda: with_guests(
        with_qemu(a(), iothreads={
            1: fact_samples.thread(1002, 'IO iothread1', '0')}))),
    'vhost': ('H606', lambda: with_guests(
        with_qemu(a(),
                  vhost=(fact_samples.thread(1004, 'vhost-1000', '0-7'), )))),
    'emulator_told_others': ('H609',
                             lambda: with_guests(a(emulator='3,7'), b())),
    # A floating guest has no dedicated CPU that this could belong to.
    'emulator_of_floating': ('H609', lambda: with_guests(
        domain(emulator(fact_samples.shared_guest(3000, 'c'), '1'),
               emulator_pin=cpus('1')))),
    'emulator_untold': (
        'H609',
        lambda: with_guests(domain(emulator(a(), '0-7'), emulator_pin=None))),
    'memory': ('H610', lambda: with_guests(
        with_qemu(a(),
                  regions=(fact_samples.qemu_process.MemoryRegion(
                      cpus('0'), {
                          0: 1,
                          1: 1}, fact_samples.GIB_PAGES), )), b())),
    'unbound_memory': ('H610', lambda: with_guests(
        with_qemu(a(),
                  regions=(fact_samples.qemu_process.MemoryRegion(
                      cpus('0'), {0: 2}, fact_samples.GIB_PAGES),
                           fact_samples.qemu_process.MemoryRegion(
                               cpus(''), {1: 16384}, 4))), b())),
    'unbound_huge_pages': ('H610', lambda: with_guests(
        with_qemu(a(),
                  regions=(fact_samples.qemu_process.MemoryRegion(
                      cpus(''), {1: 2}, fact_samples.GIB_PAGES), )), b())),
    'bound_small_pages': ('H610', lambda: with_guests(
        with_qemu(a(),
                  regions=(fact_samples.qemu_process.MemoryRegion(
                      cpus('0'), {0: 2}, fact_samples.GIB_PAGES),
                           fact_samples.qemu_process.MemoryRegion(
                               cpus('0'), {1: 5}, 4))), b())),
    'memory_of_other_cell': ('H610', lambda: with_guests(
        with_qemu(domain(a(), memory_nodes=cpus('0-1')),
                  regions=(fact_samples.qemu_process.MemoryRegion(
                      cpus('0'), {1: 2}, fact_samples.GIB_PAGES), )), b())),
    'stranger': ('H611',
                 lambda: with_guests(stranger(a(emulator='0,4')), b())),
    'stray_stranger': ('H602,H609,H611', lambda: with_guests(
        stranger(emulator(moved(a(), ('0-7', '0-7')), '0-7')))),
    'far_memory': ('H612', lambda: with_guests(
        with_qemu(b(node=0),
                  regions=(fact_samples.qemu_process.MemoryRegion(
                      cpus('0'), {0: 2}, fact_samples.GIB_PAGES), ))))}


def by_agent(seen):
    """All of it is as nova-pinning agent has set it."""
    kind, setting = agent_record.Kind, agent_record.Setting
    now = {setting(kind.INTERRUPT, str(interrupt.number)): interrupt.cpus
           for interrupt in seen.interrupts}
    for guest in seen.guests:
        # What comes and goes, such as workers, is not in the record.
        for thread in guest.qemu.threads[:-1]:
            now[setting(kind.THREAD, f'{guest.qemu.pid}/{thread.tid}')] = (
                thread.cpus)
    return replace(seen, agent=agent_record.AgentRecord({
        subject: agent_record.SettingEntry(cpus(''), ours)
        for subject, ours in now.items()}))


#: What is well, though it looks odd.
RIGHT = {
    'placed_by_agent': lambda: by_agent(with_interrupts(
        fact_samples.interrupt(60, 'eth0-rx-2', '2'))),
    'near_by_agent': lambda: by_agent(with_guests(emulator(a(), '2'))),
    'kept_by_agent': lambda: by_agent(with_guests(emulator(moved(
        fact_samples.shared_guest(3000, 'c'), ('2', '6')), '2'))),
    'nothing_odd': fact_samples.right_facts,
    'isolated': lambda: with_system(isolated_cpus=cpus('1,3,5,7'),
                                    nohz_full_cpus=cpus('1,3,5,7')),
    'no_cpufreq': lambda: with_system(governors={}),
    'slow_host_cpus': lambda: with_system(
        governors={'powersave': cpus('0,2,4,6')}),
    'offered': lambda: with_conf(
        offered_devices=frozenset([fact_samples.GPU])),
    'nova_conf_not_read': lambda: fact_samples.right_facts(nova_conf=None),
    'iommu_unknown': lambda: with_system(has_iommu=None),
    'memory_nearly': lambda: with_nodes(lambda node: replace(
        node, memory_mib=node.memory_mib - 50)),
    'caches_unknown': lambda: with_nodes(lambda node: replace(node,
                                                              l3_domains=())),
    # The GPU of guest a may interrupt it.
    'own_interrupt': lambda: replace(
        with_interrupts(fact_samples.interrupt(
            60, 'vfio-msi[0]', '1', device=fact_samples.GPU)),
        guests=(domain(a(), hostdevs=frozenset([fact_samples.GPU])),)),
    # Nova's isolated emulator threads have a dedicated CPU of their own.
    'isolated_emulator': lambda: with_guests(a(('1',), emulator='5'), b()),
    # Nor does anybody need to see the record to know.
    'isolated_emulator_unread': lambda: with_guests(
        replace(a(('1',), emulator='5'), domain=None), b()),
    # Without a cpu_shared_set they are on the guest's own.
    'own_emulator': lambda: with_guests(a(emulator='1,5'), b()),
    'worker_of_iothread': lambda: with_guests(with_qemu(
        domain(a(), iothread_pins={1: cpus('2')}),
        iothreads={1: fact_samples.thread(1002, 'IO iothread1', '2')},
        emulator=(fact_samples.thread(1000, 'qemu-kvm', '2,6'),
                  fact_samples.thread(1009, 'worker', '2')))),
    # The kernel has started it for io_uring.
    'worker_of_kernel': lambda: with_guests(with_qemu(a(), emulator=(
        fact_samples.thread(1000, 'qemu-kvm', '2,6'),
        fact_samples.thread(1009, 'iou-wrk-1000', '0-3', may_move=False)))),
    # The guest's TPM is where its emulator threads are.
    'helper': lambda: replace(
        with_process(fact_samples.process(600, 'swtpm', '1,5', SCOPE)),
        guests=(replace(a(emulator='1,5'), unit=SCOPE), b())),
    # KVM has some for each guest.
    'threads_of_kvm': lambda: with_process(
        fact_samples.kernel_thread(600, 'kvm-pit/1000', '0-7'),
        fact_samples.kernel_thread(601, 'kvm-nx-lpage-re', '1,5')),
    'vhost_narrower': lambda: with_guests(with_qemu(a(), vhost=(
        fact_samples.thread(1004, 'vhost-1000', '2'),))),
    'small_heap_elsewhere': lambda: with_guests(with_qemu(a(), regions=(
        fact_samples.qemu_process.MemoryRegion(
            cpus('0'), {0: 2}, fact_samples.GIB_PAGES),
        fact_samples.qemu_process.MemoryRegion(cpus(''), {1: 512}, 4))), b()),
    'pages_not_counted': lambda: replace(
        with_guests(with_qemu(a(), regions=())), free_pages={}),
    'preferred_memory': lambda: with_guests(with_qemu(
        domain(a(), memory_mode='preferred'), regions=(
            fact_samples.qemu_process.MemoryRegion(
                cpus(''), {1: 2}, fact_samples.GIB_PAGES),))),
    'unread_records': lambda: with_guests(
        replace(a(emulator='0,4'), domain=None)),
    'not_asked_for': lambda: with_guests(
        replace(moved(emulator(a(), '3'), ('1', '3')), is_asked_for=False))}


def counted(seen):
    """Free pages as the guests leave them, unless said."""
    if seen.free_pages != fact_samples.right_facts().free_pages:
        return seen
    used = {}
    for guest in seen.guests:
        for region in guest.qemu.regions:
            for node, pages in region.pages.items():
                key = node, region.page_size_kib
                used[key] = used.get(key, 0) + pages
    return replace(seen, free_pages={
        (node.id, size): pages - used.get((node.id, size), 0)
        for node in seen.host.nodes
        for size, pages in node.huge_pages.items()})
