"""For interpreters before Python 3.13: asyncio.Queue.shutdown, which the nats-core client uses. On PYTHONPATH it is loaded at every start.

It puts the standard library's later behaviour under the standard library's names, and does nothing where they exist.
"""

import asyncio


class QueueShutDown(Exception):
    """Raised by get and put on a queue that was shut down."""


class Queue(asyncio.Queue):
    """A queue that can be shut down: getters of an empty one and putters are refused from then on."""

    _is_shut_down = False

    def shutdown(self, immediate=False):
        self._is_shut_down = True
        if immediate:
            while not self.empty():
                self._get()
                if self._unfinished_tasks > 0:
                    self._unfinished_tasks -= 1
            if self._unfinished_tasks == 0:
                self._finished.set()
        for waiters in (self._getters, self._putters):
            while waiters:
                waiter = waiters.popleft()
                if not waiter.done():
                    waiter.set_result(None)

    def get_nowait(self):
        if self.empty() and self._is_shut_down:
            raise QueueShutDown
        return super().get_nowait()

    def put_nowait(self, item):
        if self._is_shut_down:
            raise QueueShutDown
        super().put_nowait(item)

    async def get(self):
        while self.empty() and not self._is_shut_down:
            waiter = asyncio.get_running_loop().create_future()
            self._getters.append(waiter)
            try:
                await waiter
            except BaseException:
                waiter.cancel()
                if waiter in self._getters:
                    self._getters.remove(waiter)
                if not self.empty() and not waiter.cancelled():
                    self._wakeup_next(self._getters)
                raise
        return self.get_nowait()

    async def put(self, item):
        while self.full() and not self._is_shut_down:
            waiter = asyncio.get_running_loop().create_future()
            self._putters.append(waiter)
            try:
                await waiter
            except BaseException:
                waiter.cancel()
                if waiter in self._putters:
                    self._putters.remove(waiter)
                if not self.full() and not waiter.cancelled():
                    self._wakeup_next(self._putters)
                raise
        return self.put_nowait(item)


if not hasattr(asyncio, "QueueShutDown"):
    asyncio.Queue = Queue
    asyncio.queues.Queue = Queue
    asyncio.QueueShutDown = QueueShutDown
    asyncio.queues.QueueShutDown = QueueShutDown
