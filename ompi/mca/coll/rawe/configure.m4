# -*- shell-script -*-
# SPDX-License-Identifier: BSD-3-Clause
#
# What configure does for this component, in an Open MPI source tree as well as in the project's own
# build; see that of opal/mca/btl/rawe, which this one needs.

# MCA_ompi_coll_rawe_CONFIG([action-if-can-compile], [action-if-cant-compile])
# ---------------------------------------------------------------------------
AC_DEFUN([MCA_ompi_coll_rawe_CONFIG], [
    AC_CONFIG_FILES([ompi/mca/coll/rawe/Makefile])

    # A copy of the tree may have the one without the other. 6.0 has another interface.
    AS_IF([test "$opal_btl_rawe_happy" = yes &&
           test -r "$srcdir/opal/mca/btl/rawe/btl_rawe_offer.h" &&
           test "${rawe_ompi_major:-$OMPI_MAJOR_VERSION}" -lt 6],
          [ompi_coll_rawe_happy=yes], [ompi_coll_rawe_happy=no])

    AS_IF([test "$btl_rawe_out_of_tree" != yes],
          [coll_rawe_LIBADD='$(top_builddir)/ompi/lib$(OMPI_LIBMPI_NAME).la'
           coll_rawe_CPPFLAGS=
           coll_rawe_CFLAGS="-std=gnu11 -fvisibility=hidden"])
    AC_SUBST([coll_rawe_CPPFLAGS])
    AC_SUBST([coll_rawe_CFLAGS])
    AC_SUBST([coll_rawe_LIBADD])

    AS_IF([test "$ompi_coll_rawe_happy" = yes], [$1], [$2])
])dnl
