/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-info: shows which interfaces the component would use on this host and why, what this user
 * may do, which Open MPI has which component. Facts only; rawe-advise says what to change.
 */
#include <getopt.h>
#include <stdio.h>

#include "info.h"

static void usage(FILE *out)
{
    fputs("Usage: rawe-info\n"
          "Shows what rawe finds on this host: for each interface whether the component would use\n"
          "it, or why not; what this user may do; which Open MPI has which component.\n"
          "\n"
          "  -V, --version  release and wire version of rawe-info\n"
          "  -h, --help     this text\n"
          "\n"
          "Run it in a job, as the user of the job. Parameters of rawe apply as they do there:\n"
          "OMPI_MCA_btl_rawe_if_include=eth1 rawe-info. Exit status: 0 success;\n"
          "1 something could not be found out; 2 wrong usage.\n",
          out);
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    static struct info info;
    int option;

    while ((option = getopt_long(argc, argv, "Vh", names, NULL)) != -1) {
        switch (option) {
        case 'V':
            printf("rawe-info %s, wire version %u\n", PACKAGE_VERSION, RAWE_WIRE_VERSION);
            return INFO_GOOD;
        case 'h':
            usage(stdout);
            return INFO_GOOD;
        default:
            usage(stderr);
            return INFO_CANNOT;
        }
    }
    if (optind != argc) {
        fprintf(stderr, "rawe-info: %s: it takes no arguments, and looks at all interfaces\n",
                argv[optind]);
        usage(stderr);
        return INFO_CANNOT;
    }
    info_find_ompi(&info);
    info_look_at_host(&info);
    info_look_at_interfaces(&info);
    info_show_text(&info);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        info_fail(&info, "standard output cannot be written");
    }
    return info.incomplete ? INFO_INCOMPLETE : INFO_GOOD;
}
