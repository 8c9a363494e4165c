# SPDX-License-Identifier: BSD-3-Clause
#
# Turns the help file into a C header: one macro for each topic, MCA_BTL_RAWE_HELP_TEXT_<topic>, so
# that the texts are at hand without the file and the compiler can check their arguments.

BEGIN {
    print "/* Made from help-mpi-btl-rawe.txt: change that one. */"
}

/^#/ {
    next
}

/^\[.*\]$/ {
    if (topic) {
        print ""
    }
    topic = substr($0, 2, length($0) - 2)
    printf "#define MCA_BTL_RAWE_HELP_TEXT_%s", topic
    next
}

topic {
    gsub(/\\/, "\\\\")
    gsub(/"/, "\\\"")
    printf " \\\n    \"%s\\n\"", $0
}

END {
    print ""
}
