/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists of structs that have a link as a field: each operation takes constant time and no memory.
 */
#ifndef RAWE_LIST_H
#define RAWE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/** A place in a list, or the list itself, in a ring of all of them. All zero: in no list; empty. */
struct rawe_link {
    struct rawe_link *next, *before;
};

/** The struct that has this field. */
#define RAWE_OWNER(pointer, type, field) ((type *)(void *)((char *)(pointer)-offsetof(type, field)))

/** An empty list, to be appended to. */
static inline void rawe_list_init(struct rawe_link *list)
{
    list->next = list->before = list;
}

/** The oldest; NULL: the list is empty. */
static inline struct rawe_link *rawe_list_first(const struct rawe_link *list)
{
    return list->next != list ? list->next : NULL;
}

static inline bool rawe_list_empty(const struct rawe_link *list)
{
    return rawe_list_first(list) == NULL;
}

/** Is it in a list? */
static inline bool rawe_list_has(const struct rawe_link *link)
{
    return link->next != NULL;
}

/** Append what is in no list. */
static inline void rawe_list_append(struct rawe_link *list, struct rawe_link *link)
{
    link->next = list;
    link->before = list->before;
    link->before->next = list->before = link;
}

/** Put what is in no list in front of all others. */
static inline void rawe_list_prepend(struct rawe_link *list, struct rawe_link *link)
{
    rawe_list_append(list->next, link);
}

/** Remove it from its list, if it is in one. */
static inline void rawe_list_remove(struct rawe_link *link)
{
    if (link->next != NULL) {
        link->next->before = link->before;
        link->before->next = link->next;
        link->next = link->before = NULL;
    }
}

/** Remove the oldest; NULL: the list is empty. */
static inline struct rawe_link *rawe_list_take(struct rawe_link *list)
{
    struct rawe_link *first = rawe_list_first(list);
    if (first != NULL) {
        rawe_list_remove(first);
    }
    return first;
}

/** Append all of `from`, which is empty then. */
static inline void rawe_list_append_all(struct rawe_link *list, struct rawe_link *from)
{
    if (!rawe_list_empty(from)) {
        from->next->before = list->before;
        from->before->next = list;
        list->before->next = from->next;
        list->before = from->before;
        rawe_list_init(from);
    }
}

#endif
