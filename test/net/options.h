/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line of a program as a table, of which the help is made, too.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option_row;

/** Reads the value of an option into `to`. False: it is none. */
typedef bool option_read_fn(const struct option_row *row, const char *value);

struct option_row {
    const char *name;  /**< without the two hyphens */
    const char *value; /**< what the help calls its value; NULL: it has none */
    const char *help;  /**< lines; NULL: the help does not show the option */
    option_read_fn *read;
    void *to;
    double least, most; /**< of numbers */
    const char *want;   /**< what a value has to be; NULL: a number from least to most */
};

option_read_fn option_on, option_off;       /**< bool, of options without a value */
option_read_fn option_text;                 /**< const char * */
option_read_fn option_unsigned, option_u64; /**< whole numbers of these types */
option_read_fn option_number;               /**< double */
option_read_fn option_bytes;                /**< size_t; the value may end in K or M */

/** A whole number and what follows it, one of the characters in `end`. NULL: it is none. */
const char *option_whole(const struct option_row *row, const char *value, const char *end,
                         uint64_t *number);

/**
 * Read a command line that has options only; --help shows `head` and the options, and has `tail`
 * print the rest. Ends the program after that, and, with 2, after a message when something is wrong.
 */
void options_read(int argc, char **argv, const char *head, const struct option_row *rows,
                  size_t count, void (*tail)(void));

/** Say that an option's value is not what it has to be, and end the program with 2. */
_Noreturn void options_reject(const struct option_row *row, const char *value);

#endif
