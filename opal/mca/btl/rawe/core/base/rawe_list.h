/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists of structs that contain a link. Every operation takes constant time and allocates nothing.
 */
#ifndef RAWE_LIST_H
#define RAWE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/** An element's place in the ring, or a list's head. All zero: in no list, or an empty list. */
struct rawe_link {
    struct rawe_link *next, *before;
};

/** Return the struct that contains this field. */
#define RAWE_OWNER(pointer, type, field) ((type *)(void *)((char *)(pointer)-offsetof(type, field)))

/** Initialize an empty list, so that it can be appended to. */
static inline void rawe_list_init(struct rawe_link *list)
{
    list->next = list->before = list;
}

/** Return the oldest element, or NULL if the list is empty. */
static inline struct rawe_link *rawe_list_first(const struct rawe_link *list)
{
    return list->next != list ? list->next : NULL;
}

static inline bool rawe_list_empty(const struct rawe_link *list)
{
    return rawe_list_first(list) == NULL;
}

/** Return true if the element is in a list. */
static inline bool rawe_list_has(const struct rawe_link *link)
{
    return link->next != NULL;
}

/** Append an element that is in no list. */
static inline void rawe_list_append(struct rawe_link *list, struct rawe_link *link)
{
    link->next = list;
    link->before = list->before;
    link->before->next = list->before = link;
}

/** Prepend an element that is in no list. */
static inline void rawe_list_prepend(struct rawe_link *list, struct rawe_link *link)
{
    rawe_list_append(list->next, link);
}

/** Remove an element from its list, if it is in one. */
static inline void rawe_list_remove(struct rawe_link *link)
{
    if (link->next != NULL) {
        link->next->before = link->before;
        link->before->next = link->next;
        link->next = link->before = NULL;
    }
}

/** Remove and return the oldest element. Returns NULL if the list is empty. */
static inline struct rawe_link *rawe_list_take(struct rawe_link *list)
{
    struct rawe_link *first = rawe_list_first(list);
    if (first != NULL) {
        rawe_list_remove(first);
    }
    return first;
}

/** Move all elements of `from` to the end of the list. */
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
