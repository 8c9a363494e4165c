# SPDX-License-Identifier: BSD-3-Clause
#
# Turns the texts of the messages into a C header: for each topic a macro, which the compiler can
# check the arguments against, and a number.

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
    topics = topics "    MCA_BTL_RAWE_HELP_TOPIC_" topic ",\n"
    printf "#define MCA_BTL_RAWE_HELP_TEXT_%s", topic
    next
}

topic {
    gsub(/\\/, "\\\\")
    gsub(/"/, "\\\"")
    printf " \\\n    \"%s\\n\"", $0
}

END {
    print "\nenum mca_btl_rawe_help_topic {\n" topics "    MCA_BTL_RAWE_HELP_TOPICS,\n};"
}
