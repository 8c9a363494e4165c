# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison has to know of the programs that it runs; each driver fills this in."""

from . import report, summary


class Driver:
    """One folder of bench/ with a `compare`.

    The order of calls: add_options(), finish(), prepare(), plan(); read() and line_of() for each
    run; write_csv(), load(); then texts() for the terminal, and title(), lead(), body() and
    ending() for the page. A report is made of what load() returns alone.
    """

    name = ""  # of the folder
    description = ""
    epilog = ""  # examples and exit status, for --help
    quick = ""  # what --quick does
    page_title = ""
    packages = ("build", "bench")  # groups of test/install-deps
    timeout = 900.0  # seconds of one mpirun, by default
    transports_said = "tcp,rawe"  # for --help: which are compared when none is named
    works_in_directory = False  # each run gets a directory, visible to all ranks

    def add_options(self, parser):
        """Add the driver's own options."""

    def transports(self, options):
        """Which are compared when none is named."""
        return ["tcp", "rawe"]

    def finish(self, parser, options):
        """Fill in options.cases (Cases) and options.left_out (reasons); refuse contradictions."""
        raise NotImplementedError

    def prepare(self, options, say):
        """Find the programs, once packages and build are there; notes for the report."""
        raise NotImplementedError

    def facts(self):
        """Name and value of what a reader has to know of the programs, once they are found."""
        return []

    def plan(self, options, interface):
        """All Runs in their order."""
        raise NotImplementedError

    def prepare_run(self, run, directory):
        """Write the input of a run into its directory."""

    def kept_files(self, run):
        """Names of the files in a run's directory that belong to its output."""
        return ()

    def read(self, run, outcome, earlier):
        """What a run gave; `earlier` are the Done before it. BenchError when the output is not
        complete, session.Rejected when it is wrong."""
        raise NotImplementedError

    def line_of(self, done):
        """A good run's result in a line, or an empty text."""
        return ""

    def values(self, done):
        """{Key: {transport: {round: value}}} of these Done, in the report's order."""
        raise NotImplementedError

    def medians(self, done, transports):
        """{Key: {transport: Median}} of these Done."""
        return summary.condense(self.values(done), transports)

    def tables(self, medians, about):
        """The Tables of a report."""
        raise NotImplementedError

    def write_csv(self, directory, record, about):
        """Write the CSV files of a comparison."""
        summary.write_samples(directory / "samples.csv", self.values(record.done))
        medians = self.medians(record.done, about["transports"])
        summary.write_medians(directory / "medians.csv", medians)

    def load(self, directory, about):
        """The Tables of the CSV files."""
        return self.tables(summary.read_medians(directory / "medians.csv"), about)

    def texts(self, tables, about):
        """Tables and sentences for the terminal."""
        return report.texts(tables)

    def title(self, about):
        """Title of the page."""
        return f"{self.page_title}, {about['date']}"

    def lead(self, about):
        """First paragraph of the page: what was measured, and how to read it."""
        raise NotImplementedError

    def body(self, page, tables, about):
        """The page's own part, above the tables."""

    def ending(self, page, tables):
        """The page's own part, below the tables."""
