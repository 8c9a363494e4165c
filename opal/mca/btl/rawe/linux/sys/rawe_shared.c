/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "rawe_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/** Return true for this user's file, with this length or none yet. */
static bool is_ours(int fd, size_t len_bytes)
{
    struct stat status;

    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
           (status.st_size == 0 || (size_t)status.st_size == len_bytes);
}

/** Allocate the file: in a full file system, the first write to the mapping would raise SIGBUS. */
static bool has_room(int fd, size_t len_bytes)
{
    return fallocate(fd, 0, 0, (off_t)len_bytes) == 0 ||
           (errno == EOPNOTSUPP && ftruncate(fd, (off_t)len_bytes) == 0);
}

void *rawe_shared_map(const char *path, size_t len_bytes)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;

    if (fd < 0) {
        return NULL;
    }
    if (is_ours(fd, len_bytes) && has_room(fd, len_bytes)) {
        memory = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    return memory != MAP_FAILED ? memory : NULL;
}

void rawe_shared_unmap(void *memory, size_t len_bytes)
{
    if (memory != NULL) {
        munmap(memory, len_bytes);
    }
}
