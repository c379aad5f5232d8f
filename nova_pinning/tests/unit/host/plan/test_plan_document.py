# SPDX-License-Identifier: Apache-2.0


import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.host import file_forms
from nova_pinning.host import hostfile
from nova_pinning.host import hostfile_keys
from nova_pinning.host import hostfile_writer
from nova_pinning.host import plan_model
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base

_CPUS = strategies.builds(
    cpuset.CpuSet, strategies.sets(strategies.integers(0, 7)))
_COUNT = strategies.integers(0, 500)
_POSITIVE = strategies.integers(1, 500)
_BY_NODE = strategies.dictionaries(strategies.integers(0, 9), _COUNT)
_FORM = file_forms.derived(plan_model.HostPlan, hostfile_keys.SPECIAL)
_TEXT = strategies.text('ab0 "\'\\:{}[],#-é\n', max_size=30)


def _several(one):
    return strategies.lists(one, max_size=3).map(tuple)


_OFFER = strategies.builds(
    plan_model.Offer, _several(strategies.builds(
        plan_model.Sale, _POSITIVE, _POSITIVE, _COUNT, _COUNT, _COUNT)),
    _BY_NODE, _COUNT)
#: Whatever a file can hold, sensible or not.
_PLAN = strategies.builds(
    plan_model.HostPlan, strategies.sampled_from(plan_model.Purpose), _CPUS,
    offer=_OFFER, sizes=_several(strategies.builds(
        plan_model.GuestSize, _POSITIVE, _POSITIVE, _POSITIVE)),
    poll_cpus=_CPUS,
    page_size_kib=strategies.sampled_from(
        [0, host_samples.MIB_PAGES, host_samples.GIB_PAGES]),
    memory_kept_mib=_BY_NODE, poll_pages=_BY_NODE,
    interrupts=_several(strategies.builds(
        plan_model.Interrupts, strategies.just('0000:3b:00.0'), _TEXT, _CPUS)),
    reasons=_several(strategies.builds(plan_model.PlanReason, _TEXT, _TEXT)),
    warnings=_several(strategies.builds(
        plan_model.PlanWarning,
        strategies.sampled_from(['smt-off', 'cpu0-sold']),
        _TEXT, _TEXT)),
    alternatives=_several(strategies.builds(
        plan_model.PlanAlternative, _CPUS, _CPUS, _CPUS, _CPUS, offer=_OFFER,
        difference=_TEXT)),
    choice=_POSITIVE)


@ddt.ddt
class TestDocument(oslotest.BaseTestCase):

    @unit_base.settings(max_examples=40)
    @hypothesis.given(_PLAN)
    def test_what_is_written_reads_the_same(self, plan):
        for write in (hostfile_writer.dump, hostfile_writer.dump_json):
            written = source.parse(write(host_samples.host(plan=plan)),
                                   'a.yaml')
            schema.validate(written, schema.shipped(
                'nova_pinning.host', 'host-1.json'))
            reader = file_forms.DocumentReader(written)
            self.assertEqual(plan, _FORM.read(
                reader, written.value['plan'], ('plan',)))
            self.assertEqual([], reader.errors)

    @ddt.data(
        ('{class: big, host_cpus: 0}', 'plan.class'),
        ('{class: shared}', 'plan'),
        ('{class: shared, host_cpus: x, OFFER}', 'plan.host_cpus'),
        ('{class: shared, host_cpus: 0, memory_kept: {0: 1x}, OFFER}',
         'plan.memory_kept.0'),
        ('{class: shared, host_cpus: 0, page_size: 1x, OFFER}',
         'plan.page_size'),
        ('{class: shared, host_cpus: 0, alternatives: [{host_cpus: y, '
         'OFFER}], OFFER}', 'plan.alternatives[0].host_cpus'))
    @ddt.unpack
    def test_errors_say_where(self, section, key):
        offer = 'offer: {sales: [], stranded_cpus: {}, shared_vcpus: 0}'
        plan = section.replace('OFFER', offer)
        text = hostfile_writer.dump(host_samples.host()) + f'plan: {plan}\n'
        error = self.assertRaises(
            errors.InputErrors, hostfile.read,
            source.parse(text, 'host.yaml'))
        self.assertIn(key, [one.where.key for one in error.errors])

    @ddt.data(
        (dict(host='0,4', dedicated='1-3,5-7'), None),
        (dict(host='0,4', dedicated='1-3,5-7', poll_pages={9: 1}),
         'plan.poll_pages.9'),
        (dict(host='0,4', dedicated='0-3,5-7'), 'nova.dedicated_cpus'),
        (dict(host='0,4', dedicated='1-3,5-6'), 'plan'),
        (dict(host='0,4', dedicated='1-3,5-7',
              sizes=(plan_model.GuestSize(2),)), 'plan.offer.sales'),
        (dict(host='0,4', dedicated='1-3,5-7', alternatives=(
            plan_model.PlanAlternative(offer=plan_model.Offer(
                (plan_model.Sale(2, 1, 0, 0, 0),), {})),)),
         'plan.alternatives[0].offer.sales'),
        (dict(host='0,4', dedicated='1-3,5-7',
              interrupts=(plan_model.Interrupts(
                  '0000:01:00.0', 'eth0', cpuset.CpuSet([0, 1])),)),
         'plan.interrupts[0].cpus'),
        (dict(host='0', dedicated='1-7'), 'plan'),
        (dict(host='0,4,9', dedicated='1-3,5-7'), 'plan.host_cpus'),
        (dict(host='', dedicated='0-7'), 'plan.host_cpus'))
    @ddt.unpack
    def test_a_plan_of_another_host(self, values, key):
        values = dict(values)
        description = host_samples.host(
            nova=host_samples.settings(values.pop('dedicated')),
            plan=plan_model.HostPlan(
                plan_model.Purpose.DEDICATED,
                cpuset.CpuSet.parse(values.pop('host')),
                offer=plan_model.Offer((), {}), **values))
        text = source.parse(hostfile_writer.dump(description), 'host.yaml')
        if key is None:
            self.assertEqual(description, hostfile.read(text))
        else:
            error = self.assertRaises(
                errors.InputErrors, hostfile.read, text)
            self.assertEqual([key], [one.where.key for one in error.errors])
