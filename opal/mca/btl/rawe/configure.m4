# -*- shell-script -*-
# SPDX-License-Identifier: BSD-3-Clause
#
# What configure does for this component, in an Open MPI source tree (whose autogen.pl finds this
# file and calls the macro by its name) as well as in the project's own build (whose configure.ac
# sets btl_rawe_* beforehand).

# MCA_opal_btl_rawe_POST_CONFIG([should_build])
# ---------------------------------------------
# Conditionals belong here: Open MPI calls this also for components it does not build.
AC_DEFUN([MCA_opal_btl_rawe_POST_CONFIG], [
    AM_CONDITIONAL([OPAL_BTL_RAWE_LAYERS_ONLY], [test "$btl_rawe_layers_only" = yes])
])

# MCA_opal_btl_rawe_CONFIG([action-if-can-compile], [action-if-cant-compile])
# ---------------------------------------------------------------------------
AC_DEFUN([MCA_opal_btl_rawe_CONFIG], [
    AC_CONFIG_FILES([opal/mca/btl/rawe/Makefile])

    # All headers that not every system has, and what was added to them last (Linux 4.12).
    AC_MSG_CHECKING([for a 64-bit Linux with all that rawe needs])
    AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/virtio_net.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#if __SIZEOF_POINTER__ != 8
#error a pointer has to have 64 bits
#endif
int needed[] = {ETHTOOL_GLINKSETTINGS, IFLA_INFO_SLAVE_KIND, PACKET_FANOUT_FLAG_UNIQUEID,
                VIRTIO_NET_HDR_GSO_TCPV4};
]])], [opal_btl_rawe_happy=yes], [opal_btl_rawe_happy=no])
    AC_MSG_RESULT([$opal_btl_rawe_happy])

    AS_IF([test "$btl_rawe_out_of_tree" != yes],
          [ # 5.0 renamed the variable that holds the library's name.
           AS_IF([test -n "$OPAL_LIB_NAME"],
                 [btl_rawe_LIBADD='$(top_builddir)/opal/lib$(OPAL_LIB_NAME).la'],
                 [btl_rawe_LIBADD='$(top_builddir)/opal/lib$(OPAL_LIB_PREFIX)open-pal.la'])
           btl_rawe_CPPFLAGS=
           # Since 5.0 components are linked into Open MPI's library: hide this one's symbols.
           btl_rawe_CFLAGS="-std=gnu11 -fvisibility=hidden"])
    AC_SUBST([btl_rawe_CPPFLAGS])
    AC_SUBST([btl_rawe_CFLAGS])
    AC_SUBST([btl_rawe_LIBADD])

    m4_ifdef([OPAL_SUMMARY_ADD],
             [OPAL_SUMMARY_ADD([Transports], [Raw Ethernet frames], [], [$opal_btl_rawe_happy])])

    AS_IF([test "$opal_btl_rawe_happy" = yes], [$1], [$2])
])dnl
