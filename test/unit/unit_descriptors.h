/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * For tests that nothing stays open.
 */
#ifndef UNIT_DESCRIPTORS_H
#define UNIT_DESCRIPTORS_H

#include <dirent.h>

#include "unit_test.h"

/** How many descriptors this process has open, and a constant beside. */
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
