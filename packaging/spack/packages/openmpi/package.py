# SPDX-License-Identifier: BSD-3-Clause
"""Spack's own Open MPI, with the headers that components are built with."""

try:
    from spack_repo.builtin.packages.openmpi.package import Openmpi as Builtin
except ImportError:
    from spack.pkg.builtin.openmpi import Openmpi as Builtin  # before 1.0


class Openmpi(Builtin):
    __doc__ = Builtin.__doc__

    def configure_args(self):
        """Spack's arguments, and the one that rawe needs."""
        return [*super().configure_args(), "--with-devel-headers"]
