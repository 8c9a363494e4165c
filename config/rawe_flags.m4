# SPDX-License-Identifier: BSD-3-Clause
#
# Compiler flags of the project's own build: warnings, sanitizers, coverage.

# RAWE_TRY_CFLAG(variable, flag)
# ------------------------------
# Add a flag to the variable if the compiler knows it.
AC_DEFUN([RAWE_TRY_CFLAG], [
    AC_MSG_CHECKING([whether $CC takes $2])
    rawe_CFLAGS_save=$CFLAGS
    CFLAGS="$CFLAGS -Werror $2"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
                      [$1="$$1 $2"
                       AC_MSG_RESULT([yes])],
                      [AC_MSG_RESULT([no])])
    CFLAGS=$rawe_CFLAGS_save
])

# RAWE_COMPILER_FLAGS
# -------------------
# Sets RAWE_CFLAGS, for everything compiled here, and rawe_sanitizers.
AC_DEFUN([RAWE_COMPILER_FLAGS], [
    AC_ARG_ENABLE([werror],
                  [AS_HELP_STRING([--enable-werror],
                                  [treat warnings as errors; default: in a git clone only])])
    AC_ARG_ENABLE([sanitizers],
                  [AS_HELP_STRING([--enable-sanitizers=LIST],
                                  [instrument core, unit tests and simulator with these
                                   sanitizers (address,undefined or thread); the component and
                                   the MPI programs are not built then])])
    AC_ARG_ENABLE([coverage],
                  [AS_HELP_STRING([--enable-coverage], [count executed lines, for gcov])])

    # A callback has the parameters of its type, needed or not.
    RAWE_CFLAGS=-std=gnu11
    m4_foreach_w([rawe_flag],
                 [-Wall -Wextra -Wno-unused-parameter -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
                  -Wpointer-arith -Wvla -Wundef -Wimplicit-fallthrough
                  -fvisibility=hidden -fno-common -pthread],
                 [RAWE_TRY_CFLAG([RAWE_CFLAGS], rawe_flag)])
    # Pairs of counters added as vectors need constants in further cache lines, and gain nothing.
    RAWE_TRY_CFLAG([RAWE_CFLAGS], [-fno-tree-slp-vectorize])
    # Functions that begin with a cache line touch fewer of them, always the same number.
    RAWE_TRY_CFLAG([RAWE_CFLAGS], [-falign-functions=64])
    # Open MPI's lists compare and swap 16 bytes at a time; x86-64 needs to be told that it can.
    RAWE_TRY_CFLAG([RAWE_CFLAGS], [-mcx16])
    # A warning of a compiler that was not tried must not stop a user's build.
    AS_IF([test -z "$enable_werror" && test -e "$srcdir/.git"], [enable_werror=yes])
    AS_IF([test "${enable_werror:-no}" != no], [RAWE_CFLAGS="$RAWE_CFLAGS -Werror"])

    rawe_sanitizers=
    AS_CASE([$enable_sanitizers],
            [''|no], [],
            [yes], [rawe_sanitizers=address,undefined],
            [rawe_sanitizers=$enable_sanitizers])
    AS_IF([test -n "$rawe_sanitizers"], [
        rawe_sanitize_flags="-fsanitize=$rawe_sanitizers -fno-sanitize-recover=all -fno-omit-frame-pointer"
        AC_MSG_CHECKING([whether $CC builds programs with -fsanitize=$rawe_sanitizers])
        rawe_CFLAGS_save=$CFLAGS
        CFLAGS="$CFLAGS $rawe_sanitize_flags"
        AC_LINK_IFELSE([AC_LANG_PROGRAM()],
                       [AC_MSG_RESULT([yes])],
                       [AC_MSG_RESULT([no])
                        AC_MSG_ERROR([$CC cannot build with -fsanitize=$rawe_sanitizers. Valid are address, undefined, "address,undefined" and thread; gcc needs libasan, libubsan or libtsan installed.])])
        CFLAGS=$rawe_CFLAGS_save
        RAWE_CFLAGS="$RAWE_CFLAGS $rawe_sanitize_flags"
    ])
    AS_IF([test -n "$enable_coverage" && test "$enable_coverage" != no],
          [RAWE_CFLAGS="$RAWE_CFLAGS --coverage"])

    AC_SUBST([RAWE_CFLAGS])

    # Constants such as MPI_UNWEIGHTED are addresses that point nowhere, which gcc 11 and later take
    # for a mistake.
    RAWE_MPI_CFLAGS=$RAWE_CFLAGS
    RAWE_TRY_CFLAG([RAWE_MPI_CFLAGS], [-Wno-stringop-overread])
    AC_SUBST([RAWE_MPI_CFLAGS])
])
