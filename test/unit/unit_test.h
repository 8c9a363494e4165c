/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A test registers itself, and unit_main.c runs all that the program holds:
 *
 *     FIXTURE(set_up, tear_down);
 *
 *     TEST(rawe_thing_verb__case)
 *     {
 *         assert_int_equal(...);
 *     }
 *
 * FIXTURE is for the whole file and may be left out. TEST_WITH takes another than the file's.
 */
#ifndef UNIT_TEST_H
#define UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/** What runs before and after each test; either may be NULL. */
struct unit_fixture {
    void (*set_up)(void);
    void (*tear_down)(void);
};

struct unit_test {
    const char *name;
    void (*run)(void);
    const struct unit_fixture *fixture;
    struct unit_test *next; /**< by unit_register */
};

/** The case of a table that is tried from now on: a failure says which it was. */
void unit_case(const char *name);

/** Before main, in the order of the file. */
void unit_register(struct unit_test *test);

/* The fixture of a file: of none, unless FIXTURE defines it. */
__attribute__((unused)) static const struct unit_fixture unit_fixture;
static const struct unit_fixture unit_no_fixture __attribute__((unused)) = {NULL, NULL};

#define FIXTURE(set_up_, tear_down_) \
    static const struct unit_fixture unit_fixture = {set_up_, tear_down_}

#define TEST(name_) TEST_WITH(unit_fixture, name_)

#define TEST_WITH(fixture_, name_)                                       \
    static void name_(void);                                             \
    __attribute__((constructor)) static void name_##_register(void)      \
    {                                                                    \
        static struct unit_test test = {#name_, name_, &fixture_, NULL}; \
        unit_register(&test);                                            \
    }                                                                    \
    static void name_(void)

#endif
