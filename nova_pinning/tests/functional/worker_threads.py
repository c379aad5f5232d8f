# SPDX-License-Identifier: Apache-2.0
"""Threads of nova's pools wait for work until there is some.

Futurist has them look every second whether their pool has ended, and nova's
harness a hundred times a second, for the sake of how soon they end. A cloud
has fifty of them and more, so that a tenth of all that it does is to look.

So it is with those who listen for messages, of which there are two a
service: each looks twenty times a second, and the answer to a call takes that
much longer.

Eventlet's queues cannot be waited for in this way; there pools stay as they
are.
"""

import queue
import threading
import time

from futurist import _thread
from oslo_messaging._drivers import base
from oslo_messaging._drivers import impl_fake

#: Seconds, should a pool end at a moment when nobody can be told.
_LOOK_AGAIN_S = 1

#: Told whenever there is a message for somebody, or a listener is to end.
_NEWS = threading.Condition()


def _wait_for_work(worker):
    worker.idle = True
    waiting = worker.work_queue
    with waiting.not_empty:
        while not waiting.queue:
            if worker._is_dying():
                raise _thread._Stopping
            waiting.not_empty.wait(_LOOK_AGAIN_S)
        work = waiting._get()
    worker.idle = False
    return work


def _stop(worker):
    worker.should_stop = True
    # A pool may be collected by a thread that is in its queue.
    if worker.work_queue.mutex.acquire(blocking=False):
        worker.work_queue.not_empty.notify_all()
        worker.work_queue.mutex.release()


@base.batch_poll_helper
def _wait_for_message(listener, timeout=None):
    deadline = time.monotonic() + (
        threading.TIMEOUT_MAX / 2 if timeout is None else timeout)
    exchanges = [
        (listener._exchange_manager.get_exchange(target.exchange), target)
        for target in listener._targets]
    with _NEWS:
        while not listener._stopped.is_set():
            for exchange, target in exchanges:
                context, *message = exchange.poll(target, listener._pool)
                if message[0] is not None:
                    return impl_fake.FakeIncomingMessage(context, *message)
            if not _NEWS.wait(deadline - time.monotonic()):
                break
    return None


def _telling(action):
    """The action of an exchange or a listener, of which all others hear."""
    def act_and_tell(self, *args, **values):
        with _NEWS:
            action(self, *args, **values)
            _NEWS.notify_all()

    return act_and_tell


def install():
    """Have all of this process do so, if its threads are real."""
    if not hasattr(queue.Queue(), 'not_empty'):
        return
    _thread.ThreadWorker._wait_for_work = _wait_for_work
    _thread.ThreadWorker.stop = _stop
    listener = impl_fake.FakeListener
    listener.poll = _wait_for_message
    listener.stop = _telling(listener.stop)
    impl_fake.FakeExchange.deliver_message = _telling(
        impl_fake.FakeExchange.deliver_message)
