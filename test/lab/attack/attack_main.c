/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-attack: a host that wishes ill to a running job. It sends hostile frames from a raw socket
 * as fast as the kernel takes them, for some seconds, and says how many.
 */
#define _GNU_SOURCE
#include "attack.h"

#include <errno.h>
#include <getopt.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ROUND 64u

static const char *const kind_names[] = {
#define ATTACK_KIND_STRING(name, text) #name,
    ATTACK_KINDS(ATTACK_KIND_STRING)
#undef ATTACK_KIND_STRING
};

static const char *const way_names[] = {
#define ATTACK_WAY_STRING(name, text) #name,
    ATTACK_WAYS(ATTACK_WAY_STRING)
#undef ATTACK_WAY_STRING
};

static void usage(FILE *out)
{
    fprintf(out, "usage: rawe-attack --interface NAME --capture FILE [options]\n"
                 "\n"
                 "Sends hostile frames to the hosts whose rawe frames are in the capture.\n"
                 "\n"
                 "  --interface NAME  where to send\n"
                 "  --capture FILE    pcap file with frames of the job under attack\n"
                 "  --kind KIND       default: all in turn\n"
                 "  --way WAY         what is wrong with forged headers; default: all at random\n"
                 "  --seconds S       how long (default 5)\n"
                 "  --frames N        and no less than N frames (default 0)\n"
                 "  --seed N          of the random choices (default 1)\n"
                 "\n"
                 "KIND:\n");
#define ATTACK_KIND_USAGE(name, text) fprintf(out, "  %-17s %s\n", #name, text);
    ATTACK_KINDS(ATTACK_KIND_USAGE)
#undef ATTACK_KIND_USAGE
    fprintf(out, "\nWAY:\n");
#define ATTACK_WAY_USAGE(name, text) fprintf(out, "  %-17s %s\n", #name, text);
    ATTACK_WAYS(ATTACK_WAY_USAGE)
#undef ATTACK_WAY_USAGE
}

static _Noreturn void reject(const char *what, const char *value)
{
    fprintf(stderr, "rawe-attack: %s%s; see --help\n", what, value);
    exit(2);
}

static int open_socket(const char *interface)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET};
    int bytes = 4 << 20;
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: sends only */

    address.sll_ifindex = (int)if_nametoindex(interface);
    if (fd < 0 || address.sll_ifindex == 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        fprintf(stderr, "rawe-attack: interface %s: %s; is it there, and is this root?\n",
                interface, strerror(errno));
        exit(1);
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
    return fd;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Sends one round of a kind; returns how many frames the kernel has taken. */
static unsigned send_round(int fd, enum attack_kind kind, enum attack_way way,
                           const struct attack_capture *capture, uint64_t *random)
{
    static uint8_t frames[ROUND][ATTACK_FRAME_BYTES_MAX];
    struct iovec parts[ROUND];
    struct mmsghdr messages[ROUND];
    unsigned done = 0;

    memset(messages, 0, sizeof messages);
    for (unsigned i = 0; i < ROUND; i++) {
        parts[i] = (struct iovec){frames[i], attack_make(kind, way, capture, random, frames[i])};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    while (done < ROUND) {
        int sent = sendmmsg(fd, messages + done, ROUND - done, 0);

        if (sent < 0 && errno != EINTR && errno != ENOBUFS) {
            fprintf(stderr, "rawe-attack: sending %s frames: %s\n", kind_names[kind],
                    strerror(errno));
            exit(1);
        }
        /* A full queue: go on with the next frame. */
        done += sent > 0 ? (unsigned)sent : sent < 0 && errno == ENOBUFS ? 1 : 0;
    }
    return done;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"interface", required_argument, NULL, 'i'},
        {"capture", required_argument, NULL, 'c'},
        {"kind", required_argument, NULL, 'k'},
        {"way", required_argument, NULL, 'w'},
        {"seconds", required_argument, NULL, 's'},
        {"frames", required_argument, NULL, 'f'},
        {"seed", required_argument, NULL, 'e'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const char *interface = NULL, *file = NULL;
    enum attack_way way = ATTACK_WAY_COUNT;
    int only = -1, option;
    double seconds = 5, end;
    uint64_t random = 1, least = 0, total = 0, sent[ATTACK_KIND_COUNT] = {0};
    struct attack_capture capture;
    int fd;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'i':
            interface = optarg;
            break;
        case 'c':
            file = optarg;
            break;
        case 'k':
            for (int i = 0; i < ATTACK_KIND_COUNT; i++) {
                only = strcmp(optarg, kind_names[i]) == 0 ? i : only;
            }
            if (only < 0) {
                reject("there is no kind ", optarg);
            }
            break;
        case 'w':
            for (unsigned i = 0; i < ATTACK_WAY_COUNT; i++) {
                way = strcmp(optarg, way_names[i]) == 0 ? (enum attack_way)i : way;
            }
            if (way == ATTACK_WAY_COUNT) {
                reject("there is no way ", optarg);
            }
            break;
        case 's':
            seconds = atof(optarg);
            if (!(seconds > 0)) {
                reject("--seconds wants a number above 0, not ", optarg);
            }
            break;
        case 'f':
            least = strtoull(optarg, NULL, 10);
            break;
        case 'e':
            random = strtoull(optarg, NULL, 10);
            break;
        default:
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    if (interface == NULL || file == NULL || optind < argc) {
        reject("--interface and --capture are needed, and no other words", "");
    }
    capture = attack_capture_read(file);
    fd = open_socket(interface);
    printf("attacking with %zu captured frames\n", capture.count);
    fflush(stdout);
    end = now() + seconds;
    for (unsigned turn = 0; now() < end || total < least; turn++) {
        enum attack_kind kind =
            only >= 0 ? (enum attack_kind)only : (enum attack_kind)(turn % ATTACK_KIND_COUNT);

        unsigned done = send_round(fd, kind, way, &capture, &random);
        sent[kind] += done;
        total += done;
    }
    for (int i = 0; i < ATTACK_KIND_COUNT; i++) {
        printf("%s=%llu%s", kind_names[i], (unsigned long long)sent[i],
               i + 1 < ATTACK_KIND_COUNT ? " " : "\n");
    }
    free(capture.frames);
    close(fd);
    return 0;
}
