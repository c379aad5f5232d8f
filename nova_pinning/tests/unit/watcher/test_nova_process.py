# SPDX-License-Identifier: Apache-2.0

import itertools
import os

from oslotest import base as oslotest

from nova_pinning.bridge.offline import fleet_claim
from nova_pinning.cli import fleet_import_nova
from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.tests.unit.bridge import test_fleet_claim
from nova_pinning.watcher import nova_process

ODD = errors.InputErrors((errors.InputError('one'), errors.InputError('two')))


def prints():
    print('this is no answer')
    return os.getpid()


def refuses():
    raise ODD


class TestNovaProcess(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.nova = nova_process.NovaProcess()
        self.addCleanup(self.nova.__exit__, None, None, None)

    def test_calls(self):
        """All of them in one process, which takes seconds to start."""
        process = self.nova.call(prints)
        self.assertNotEqual(os.getpid(), process)
        self.check_errors_are_raised_here()
        self.check_claims()
        self.assertEqual(process, self.nova.call(prints))

    def check_errors_are_raised_here(self):
        error = self.assertRaises(
            errors.InputError, self.nova.call, fleet_import_nova.read,
            ['--config-file', '/not/there'], None)
        self.assertIn('/not/there', str(error))
        error = self.assertRaises(errors.InputErrors, self.nova.call, refuses)
        self.assertEqual((str(ODD), 2), (str(error), len(error.errors)))

    def test_process_that_is_lost(self):
        error = self.assertRaises(errors.InputError, self.nova.call, os._exit,
                                  3)
        self.assertIn('ended with status 3', str(error))

    def check_claims(self):
        """They are what nova answers in this process."""
        attempts = test_fleet_claim.TestForesee._attempts(self, False)
        answers = set()
        for host, wanted, choice, check, _free in itertools.islice(
                attempts, 20):
            question = (fit.ClaimAttempt(host, wanted.topology, check), choice,
                        fit.ClaimBounds(1000, ask_nova=self.fail))
            answer = fleet_claim.predict_claim(*question)
            self.assertEqual(answer, self.nova.predict_claim(*question))
            answers.add(type(answer))
        self.assertIn(fit.Claim, answers)
