/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Count open file descriptors, for tests that check for leaks.
 */
#ifndef UNIT_DESCRIPTORS_H
#define UNIT_DESCRIPTORS_H

#include <dirent.h>

#include "unit_test.h"

/** Return the number of this process's open descriptors, plus a constant. */
static inline unsigned unit_open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

#endif
