# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: F403, F405 - recipes get their vocabulary by import *
"""How Spack builds rawe, from the clone that this file lies in."""

from pathlib import Path

from spack.package import *

try:
    from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

    COMPILER_IS_A_DEPENDENCY = True
except ImportError:  # before 1.0: it is in spack.package
    COMPILER_IS_A_DEPENDENCY = False


class Rawe(AutotoolsPackage):
    """MPI between hosts in raw Ethernet frames or UDP datagrams: a BTL component of Open MPI,
    and tools that check a network for it."""

    git = Path(__file__).resolve().parents[4].as_uri()

    license("BSD-3-Clause")

    version("main", branch="main")

    if COMPILER_IS_A_DEPENDENCY:
        depends_on("c", type="build")
    depends_on("autoconf@2.69:", type="build")
    depends_on("automake@1.15:", type="build")
    depends_on("libtool@2.4.6:", type="build")
    depends_on("m4", type="build")
    depends_on("perl", type="build")
    depends_on("pkgconfig", type="build")
    # A component fits only one major.minor version of Open MPI.
    depends_on("openmpi@4.1")

    def autoreconf(self, spec, prefix):
        """Make ./configure."""
        Executable("./autogen.pl")()

    def configure_args(self):
        """Build for Spack's Open MPI; flags are Spack's business, and so are warnings."""
        return [f"--with-ompi={self.spec['openmpi'].prefix}", "--disable-werror"]

    def setup_run_environment(self, env):
        """Open MPI does not search other packages' prefixes."""
        env.set(
            "OMPI_MCA_mca_base_component_path",
            f"{self.prefix.lib}/openmpi:SYSTEM_DEFAULT:USER_DEFAULT",
        )
