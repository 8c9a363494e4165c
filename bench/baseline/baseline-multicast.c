/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baseline-multicast: a message that reaches several hosts, sent once to a group or once to each.
 * What a collective can gain by multicast.
 *
 * The receivers sleep between two messages, since virtual hosts share few processors, and note on
 * the monotonic clock when they have each. The clock is the same for hosts of one machine only.
 */
#include "baseline.h"

#include <dirent.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define PAUSE_NS 1000000 /* after each message: the receivers have it and sleep */
#define HELLO_INTERVAL_MS 10
#define MESSAGES_MAX 50000
#define GROUP_ADDRESS 0xE00000FEu /* 224.0.0.254, RFC 4727: for experiments */

/* Where a message is sent. */
struct target {
    uint8_t mac[BASELINE_MAC_BYTES];
    uint32_t address; /* IPv4, of a batch */
};

/* One for each way: any group address for frames, and the one that belongs to GROUP_ADDRESS. */
static const struct target groups[] = {
    [BASELINE_FRAMES] = {{0x03, 0x72, 0x61, 0x77, 0x65, 0x00}, 0},
    [BASELINE_BATCHES] = {{0x01, 0x00, 0x5E, 0x00, 0x00, 0xFE}, GROUP_ADDRESS},
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static void aim(struct baseline_link *link, const struct target *target)
{
    memcpy(link->peer, target->mac, BASELINE_MAC_BYTES);
    link->peer_address = target->address;
}

/* Processor time of this process in seconds. */
static double processor_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* --- a receiver --- */

/* The test that runs; `number` 0: none yet. */
struct reception {
    uint32_t number;
    enum baseline_way way;
    uint32_t length; /* bytes of a message */
    struct baseline_inbox inbox;
    uint8_t *buffer;
    double processor; /* seconds; until the end: when it began */
    bool ended;
};

/* By message: the time at which it was complete, in ns; 0: it is not. */
static uint64_t receipts[MESSAGES_MAX];

static void join(const struct baseline_link *link)
{
    for (unsigned i = 0; i < GROUPS; i++) {
        struct packet_mreq request = {.mr_ifindex = link->ifindex,
                                      .mr_type = PACKET_MR_MULTICAST,
                                      .mr_alen = BASELINE_MAC_BYTES};
        memcpy(request.mr_address, groups[i].mac, BASELINE_MAC_BYTES);
        if (setsockopt(link->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof(request)) !=
            0) {
            fprintf(stderr, "baseline: %s: joining a group failed: %s\n", link->name,
                    strerror(errno));
            exit(1);
        }
    }
}

static void begin(struct baseline_link *link, struct reception *test,
                  const struct baseline_frame *start)
{
    free(test->buffer);
    *test = (struct reception){.number = start->number,
                               .way = (enum baseline_way)start->offset,
                               .length = start->length,
                               .buffer = baseline_buffer_new(start->length)};
    memset(receipts, 0, sizeof(receipts));
    baseline_batch_drain(link);
    test->processor = processor_time();
}

static void end(struct baseline_link *link, struct reception *test)
{
    struct baseline_frame answer = {.type = BASELINE_ENDED, .number = test->number};
    if (!test->ended) {
        test->ended = true;
        test->processor = processor_time() - test->processor;
    }
    answer.value = (uint64_t)(test->processor * 1e9);
    answer.offset = baseline_pattern_wrong(test->buffer, test->length);
    baseline_frame_send(link, &answer, NULL, link->peer);
}

/* Handles what was received; false at the end of all tests. */
static bool handle(struct baseline_link *link, struct reception *test, int type,
                   const struct baseline_frame *frame, bool done)
{
    uint32_t message = type == BASELINE_PROBE ? frame->number : test->inbox.number;
    bool is_valid = message >= 1 && message <= MESSAGES_MAX;
    if (done && is_valid) {
        receipts[message - 1] = (uint64_t)(baseline_now() * 1e9);
    } else if (type == BASELINE_START) {
        if (frame->number != test->number) {
            begin(link, test, frame);
        }
        baseline_peer_answer(link, BASELINE_STARTED, frame->number, 0);
    } else if (type == BASELINE_END && frame->number == test->number) {
        end(link, test);
    } else if (type == BASELINE_PROBE && is_valid) {
        baseline_peer_answer(link, BASELINE_CREDIT, message, receipts[message - 1]);
    }
    return type != BASELINE_BYE;
}

/* Sleeps until something waits in a socket; false: nothing came in this time. */
static bool wait_for(const struct baseline_link *link, int milliseconds)
{
    struct pollfd sockets[] = {
        {.fd = link->ways[BASELINE_FRAMES].fd, .events = POLLIN},
        {.fd = link->ways[BASELINE_BATCHES].fd, .events = POLLIN},
    };
    return poll(sockets, GROUPS, milliseconds) != 0;
}

/* Broadcasts until the sender asks for the first test; it asks again. */
static void find_sender(struct baseline_link *link, const struct baseline_options *options)
{
    const struct baseline_frame hello = {.type = BASELINE_HELLO};
    struct baseline_frame frame;
    double start = baseline_now();
    for (;;) {
        baseline_frame_send(link, &hello, NULL, NULL);
        wait_for(link, HELLO_INTERVAL_MS);
        while (baseline_frame_receive(link, &frame, NULL, 0)) {
            if (frame.type == BASELINE_START) {
                memcpy(link->peer, frame.from, BASELINE_MAC_BYTES);
                return;
            }
        }
        if (baseline_now() - start > options->wait_seconds) {
            baseline_peer_gone(link, options);
        }
    }
}

static void receive(struct baseline_link *link, const struct baseline_options *options)
{
    struct reception test = {.buffer = baseline_buffer_new(1)};
    struct baseline_frame frame;
    bool goes_on = true;
    join(link);
    find_sender(link, options);
    while (goes_on) {
        int type;
        bool done;
        if (!wait_for(link, (int)(options->wait_seconds * 1e3))) {
            baseline_peer_gone(link, options);
        }
        while (goes_on && (type = baseline_message_poll(link, test.way, &test.inbox, test.buffer,
                                                        test.length, &frame, &done)) != 0) {
            goes_on = handle(link, &test, type, &frame, done);
        }
    }
    free(test.buffer);
}

/* --- the sender --- */

static struct target receivers[BASELINE_RECEIVERS_MAX];
static double sent[MESSAGES_MAX];    /* by message: when its sending began, in seconds */
static double latest[MESSAGES_MAX];  /* when the last receiver had it; negative: one has not */
static double samples[MESSAGES_MAX]; /* seconds from one to the other */

static bool is_known(unsigned count, const uint8_t *mac)
{
    for (unsigned i = 0; i < count; i++) {
        if (memcmp(receivers[i].mac, mac, BASELINE_MAC_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

/* Waits for the receivers' broadcasts. */
static void find_receivers(struct baseline_link *link, const struct baseline_options *options)
{
    struct baseline_frame frame;
    unsigned count = 0;
    double start = baseline_now();
    while (count < options->receivers) {
        wait_for(link, HELLO_INTERVAL_MS);
        while (count < options->receivers && baseline_frame_receive(link, &frame, NULL, 0)) {
            if (frame.type == BASELINE_HELLO && !is_known(count, frame.from)) {
                memcpy(receivers[count].mac, frame.from, BASELINE_MAC_BYTES);
                receivers[count++].address = BASELINE_ADDRESS;
            }
        }
        if (baseline_now() - start > options->wait_seconds) {
            fprintf(stderr,
                    "baseline: %s: %u of %u receivers were heard in %.0f s; start the program "
                    "without --receivers on each of them\n",
                    link->name, count, options->receivers, options->wait_seconds);
            exit(1);
        }
    }
}

/* Frames that the interface has sent, as the kernel counts. */
static uint64_t frames_sent(const struct baseline_link *link)
{
    char path[64];
    unsigned long long number = 0;
    snprintf(path, sizeof(path), "/sys/class/net/%s/statistics/tx_packets", link->name);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%llu", &number) != 1) {
        fprintf(stderr, "baseline: %s: cannot read %s\n", link->name, path);
        exit(1);
    }
    fclose(file);
    return number;
}

/* Processor time of the kernel's threads that deliver what the sender has no time for, in seconds. */
static double softirq_time(void)
{
    DIR *processes = opendir("/proc");
    const struct dirent *entry;
    double seconds = 0;
    while (processes != NULL && (entry = readdir(processes)) != NULL) {
        char path[300], name[32] = "";
        unsigned long long nanoseconds = 0;
        snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL && fgets(name, sizeof(name), file) != NULL &&
            strncmp(name, "ksoftirqd/", 10) == 0) {
            snprintf(path, sizeof(path), "/proc/%s/schedstat", entry->d_name);
            if ((file = freopen(path, "r", file)) != NULL &&
                fscanf(file, "%llu", &nanoseconds) == 1) {
                seconds += (double)nanoseconds * 1e-9;
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    if (processes != NULL) {
        closedir(processes);
    }
    return seconds;
}

/* Sends a message to each target; exits when that fails. */
static void send_message(struct baseline_link *link, enum baseline_way way, uint32_t number,
                         const uint8_t *message, uint32_t length, const struct target *targets,
                         unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct baseline_frame cursor = {.type = BASELINE_DATA, .number = number};
        aim(link, &targets[i]);
        int error = baseline_piece_send(link, way, &cursor, message, length);
        if (error != 0) {
            fprintf(stderr, "baseline: %s: cannot send: %s\n", link->name, strerror(-error));
            exit(1);
        }
    }
}

/* Sends messages as long as options say; returns how many. *processor: seconds in sending. */
static uint32_t send_messages(struct baseline_link *link, const struct baseline_options *options,
                              enum baseline_way way, uint32_t length, bool to_group,
                              double *processor)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    uint8_t *message = baseline_pattern_new(length);
    double start = baseline_now();
    uint32_t count = 0;
    *processor = 0;
    do {
        double before = processor_time();
        sent[count] = baseline_now();
        send_message(link, way, count + 1, message, length, to_group ? &groups[way] : receivers,
                     to_group ? 1 : options->receivers);
        *processor += processor_time() - before;
        count++;
        nanosleep(&pause, NULL);
    } while (count < MESSAGES_MAX && baseline_now() - start < options->seconds);
    free(message);
    return count;
}

/* Asks the receiver that the link aims at when it had each message. */
static void fetch_receipts(struct baseline_link *link, const struct baseline_options *options,
                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct baseline_frame request = {.type = BASELINE_PROBE, .number = i + 1};
        struct baseline_frame reply;
        baseline_peer_request(link, options, &request, BASELINE_CREDIT, &reply);
        double receipt = (double)reply.value * 1e-9;
        if (reply.value == 0) {
            latest[i] = -1;
        } else if (latest[i] >= 0 && receipt > latest[i]) {
            latest[i] = receipt;
        }
    }
}

/* Announces a test to all receivers. */
static void start_test(struct baseline_link *link, const struct baseline_options *options,
                       enum baseline_way way, uint32_t test, uint32_t length)
{
    const struct baseline_frame request = {
        .type = BASELINE_START, .number = test, .offset = way, .length = length};
    struct baseline_frame reply;
    for (unsigned i = 0; i < options->receivers; i++) {
        aim(link, &receivers[i]);
        baseline_peer_request(link, options, &request, BASELINE_STARTED, &reply);
    }
}

static void measure(struct baseline_link *link, const struct baseline_options *options,
                    enum baseline_way way, uint32_t test, uint32_t length, bool to_group)
{
    const struct baseline_frame request = {.type = BASELINE_END, .number = test};
    struct baseline_frame reply;
    double sender;
    start_test(link, options, way, test, length);
    double softirq_before = softirq_time();
    uint64_t frames_before = frames_sent(link);
    uint32_t count = send_messages(link, options, way, length, to_group, &sender);
    uint64_t frames = frames_sent(link) - frames_before;
    double softirq = softirq_time() - softirq_before;
    double receiver = 0;
    uint32_t wrong = 0;
    memset(latest, 0, sizeof(latest));
    for (unsigned i = 0; i < options->receivers; i++) {
        aim(link, &receivers[i]);
        baseline_peer_request(link, options, &request, BASELINE_ENDED, &reply);
        receiver += (double)reply.value * 1e-9;
        wrong += reply.offset;
        fetch_receipts(link, options, count);
    }
    int complete = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (latest[i] >= 0) {
            samples[complete++] = latest[i] - sent[i];
        }
    }
    printf("baseline multicast receivers=%u way=%s bytes=%u to=%s messages=%u", options->receivers,
           baseline_way_name(way), length, to_group ? "group" : "each", count);
    if (complete > 0) {
        baseline_sort(samples, complete);
        printf(" min_us=%.3f median_us=%.3f", samples[0] * 1e6, samples[complete / 2] * 1e6);
    }
    printf(" sender_us=%.3f softirq_us=%.3f receivers_us=%.3f frames=%.3f lost=%u wrong=%u\n",
           sender / count * 1e6, softirq / count * 1e6, receiver / count * 1e6,
           (double)frames / count, count - (uint32_t)complete, wrong);
    fflush(stdout);
}

/* The way of a message: a frame where one holds it, or else one batch; BASELINE_WAYS: neither. */
static enum baseline_way way_for(const struct baseline_link *link, uint32_t length)
{
    const struct baseline_way_state *batch = &link->ways[BASELINE_BATCHES];
    if (length <= link->ways[BASELINE_FRAMES].payload) {
        return BASELINE_FRAMES;
    }
    return batch->fd >= 0 && length <= batch->payload * batch->pieces_max ? BASELINE_BATCHES
                                                                          : BASELINE_WAYS;
}

static void send_all(struct baseline_link *link, const struct baseline_options *options)
{
    uint32_t test = 0;
    find_receivers(link, options);
    printf("baseline link interface=%s mtu=%d\n", link->name, link->mtu);
    /* A test without messages: those who wait for their first one broadcast until then. */
    start_test(link, options, BASELINE_FRAMES, ++test, 1);
    for (int i = 0; i < options->size_count; i++) {
        enum baseline_way way = way_for(link, options->sizes[i]);
        for (int to_group = 0; to_group <= 1 && way != BASELINE_WAYS; to_group++) {
            measure(link, options, way, ++test, options->sizes[i], to_group != 0);
        }
    }
    for (unsigned i = 0; i < options->receivers; i++) {
        aim(link, &receivers[i]);
        baseline_peer_answer(link, BASELINE_BYE, 0, 0);
    }
}

int main(int argc, char **argv)
{
    struct baseline_options options;
    struct baseline_link link;

    baseline_options_read(&options, argc, argv,
                          "A message to several hosts of one machine, sent once to a group or to "
                          "each.\n",
                          true);
    baseline_link_open(&link, &options);
    baseline_batch_open(&link, BASELINE_BATCHES);
    if (options.receivers > 0) {
        send_all(&link, &options);
    } else {
        receive(&link, &options);
    }
    baseline_link_close(&link);
    return 0;
}
