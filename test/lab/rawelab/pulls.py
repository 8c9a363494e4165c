# SPDX-License-Identifier: BSD-3-Clause
"""Random pulls of a running lab's cables, decided by a seed: one NIC of one host at a time."""

import random
import threading
import time

WAYS = ("cable", "silence", "one way")
LEAST_SECONDS, MOST_SECONDS = 0.02, 10.0  # that a cable is out
SETTLE_SECONDS = 3.0  # until a job has started: what is down then is not used at all


def plan(seed, count, seconds, hosts, nics):
    """[(when it is pulled, for how long, host, nic, way)]: each is in again before the next."""
    chance = random.Random(seed)
    slot = (seconds - SETTLE_SECONDS) / count
    pulls = []
    for i in range(count):
        begin = SETTLE_SECONDS + i * slot + chance.uniform(0, slot / 4)
        # As many short ones as long ones: what has to be told apart are milliseconds and seconds.
        most = min(MOST_SECONDS, slot / 2)
        length = LEAST_SECONDS * (most / LEAST_SECONDS) ** chance.random()
        pulls.append(
            (begin, length, chance.randrange(hosts), chance.randrange(nics), chance.choice(WAYS))
        )
    return pulls


def pull(lab, host, nic, way):
    """Take a NIC off its network: the carrier is lost, or frames both ways, or those to it."""
    if way == "cable":
        lab.link_down(host, nic)
    elif way == "silence":
        lab.set_wire("loss=100%", host, nic, "both")
    else:
        lab.set_wire("loss=100%", host, nic, "in")


def mend(lab, host, nic, way):
    """Put it back, with the faults that the lab's wire has."""
    if way == "cable":
        lab.link_up(host, nic)
    else:
        lab.set_wire(lab.spec.wire or "none", host, nic, "in")
        lab.set_wire("none", host, nic, "out")


class Puller:
    """Carries a plan out in a thread of its own; `done` counts, `error` is why it has ended."""

    def __init__(self, lab, pulls, say=print):
        self.lab, self.pulls, self.say = lab, pulls, say
        self.done = 0
        self.error = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._start = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _until(self, when):
        """Wait until that time since the start; False: it is over."""
        return not self._stop.wait(max(0.0, self._start + when - time.monotonic()))

    def _run(self):
        try:
            for number, (begin, length, host, nic, way) in enumerate(self.pulls, 1):
                if not self._until(begin):
                    return
                pull(self.lab, host, nic, way)
                now = time.monotonic() - self._start
                self.say(
                    f"pull {number} at {now:.1f} s: h{host} eth{nic}, {way}, {length:.2f} s",
                    flush=True,
                )
                self._until(now + length)
                mend(self.lab, host, nic, way)
                self.done += 1
        except Exception as error:  # noqa: BLE001 (reported where the thread is waited for)
            self.error = error
