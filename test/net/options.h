/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line of a program as a table, from which the help is also generated.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option_row;

/** Read the value of an option into `to`. Returns false if it is invalid. */
typedef bool option_read_fn(const struct option_row *row, const char *value);

struct option_row {
    const char *name;  /**< without the two hyphens */
    const char *value; /**< name of its value in the help; NULL: no value */
    const char *help;  /**< lines; NULL: hidden */
    option_read_fn *read;
    void *to;
    double least, most; /**< range of numbers */
    const char *want;   /**< describes valid values; NULL: a number from least to most */
};

option_read_fn option_on, option_off;       /**< bool, of options without a value */
option_read_fn option_text;                 /**< const char * */
option_read_fn option_unsigned, option_u64; /**< whole numbers of these types */
option_read_fn option_number;               /**< double */
option_read_fn option_bytes;                /**< size_t; the value may end in K or M */

/** Parse a whole number followed by a character in `end`. Returns its end; NULL if invalid. */
const char *option_whole(const struct option_row *row, const char *value, const char *end,
                         uint64_t *number);

/**
 * Read a command line of options. --help prints `head` and the options, calls `tail` to print
 * the rest, and ends the program; an error prints a message and ends it with status 2.
 */
void options_read(int argc, char **argv, const char *head, const struct option_row *rows,
                  size_t count, void (*tail)(void));

/** Report an invalid value of an option, and end the program with status 2. */
_Noreturn void options_reject(const struct option_row *row, const char *value);

#endif
