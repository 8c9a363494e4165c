/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared parts of rawe-imb: options, the table of benchmarks, and the state of a run. */
#ifndef RAWE_IMB_H
#define RAWE_IMB_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#define IMB_WINDOW 64  /* non-blocking messages in flight in Uniband and Biband */
#define IMB_BUFFERS 64 /* receive buffers of UnibandCold and BibandCold */
#define IMB_BUFFERS_MAX 4096
#define IMB_WARMUP 5              /* iterations to estimate the time of one */
#define IMB_CHECK_ROUNDS 3        /* extra iterations with fresh contents under -check */
#define IMB_SETTLE_NS 1000000000L /* with -sleep_until: time for all other ranks to fall asleep */
#define IMB_SLEEP_NS 200000000L   /* interval of the checks for that option's file */
#define IMB_ELEMENT sizeof(float) /* reductions work on MPI_FLOAT with MPI_SUM, as IMB's do */

/* The columns of a benchmark. */
enum imb_layout {
    IMB_LAYOUT_SINGLE,     /* #bytes #repetitions t[usec] Mbytes/sec */
    IMB_LAYOUT_PARALLEL,   /* #bytes #repetitions t_min t_max t_avg Mbytes/sec */
    IMB_LAYOUT_COLLECTIVE, /* #bytes #repetitions t_min t_max t_avg */
    IMB_LAYOUT_BARRIER,    /* #repetitions t_min t_max t_avg */
    IMB_LAYOUT_RATE,       /* #bytes #repetitions Mbytes/sec Msg/sec */
    IMB_LAYOUT_CALL        /* #bytes #repetitions t[usec] t_median[usec] */
};

/* One benchmark at one message size on one group of ranks. */
struct imb_run {
    MPI_Comm comm;
    int rank;
    int size;
    size_t bytes;  /* message size as printed in #bytes */
    size_t stride; /* distance of a window's messages in the send buffer; 0: all use one place */
    int buffers;   /* number of buffers that receive a window's messages in turn */
    int root;      /* root of this iteration */
    int round;     /* changes the contents under -check */
    int iteration; /* number of the timed iteration */
    size_t turn;   /* iterations so far, timed or not; selects the place in CacheCold */
    size_t places; /* in each buffer; CacheCold uses one per iteration */
    size_t place;  /* offset of the place last used */
    unsigned char *send;
    unsigned char *receive;
    size_t send_capacity;    /* bytes allocated */
    size_t receive_capacity; /* bytes allocated */
    int *counts;             /* one for each rank; for the v-collectives */
    int *displacements;      /* one for each rank */
    double *call_seconds;    /* duration of each timed MPI_Isend; IMB_LAYOUT_CALL only */
    MPI_Request requests[2 * IMB_WINDOW];
};

/* Special properties of a benchmark. */
enum imb_trait {
    IMB_PAIR = 1 << 0,      /* uses two of the ranks */
    IMB_EVEN = 1 << 1,      /* needs an even number of ranks */
    IMB_SYNC = 1 << 2,      /* timed call by call, ranks synchronized between calls */
    IMB_REDUCTION = 1 << 3, /* message sizes are multiples of IMB_ELEMENT */
    IMB_COLD = 1 << 4,      /* receives into -receive_buffers places, not into one */
    IMB_CALLER = 1 << 5     /* the result is the time of calls on rank 0 */
};

struct imb_benchmark {
    const char *name;
    enum imb_layout layout;
    unsigned traits; /* of enum imb_trait */
    int legs;        /* one iteration's time is divided by this: 2 for a round trip */
    int traffic;     /* messages that one iteration counts in Mbytes/sec */
    /* Set the lengths of the send and receive buffers that run->bytes and run->size need. */
    void (*space)(struct imb_run *run, size_t *send, size_t *receive);
    void (*iterate)(struct imb_run *run);
    void (*fill)(struct imb_run *run);
    /* Return the number of wrong bytes in this rank's receive buffer. */
    size_t (*verify)(const struct imb_run *run);
    /* Called once after the iterations; their time includes it unless IMB_CALLER. May be NULL. */
    void (*finish)(struct imb_run *run);
};

struct imb_options {
    int iterations;          /* most repetitions of a size */
    double volume_bytes;     /* most bytes sent by one rank for one size */
    double seconds;          /* most time for one size */
    double memory_bytes;     /* most buffer memory of one rank */
    int receive_buffers;     /* of UnibandCold and BibandCold */
    const char *sleep_until; /* a file; ranks that a benchmark leaves out sleep until it exists */
    int npmin;
    int msglog_min;
    int msglog_max;
    int bytes; /* the only size; -1: powers of two from -msglog */
    bool check;
    const struct imb_benchmark **selected; /* in the order asked for */
    int selected_count;
};

/* The result of one size over all ranks. Times are seconds for each iteration. */
struct imb_result {
    int repetitions;
    double min_s;
    double max_s;
    double average_s;
    double median_s; /* IMB_LAYOUT_CALL: the median of the calls */
    double defects;  /* wrong bytes over all ranks */
};

extern const struct imb_benchmark imb_point_to_point[];
extern const int imb_point_to_point_count;
extern const struct imb_benchmark imb_collectives[];
extern const int imb_collectives_count;

/* Space for one message in each direction, and its contents. */
void imb_space_one(struct imb_run *run, size_t *send, size_t *receive);
void imb_fill_one(struct imb_run *run);
/* Fill a buffer with contents that depend on sender, receiver and round; `to` is -1 if all
 * receivers get the same contents. */
void imb_pattern_fill(unsigned char *buffer, size_t bytes, int from, int to, int round);
/* Return the number of bytes that differ from that pattern. */
size_t imb_pattern_compare(const unsigned char *buffer, size_t bytes, int from, int to, int round);
/* Fill a reduction's vector with small integers, whose sums are exact in any order. */
void imb_numbers_fill(float *buffer, size_t count, int rank, int round);
/* Return the number of wrong bytes in the sum over `size` ranks, starting at element `first` of the
 * reduced vector. */
size_t imb_numbers_compare(const float *buffer, size_t first, size_t count, int size, int round);

#endif
