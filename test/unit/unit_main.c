/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Run a program's tests with cmocka: all of them, or those that match the pattern in its argument.
 */
#include "unit_test.h"

#include <stdio.h>
#include <stdlib.h>

static struct unit_test *first, **last = &first;
static size_t count;
static const char *in_case; /**< the running test's case; NULL: none */

void unit_case(const char *name)
{
    in_case = name;
}

void unit_register(struct unit_test *test)
{
    *last = test;
    last = &test->next;
    count++;
}

static int set_up(void **state)
{
    const struct unit_test *test = *state;
    if (test->fixture->set_up != NULL) {
        test->fixture->set_up();
    }
    return 0;
}

static int tear_down(void **state)
{
    const struct unit_test *test = *state;
    if (in_case != NULL) {
        print_error("in case \"%s\"\n", in_case);
        in_case = NULL;
    }
    if (test->fixture->tear_down != NULL) {
        test->fixture->tear_down();
    }
    return 0;
}

static void run(void **state)
{
    const struct unit_test *test = *state;
    test->run();
    in_case = NULL; /* the case has not failed */
}

int main(int argc, char **argv)
{
    struct CMUnitTest *tests = calloc(count, sizeof(*tests));
    size_t filled = 0;
    if (tests == NULL || count == 0) {
        fprintf(stderr, "%s: no tests, or no memory for them\n", argv[0]);
        return 1;
    }
    for (struct unit_test *test = first; test != NULL; test = test->next) {
        tests[filled++] = (struct CMUnitTest){test->name, run, set_up, tear_down, test};
    }
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    int failed = _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
    free(tests);
    return failed;
}
