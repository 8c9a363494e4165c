# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison has to know of the programs that it runs; each driver fills this in."""


class Driver:
    """One folder of bench/ with a `compare`.

    The order of calls: add_options(), finish(), prepare(), plan(); read() and line_of() for each
    run; write_csv(), load(); then texts() for the terminal, and title(), lead(), body() for the
    page. What load() returns is the driver's own; a report is made of it alone, so that one can be
    made again from the CSV files.
    """

    name = ""  # of the folder
    description = ""
    epilog = ""  # examples and exit status, for --help
    quick = ""  # what --quick does
    packages = ("build", "bench")  # groups of test/install-deps
    timeout = 900.0  # seconds of one mpirun, by default
    contents = True  # whether the page has a table of contents, where it has many headings
    works_in_directory = False  # each run gets a directory, visible to all ranks

    def add_options(self, parser):
        """Add the driver's own options."""

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

    def write_csv(self, directory, record, about):
        """Write the CSV files of a comparison."""
        raise NotImplementedError

    def load(self, directory, about):
        """What the CSV files hold."""
        raise NotImplementedError

    def condense(self, done, about):
        """What load() would return of these Done; `about` needs transports and base only."""
        raise NotImplementedError

    def wide(self, data, about):
        """The ratios whose interval is not narrow, a text for each table of them."""
        raise NotImplementedError

    def plots(self, data, about):
        """What the terminal shows as plot.Plots."""
        return []

    def texts(self, data, about):
        """Tables and sentences for the terminal."""
        raise NotImplementedError

    def spread(self, data):
        """(max - min) / median of a typical value over the rounds, or None."""
        raise NotImplementedError

    def title(self, data, about):
        """Title of the page."""
        raise NotImplementedError

    def lead(self, data, about):
        """First paragraph of the page: what was measured, and how to read it."""
        raise NotImplementedError

    def body(self, page, data, about):
        """The page's own part; images go into it with page.charts() and page.panels()."""
        raise NotImplementedError
