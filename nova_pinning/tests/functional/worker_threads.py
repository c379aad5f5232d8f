# SPDX-License-Identifier: Apache-2.0
"""Threads of nova's pools wait for work until there is some.

Futurist has them look every second whether their pool has ended, and nova's
harness a hundred times a second, for the sake of how soon they end. A cloud
has fifty of them and more, so that a tenth of all that it does is to look.

Eventlet's queues cannot be waited for in this way; there pools stay as they
are.
"""

import queue

from futurist import _thread

#: Seconds, should a pool end at a moment when nobody can be told.
_LOOK_AGAIN_S = 1


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


def install():
    """Have all pools of this process do so, if its threads are real."""
    if not hasattr(queue.Queue(), 'not_empty'):
        return
    _thread.ThreadWorker._wait_for_work = _wait_for_work
    _thread.ThreadWorker.stop = _stop
