/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * getrandom(), also with glibc before 2.25, which lacks the function but has the system call.
 */
#ifndef RAWE_RANDOM_H
#define RAWE_RANDOM_H

#include <features.h>

#ifdef __GLIBC__
#if !__GLIBC_PREREQ(2, 25)
#define RAWE_RANDOM_BY_SYSCALL
#endif
#endif

#ifdef RAWE_RANDOM_BY_SYSCALL
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline ssize_t getrandom(void *buffer, size_t length_bytes, unsigned flags)
{
    return syscall(SYS_getrandom, buffer, length_bytes, flags);
}
#else
#include <sys/random.h>
#endif

#endif
