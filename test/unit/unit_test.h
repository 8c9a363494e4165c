/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests register themselves, and unit_main.c runs all tests of the program:
 *
 *     FIXTURE(set_up, tear_down);
 *
 *     TEST(rawe_thing_verb__case)
 *     {
 *         assert_int_equal(...);
 *     }
 *
 * FIXTURE applies to the whole file and is optional. TEST_WITH uses a fixture other than the
 * file's.
 */
#ifndef UNIT_TEST_H
#define UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/** Functions that run before and after each test; either may be NULL. */
struct unit_fixture {
    void (*set_up)(void);
    void (*tear_down)(void);
};

struct unit_test {
    const char *name;
    void (*run)(void);
    const struct unit_fixture *fixture;
    struct unit_test *next; /**< set by unit_register */
};

/** Set the name of a table's current case, which is printed on failure. */
void unit_case(const char *name);

/** Register a test. Called before main, in file order. */
void unit_register(struct unit_test *test);

/* The file's fixture: empty unless FIXTURE defines it. */
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
