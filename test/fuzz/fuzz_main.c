/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A fuzz target without libFuzzer, for compilers that lack it: replays files and folders and, if
 * requested, inputs made from them by the target's own mutator.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_BYTES_MAX 65536u

struct input_file {
    uint8_t *data;
    size_t len_bytes;
};

static const char *program;
static struct input_file *inputs;
static size_t input_count;

_Noreturn static void give_up(const char *what, const char *path)
{
    fprintf(stderr, "%s: %s %s: %s\n", program, what, path, strerror(errno));
    exit(2);
}

static void add_file(const char *path)
{
    uint8_t data[INPUT_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        give_up("cannot open", path);
    }
    size_t len_bytes = fread(data, 1, sizeof(data), file);
    if (ferror(file)) {
        give_up("cannot read", path);
    }
    fclose(file);
    inputs = realloc(inputs, (input_count + 1) * sizeof(*inputs));
    if (inputs == NULL) {
        give_up("no memory for", path);
    }
    inputs[input_count++] = (struct input_file){fuzz_copy(data, len_bytes), len_bytes};
}

static void add(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        give_up("cannot find", path);
    }
    if (!S_ISDIR(status.st_mode)) {
        add_file(path);
        return;
    }
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) {
        give_up("cannot list", path);
    }
    for (int i = 0; i < count; i++) {
        char name[4096];
        if (entries[i]->d_name[0] != '.') {
            snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
            add(name);
        }
        free(entries[i]);
    }
    free(entries);
}

/** A simple substitute for libFuzzer's mutator. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t len_bytes, size_t max_bytes)
{
    static uint64_t random = 1;
    if (len_bytes < max_bytes && fuzz_random(&random) % 4 == 0) {
        data[len_bytes++] = (uint8_t)fuzz_random(&random);
    }
    if (len_bytes != 0) {
        data[fuzz_random(&random) % len_bytes] = (uint8_t)fuzz_random(&random);
    }
    return len_bytes;
}

/** Run one input from memory of exactly its length. */
static void run(const uint8_t *data, size_t len_bytes)
{
    uint8_t *copy = fuzz_copy(data, len_bytes);
    LLVMFuzzerTestOneInput(copy, len_bytes);
    fuzz_delete(copy);
}

/** Write the input to disk before it is run, so that a crash can be replayed. */
static void write_input(const char *path, const uint8_t *data, size_t len_bytes)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, len_bytes, file) != len_bytes || fclose(file) != 0) {
        give_up("cannot write", path);
    }
}

/**
 * Run mutants. Each is first written to `keep`, which afterwards holds the one that failed, if any.
 */
static void run_mutants(unsigned long count, unsigned seed, const char *keep)
{
    uint8_t *data = fuzz_new(INPUT_BYTES_MAX);
    uint64_t random = seed;
    for (unsigned long i = 0; i < count; i++) {
        const struct input_file *from = &inputs[fuzz_random(&random) % input_count];
        size_t len_bytes = from->len_bytes;
        memcpy(data, from->data, len_bytes);
        for (unsigned rounds = 1 + fuzz_random(&random) % 8; rounds != 0; rounds--) {
            len_bytes = LLVMFuzzerCustomMutator(data, len_bytes, 8192, fuzz_random(&random));
        }
        if (keep != NULL) {
            write_input(keep, data, len_bytes);
        }
        run(data, len_bytes);
    }
    if (keep != NULL && count != 0) {
        remove(keep);
    }
    fuzz_delete(data);
}

int main(int argc, char **argv)
{
    unsigned long mutants = 0, accepted_min = 0;
    unsigned seed = 1;
    const char *keep = NULL;
    program = argv[0];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--mutants") == 0 && i + 1 < argc) {
            mutants = strtoul(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--accepted") == 0 && i + 1 < argc) {
            accepted_min = strtoul(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = (unsigned)strtoul(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--keep") == 0 && i + 1 < argc) {
            keep = argv[++i];
        } else if (argv[i][0] == '-') {
            fprintf(stderr,
                    "usage: %s [--accepted N] [--mutants N] [--seed N] [--keep FILE] "
                    "FILE|FOLDER...\n",
                    program);
            return 2;
        } else {
            add(argv[i]);
        }
    }
    if (input_count == 0) {
        fprintf(stderr, "%s: there is nothing to run: name files or folders of inputs\n", program);
        return 2;
    }
    for (size_t i = 0; i < input_count; i++) {
        run(inputs[i].data, inputs[i].len_bytes);
    }
    if (fuzz_accepted < accepted_min) {
        fprintf(stderr, "%s: only %u of %zu inputs were accepted: are they of an older format?\n",
                program, fuzz_accepted, input_count);
        return 1;
    }
    run_mutants(mutants, seed, keep);
    printf("%s: %zu inputs and %lu mutants of them ran through\n", program, input_count, mutants);
    for (size_t i = 0; i < input_count; i++) {
        fuzz_delete(inputs[i].data);
    }
    free(inputs);
    return 0;
}
