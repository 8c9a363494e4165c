# SPDX-License-Identifier: BSD-3-Clause
"""The driver of short messages out of several threads of a rank."""

from typing import ClassVar

from benchlib.options import count, counts
from benchlib.rate_driver import RateDriver, RateProgram


class Threads(RateProgram):
    """Windows of 64 messages out of several threads; its sizes are their numbers."""

    def title_of(self, size):
        return f"{size} thread{'' if str(size) == '1' else 's'}"


class ThreadDriver(RateDriver):
    """compare of bench/thread-rate."""

    name = "thread-rate"
    description = "Measure messages out of several threads over raw Ethernet frames against TCP."
    epilog = (
        "Rank 0 of one host sends to rank 1 of the other under MPI_THREAD_MULTIPLE.\nRanks have "
        "a core each, so threads of a rank share one where there are two."
    )
    page_title = "Messages out of several threads over raw Ethernet frames and over TCP"
    programs: ClassVar = {"threads": Threads("threads", "messages/s")}

    def add_options(self, parser):
        super().add_options(parser)
        text = "of each rank (default 1,2,4,8)"
        parser.add_argument("--threads", type=counts, metavar="N,M", help=text)
        text = "of a message, 4096 at most (default 8)"
        parser.add_argument("--bytes", type=count, default=8, help=text)

    def wanted(self, options):
        self.programs["threads"].more = (options.bytes,)
        numbers = options.threads or ([1, 4] if options.quick else [1, 2, 4, 8])
        return self.cases(options, [("threads", number) for number in numbers])

    def texts(self, tables, about):
        found = super().texts(tables, about)
        for table in tables:
            for name in table.transports:
                first, *others = table.rows
                of_one = first.median(name)
                found += [
                    f"{name}: {row.labels[0]}: {row.median(name) / of_one:.2f} times the rate of "
                    f"{first.labels[0]}"
                    for row in others
                    if of_one and row.median(name)
                ]
        return found
