# SPDX-License-Identifier: BSD-3-Clause
#
# Finding the Open MPI to build for, and the directories to install into.

# RAWE_NO_COMPONENT_HEADERS
# -------------------------
AC_DEFUN([RAWE_NO_COMPONENT_HEADERS], [
    AC_MSG_ERROR([The Open MPI of $RAWE_MPICC has no headers for components, or they do not compile; config.log tells why. On Debian: apt-get install libopenmpi-dev. An Open MPI of your own has to be configured --with-devel-headers. For any other, fetch $rawe_ompi_address, unpack it, and add --with-ompi-source=DIR])
])

# RAWE_OMPI_SOURCE
# ----------------
# Take the headers for components from the source tree that --with-ompi-source names: adds to
# RAWE_OMPI_CPPFLAGS. The component shares structures with the installed libraries, so version and
# options must agree.
AC_DEFUN([RAWE_OMPI_SOURCE], [
    rawe_ompi_number=`AS_ECHO(["$rawe_ompi_full"]) | sed 's/@<:@^0-9.@:>@.*//'`
    $RAWE_OMPI_INFO --all --parsable > conftest.info 2> /dev/null
    rawe_ompi_cli=`sed -n 's/^config:cli://p' conftest.info`
    AC_MSG_CHECKING([whether $with_ompi_source has the source of Open MPI $rawe_ompi_full])
    # A build directory's Makefile names the source tree.
    rawe_build=`cd "$with_ompi_source" 2> /dev/null && pwd`
    rawe_source=`sed -n 's/^abs_top_srcdir = //p' "$rawe_build/Makefile" 2> /dev/null`
    rawe_source=${rawe_source:-$rawe_build}
    rawe_version=`sed -n -e 's/^major=//p' -e 's/^minor=/./p' -e 's/^release=/./p' "$rawe_source/VERSION" 2> /dev/null | tr -d '\n'`
    AS_IF([test ! -f "$rawe_source/opal/mca/btl/btl.h" || test -z "$rawe_version"],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([--with-ompi-source=$with_ompi_source: neither a source tree of Open MPI nor a build directory of one. Fetch $rawe_ompi_address])],
          [test "$rawe_version" != "$rawe_ompi_number"],
          [AC_MSG_RESULT([no, $rawe_version])
           AC_MSG_ERROR([--with-ompi-source=$with_ompi_source has Open MPI $rawe_version, and $RAWE_OMPI_INFO belongs to $rawe_ompi_full. Fetch $rawe_ompi_address])],
          [test ! -f "$rawe_build/opal/include/opal_config.h"],
          [AC_MSG_RESULT([yes, not configured])
           AC_MSG_ERROR([--with-ompi-source=$with_ompi_source is not configured. Configure it in a directory of its own, as the installed Open MPI was, and name that directory. Nothing has to be built; options for Fortran, Java, networks and batch systems may be left out:
    mkdir $rawe_build/build && cd $rawe_build/build
    ../configure$rawe_ompi_cli])],
          [AC_MSG_RESULT([yes])])

    # Options that change structures, or the meaning of their fields: the macro in opal_config.h, and
    # what ompi_info calls it. Some exist only in 4.1, others only in 5.0.
    for rawe_pair in \
        OPAL_ENABLE_DEBUG=option:debug \
        OPAL_ENABLE_HETEROGENEOUS_SUPPORT=options:heterogeneous \
        OMPI_GROUP_SPARSE=option:sparse:groups \
        OPAL_ENABLE_FT_CR=options:ft_support \
        OPAL_ENABLE_FT_MPI=options:ft_mpi_support \
        OPAL_CUDA_SUPPORT=mca:opal:base:param:opal_built_with_cuda_support:value \
        OPAL_MAX_OBJECT_NAME=options:mpi-max-object-name; do
        rawe_macro=`AS_ECHO(["$rawe_pair"]) | sed 's/=.*//'`
        rawe_key=`AS_ECHO(["$rawe_pair"]) | sed 's/.*=//'`
        rawe_there=`sed -n "s/^@%:@define $rawe_macro //p" "$rawe_build/opal/include/opal_config.h"`
        rawe_here=`sed -n -e "s/^$rawe_key:\"*//p" conftest.info | sed -e 's/ .*//' -e 's/^yes$/1/' -e 's/^true$/1/' -e 's/^no$/0/' -e 's/^false$/0/'`
        AS_IF([test -n "$rawe_there" && test -n "$rawe_here" && test "$rawe_there" != "$rawe_here"],
              [AC_MSG_ERROR([--with-ompi-source=$with_ompi_source is configured with other options than the installed Open MPI: $rawe_macro is $rawe_there there, and $RAWE_OMPI_INFO says $rawe_here ($rawe_key). The installed one was configured with$rawe_ompi_cli])])
    done
    rm -f conftest.info

    # Its own flags also name the headers of its copies of hwloc and libevent.
    rawe_flags=`sed -n 's/^CPPFLAGS = //p' "$rawe_build/Makefile" | sed -e "s|@S|@(top_srcdir)|$rawe_source|g" -e "s|@S|@(top_builddir)|$rawe_build|g"`
    for rawe_dir in opal ompi orte; do
        RAWE_OMPI_CPPFLAGS="$RAWE_OMPI_CPPFLAGS -isystem $rawe_build/$rawe_dir/include -isystem $rawe_source/$rawe_dir/include"
    done
    RAWE_OMPI_CPPFLAGS="$RAWE_OMPI_CPPFLAGS -isystem $rawe_source -isystem $rawe_build"
    for rawe_flag in $rawe_flags; do
        AS_CASE([$rawe_flag],
                [-I/*|-iquote/*], [RAWE_OMPI_CPPFLAGS="$RAWE_OMPI_CPPFLAGS -isystem `AS_ECHO([" $rawe_flag"]) | sed 's/^ -@<:@a-zA-Z@:>@*//'`"])
    done
])

# RAWE_OMPI_MISSING_HEADERS
# -------------------------
# Headers that those of Open MPI 5.0 and later include, and that are not beside them: adds to
# CPPFLAGS, RAWE_OMPI_CPPFLAGS and RAWE_OMPI_LIBS.
AC_DEFUN([RAWE_OMPI_MISSING_HEADERS], [
    AC_MSG_CHECKING([for Open MPI's header of its mutex])
    AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include "opal_config.h"
#include MCA_threads_mutex_base_include_HEADER]])],
                      [AC_MSG_RESULT([found])],
                      [AC_MSG_RESULT([not installed, using config/headers])
                       rawe_include="-isystem `cd "$srcdir" && pwd`/config/headers"
                       RAWE_OMPI_CPPFLAGS="$RAWE_OMPI_CPPFLAGS $rawe_include"
                       CPPFLAGS="$CPPFLAGS $rawe_include"])
    # Open MPI's own PMIx is installed with it; another one has to be found.
    PKG_CHECK_MODULES([PMIX], [pmix],
                      [rawe_include=`AS_ECHO([" $PMIX_CFLAGS"]) | sed 's/ -I/ -isystem /g'`
                       RAWE_OMPI_CPPFLAGS="$RAWE_OMPI_CPPFLAGS $rawe_include"
                       RAWE_OMPI_LIBS="$RAWE_OMPI_LIBS $PMIX_LIBS"
                       CPPFLAGS="$CPPFLAGS $rawe_include"],
                      [RAWE_OMPI_LIBS="$RAWE_OMPI_LIBS -lpmix"
                       # Without pkg-config: the linker's name is a link to the library, near which the
                       # headers are.
                       rawe_file=`$CC -print-file-name=libpmix.so`
                       rawe_file=`readlink -f "$rawe_file"`
                       rawe_dir=`AS_DIRNAME(["$rawe_file"])`
                       rawe_dir=`AS_DIRNAME(["$rawe_dir"])`/include
                       AS_IF([test -f "$rawe_dir/pmix.h"],
                             [RAWE_OMPI_CPPFLAGS="$RAWE_OMPI_CPPFLAGS -isystem $rawe_dir"
                              CPPFLAGS="$CPPFLAGS -isystem $rawe_dir"])])
    AC_CHECK_HEADER([pmix.h], [],
                    [AC_MSG_ERROR([The header pmix.h of PMIx is missing. On Debian: apt-get install libpmix-dev. Elsewhere name its directories: PMIX_CFLAGS=-IDIR PMIX_LIBS='-LDIR -lpmix'])])
])

# RAWE_FIND_OMPI
# --------------
# Sets RAWE_MPICC, RAWE_OMPI_CPPFLAGS and RAWE_OMPI_LIBS for the component, RAWE_MPI_CPPFLAGS and
# RAWE_MPI_LIBS for MPI programs, and rawe_ompi_{version,pkglibdir,pkgdatadir,bindir,libexecdir,mandir}.
AC_DEFUN([RAWE_FIND_OMPI], [
    AC_ARG_WITH([ompi],
                [AS_HELP_STRING([--with-ompi=DIR],
                                [build for the Open MPI installed below DIR (that is, the one of
                                 DIR/bin/mpicc); default: the one whose mpicc is on PATH])])
    AC_ARG_WITH([ompi-source],
                [AS_HELP_STRING([--with-ompi-source=DIR],
                                [where that Open MPI is installed without headers for components:
                                 its source tree, configured with the same options in DIR])])

    AS_CASE([$with_ompi],
            [no], [AC_MSG_ERROR([rawe is a component of Open MPI and cannot be built without it.])],
            [''|yes], [rawe_ompi_path=$PATH],
            [rawe_ompi_path=$with_ompi/bin])
    # Debian's mpicc may be another MPI's; its Open MPI is then at hand under a longer name.
    AC_MSG_CHECKING([for mpicc of an Open MPI])
    RAWE_MPICC=
    rawe_IFS_save=$IFS
    IFS=:
    for rawe_dir in $rawe_ompi_path; do
        for rawe_program in "$rawe_dir/mpicc" "$rawe_dir/mpicc.openmpi"; do
            AS_IF([test -z "$RAWE_MPICC" && test -x "$rawe_program" &&
                   "$rawe_program" --showme:version 2>/dev/null | grep "Open MPI" >/dev/null],
                  [RAWE_MPICC=$rawe_program])
        done
    done
    IFS=$rawe_IFS_save
    AS_IF([test -n "$RAWE_MPICC"],
          [AC_MSG_RESULT([$RAWE_MPICC])],
          [AC_MSG_RESULT([none])
           AC_MSG_ERROR([No mpicc of an Open MPI in $rawe_ompi_path. On Debian: apt-get install openmpi-bin libopenmpi-dev. If Open MPI is installed elsewhere, name its prefix: --with-ompi=DIR])])
    AC_SUBST([RAWE_MPICC])
    AC_PATH_PROG([RAWE_OMPI_INFO], [ompi_info], [], [`AS_DIRNAME(["$RAWE_MPICC"])`])
    AS_IF([test -z "$RAWE_OMPI_INFO"],
          [AC_MSG_ERROR([There is no ompi_info beside $RAWE_MPICC. On Debian: apt-get install openmpi-bin])])

    m4_foreach_w([rawe_dir], [pkglibdir pkgincludedir incdir pkgdatadir bindir libexecdir mandir],
                 [rawe_ompi_[]rawe_dir=`$RAWE_OMPI_INFO --parsable --path rawe_dir | sed -n 's/^path:rawe_dir://p'`
                 ])
    AS_IF([test ! -d "$rawe_ompi_pkglibdir"],
          [AC_MSG_ERROR([$RAWE_OMPI_INFO names no directory for components ("$RAWE_OMPI_INFO --path pkglibdir" says "$rawe_ompi_pkglibdir").])])

    rawe_ompi_full=`$RAWE_OMPI_INFO --parsable | sed -n 's/^ompi:version:full://p'`
    rawe_ompi_address=https://download.open-mpi.org/release/open-mpi/v`AS_ECHO(["$rawe_ompi_full"]) | cut -d . -f 1,2`/openmpi-$rawe_ompi_full.tar.bz2

    # As system headers: their warnings are not ours. mpicc also names the plain include directories.
    RAWE_MPI_CPPFLAGS=
    for rawe_dir in `$RAWE_MPICC --showme:incdirs`; do
        RAWE_MPI_CPPFLAGS="$RAWE_MPI_CPPFLAGS -isystem $rawe_dir"
    done
    rawe_libdirs=
    for rawe_dir in `$RAWE_MPICC --showme:libdirs`; do
        rawe_libdirs="$rawe_libdirs -L$rawe_dir"
    done
    RAWE_MPI_LIBS=`$RAWE_MPICC --showme:link`
    RAWE_OMPI_CPPFLAGS="$RAWE_MPI_CPPFLAGS -isystem $rawe_ompi_pkgincludedir"
    RAWE_OMPI_LIBS="$rawe_libdirs -lopen-pal"
    AS_CASE([$with_ompi_source], [''|no], [], [RAWE_OMPI_SOURCE])

    rawe_CPPFLAGS_save=$CPPFLAGS
    rawe_LIBS_save=$LIBS
    CPPFLAGS="$CPPFLAGS $RAWE_OMPI_CPPFLAGS"
    AC_CHECK_HEADER([opal/version.h], [], [RAWE_NO_COMPONENT_HEADERS], [#include "opal_config.h"])
    AC_COMPUTE_INT([rawe_ompi_major], [OPAL_MAJOR_VERSION],
                   [[#include "opal_config.h"
#include "opal/version.h"]])
    AC_COMPUTE_INT([rawe_ompi_minor], [OPAL_MINOR_VERSION],
                   [[#include "opal_config.h"
#include "opal/version.h"]])
    AC_COMPUTE_INT([rawe_ompi_release], [OPAL_RELEASE_VERSION],
                   [[#include "opal_config.h"
#include "opal/version.h"]])
    rawe_ompi_version=$rawe_ompi_major.$rawe_ompi_minor.$rawe_ompi_release
    AC_MSG_CHECKING([whether Open MPI $rawe_ompi_version will do])
    AS_IF([test "$rawe_ompi_major" -ge 5 || test "$rawe_ompi_major.$rawe_ompi_minor" = 4.1],
          [AC_MSG_RESULT([yes])],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([rawe needs Open MPI 4.1 or later; $RAWE_MPICC belongs to $rawe_ompi_version. Name another: --with-ompi=DIR])])

    AS_IF([test "$rawe_ompi_major" -ge 5], [RAWE_OMPI_MISSING_HEADERS])
    AC_CHECK_HEADER([opal/mca/btl/btl.h], [], [RAWE_NO_COMPONENT_HEADERS],
                    [#include "opal_config.h"])

    LIBS="$RAWE_OMPI_LIBS $LIBS"
    AC_MSG_CHECKING([for opal_version_string in libopen-pal])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include "opal_config.h"
#include "opal/runtime/opal.h"]], [[return opal_version_string[0];]])],
                   [AC_MSG_RESULT([yes])],
                   [AC_MSG_RESULT([no])
                    AC_MSG_ERROR([Cannot link with Open MPI's libopen-pal ($RAWE_OMPI_LIBS); config.log tells why.])])
    CPPFLAGS=$rawe_CPPFLAGS_save
    LIBS=$rawe_LIBS_save

    AC_SUBST([RAWE_MPI_CPPFLAGS])
    AC_SUBST([RAWE_MPI_LIBS])
])

# RAWE_INSTALL_DIRS
# -----------------
# Everything goes below --prefix if that is given, else into the Open MPI found. The names are Open
# MPI's, so that the component's Makefile.am need not care whose build it is in.
# Sets rawe_component_dir, and rawe_own_prefix: Open MPI does not look there by itself.
AC_DEFUN([RAWE_INSTALL_DIRS], [
    AC_ARG_WITH([component-dir],
                [AS_HELP_STRING([--with-component-dir@<:@=DIR@:>@],
                                [install the component into DIR; without DIR, into the directory in
                                 which the Open MPI found looks for components; default: that
                                 directory, but LIBDIR/openmpi if --prefix is given])])

    AS_IF([test "x$prefix" = xNONE],
          [rawe_own_prefix=no
           opallibdir=$rawe_ompi_pkglibdir
           opaldatadir=$rawe_ompi_pkgdatadir
           bindir=$rawe_ompi_bindir
           libexecdir=$rawe_ompi_libexecdir
           mandir=$rawe_ompi_mandir],
          [rawe_own_prefix=yes
           opallibdir='${libdir}/openmpi'
           opaldatadir='${datadir}/openmpi'])
    AS_CASE([$with_component_dir],
            [''], [],
            [yes], [opallibdir=$rawe_ompi_pkglibdir],
            [/*], [opallibdir=$with_component_dir],
            [AC_MSG_ERROR([--with-component-dir=$with_component_dir: an absolute path is needed, or no value for the directory of the Open MPI found.])])
    # Components of all of Open MPI's projects lie in one directory.
    ompilibdir=$opallibdir
    AC_SUBST([opallibdir])
    AC_SUBST([ompilibdir])
    AC_SUBST([opaldatadir])

    rawe_component_dir=`prefix=$prefix; test "x$exec_prefix" = xNONE && exec_prefix=$prefix; eval echo "$opallibdir"`
    AS_IF([test "$rawe_component_dir" = "$rawe_ompi_pkglibdir"], [rawe_own_prefix=no])
])

# RAWE_HELPER
# -----------
# Sets RAWE_HELPER_LIST, the access list of rawe-socket-helper, which is built into it, and
# rawe_helper_program, where it is installed.
AC_DEFUN([RAWE_HELPER], [
    AC_ARG_WITH([helper-list],
                [AS_HELP_STRING([--with-helper-list=FILE],
                                [the access list of rawe-socket-helper; default:
                                 /etc/rawe/helper.conf])])
    AS_CASE([$with_helper_list],
            [''|yes|no], [RAWE_HELPER_LIST=/etc/rawe/helper.conf],
            [/*], [RAWE_HELPER_LIST=$with_helper_list],
            [AC_MSG_ERROR([--with-helper-list wants an absolute path, not $with_helper_list])])
    AC_SUBST([RAWE_HELPER_LIST])

    rawe_helper_program=`test "x$exec_prefix" = xNONE && exec_prefix=$prefix; eval echo "$libexecdir"`/rawe/rawe-socket-helper
])
