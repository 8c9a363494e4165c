/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-dump: shows frames of rawe, from an interface or from a capture file, one per line.
 */
#include <getopt.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dump_frame.h"
#include "base/rawe_wire.h"

#define SNAPLEN_BYTES 262144 /* the longest batch, and more */
#define LINE_BYTES 4096
#define ETHERTYPE_IPV4 0x0800u
#define IPV4_BYTES 20u

struct options {
    const char *interface;
    const char *file;
    unsigned ethertype;
    unsigned long count;
    bool absolute;
};

/** What has been seen. */
struct state {
    const struct options *options;
    struct timeval first;
    bool started;
    unsigned long frames;
    unsigned long batch_frames;
    unsigned long batch_packets;
    unsigned long malformed;
};

static pcap_t *capture;

static void usage(FILE *out)
{
    fputs("Usage: rawe-dump [-i INTERFACE | -r FILE] [-c COUNT] [-e ETHERTYPE] [-a]\n"
          "Shows frames of rawe, one per line. Keys and tokens are shortened.\n"
          "\n"
          "  -i, --interface NAME  capture there until Ctrl-C (needs CAP_NET_RAW)\n"
          "  -r, --read FILE       read a capture file (tcpdump -w, lab capture); - is stdin\n"
          "  -c, --count N         end after N packets\n"
          "  -e, --ethertype HEX   as btl_rawe_ethertype (default 0x88b5)\n"
          "  -a, --absolute        times since 1970 instead of since the first frame\n"
          "  -h, --help            this text\n"
          "\n"
          "A packet of a batch may carry several frames: frames=3-5 are the third to the fifth of\n"
          "the batch, `last` marks its end, segment is the data of each frame.\n",
          out);
}

static void die(const char *what, const char *why, const char *remedy)
{
    fprintf(stderr, "rawe-dump: %s: %s\n%s", what, why, remedy);
    exit(2);
}

static void print_prefix(struct state *state, const struct pcap_pkthdr *packet,
                         const uint8_t *addresses)
{
    struct timeval shown = packet->ts;

    if (!state->started) {
        state->started = true;
        state->first = packet->ts;
    }
    if (!state->options->absolute) {
        timersub(&packet->ts, &state->first, &shown);
    }
    printf("%ld.%06ld ", (long)shown.tv_sec, (long)shown.tv_usec);
    for (unsigned i = 0; i < 2; i++) {
        const uint8_t *mac = addresses + (i == 0 ? RAWE_MAC_BYTES : 0);
        printf("%02x:%02x:%02x:%02x:%02x:%02x %s", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5],
               i == 0 ? "> " : "");
    }
}

static void print_frame(struct state *state, const uint8_t *in, size_t captured_bytes,
                        size_t len_bytes)
{
    char line[LINE_BYTES];
    unsigned frames = dump_frame(line, sizeof line, in, captured_bytes, len_bytes);

    puts(line);
    state->frames++;
    state->malformed += frames == 0;
}

/** What is behind an IPv4 header. */
static void print_batch(struct state *state, const struct pcap_pkthdr *packet, const uint8_t *bytes)
{
    const size_t at = RAWE_ETH_HEADER_BYTES + IPV4_BYTES;
    char line[LINE_BYTES];

    if (packet->caplen < at) {
        return;
    }
    /* What lies behind the end of the IPv4 packet is padding of the Ethernet frame. */
    const uint8_t *total = bytes + RAWE_ETH_HEADER_BYTES + 2;
    size_t end = RAWE_ETH_HEADER_BYTES + ((size_t)total[0] << 8 | total[1]);
    end = end < at ? at : end;
    size_t captured_end = packet->caplen < end ? packet->caplen : end;
    unsigned frames = dump_batch(line, sizeof line, bytes + at, captured_end - at, end - at);
    print_prefix(state, packet, bytes);
    puts(line);
    state->batch_packets++;
    state->batch_frames += frames;
    state->frames += frames == 0 ? 1 : frames;
    state->malformed += frames == 0;
}

static void take_packet(u_char *context, const struct pcap_pkthdr *packet, const u_char *bytes)
{
    struct state *state = (struct state *)(void *)context;

    if (packet->caplen < RAWE_ETH_HEADER_BYTES) {
        return;
    }
    unsigned ethertype = (unsigned)bytes[12] << 8 | bytes[13];
    if (ethertype == state->options->ethertype) {
        print_prefix(state, packet, bytes);
        print_frame(state, bytes + RAWE_ETH_HEADER_BYTES, packet->caplen - RAWE_ETH_HEADER_BYTES,
                    packet->len - RAWE_ETH_HEADER_BYTES);
    } else if (ethertype == ETHERTYPE_IPV4) {
        print_batch(state, packet, bytes); /* the filter passes no other */
    }
}

static pcap_t *open_capture(const struct options *options)
{
    char error[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle;

    if (options->file != NULL) {
        handle = pcap_open_offline(options->file, error);
        if (handle == NULL) {
            die(options->file, error, "It has to be a capture file, as `tcpdump -w` writes it.\n");
        }
        return handle;
    }
    handle = pcap_create(options->interface, error);
    if (handle == NULL) {
        die(options->interface, error, "`ip link` lists the interfaces.\n");
    }
    bool set = pcap_set_snaplen(handle, SNAPLEN_BYTES) == 0 && pcap_set_timeout(handle, 100) == 0 &&
               pcap_set_buffer_size(handle, 32 << 20) == 0 &&
               pcap_set_immediate_mode(handle, 1) == 0;
    int status = set ? pcap_activate(handle) : PCAP_ERROR_ACTIVATED;
    if (status < 0) {
        die(options->interface, pcap_statustostr(status),
            "Capturing needs the capability CAP_NET_RAW (run it as root), and an interface that\n"
            "is up: `ip link` lists them.\n");
    }
    return handle;
}

/** Only what is rawe's: frames of the EtherType, and batches. */
static void set_filter(pcap_t *handle, const struct options *options)
{
    char text[128];
    struct bpf_program program;

    snprintf(text, sizeof text,
             "ether proto 0x%04x or (ip src host 255.255.255.255 and tcp and "
             "(ip dst host 0.0.0.2 or ip dst host 224.0.0.254))",
             options->ethertype);
    if (pcap_datalink(handle) != DLT_EN10MB) {
        die(options->file != NULL ? options->file : options->interface, "no Ethernet frames",
            "Capture on one Ethernet interface, not on \"any\".\n");
    }
    if (pcap_compile(handle, &program, text, 1, PCAP_NETMASK_UNKNOWN) != 0 ||
        pcap_setfilter(handle, &program) != 0) {
        die("filter", pcap_geterr(handle), "");
    }
    pcap_freecode(&program);
}

static void stop(int number)
{
    pcap_breakloop(capture);
}

static void report(const struct state *state, pcap_t *handle)
{
    struct pcap_stat stat;

    fprintf(stderr,
            "rawe-dump: %lu frames, %lu of them malformed; %lu of them in %lu batch packets",
            state->frames, state->malformed, state->batch_frames, state->batch_packets);
    if (state->options->file == NULL && pcap_stats(handle, &stat) == 0 && stat.ps_drop != 0) {
        fprintf(stderr, "; %u packets missed, they came too fast", stat.ps_drop);
    }
    fputc('\n', stderr);
}

static unsigned long parse_number(const char *text, const char *option, int base,
                                  unsigned long least, unsigned long most)
{
    char *end;
    unsigned long value = strtoul(text, &end, base);

    if (*text == '\0' || *text == '-' || *end != '\0' || value < least || value > most) {
        fprintf(stderr,
                base == 16 ? "rawe-dump: %s %s: a hexadecimal number from %lx to %lx is needed\n"
                           : "rawe-dump: %s %s: a number from %lu to %lu is needed\n",
                option, text, least, most);
        exit(2);
    }
    return value;
}

static struct options parse(int argc, char **argv)
{
    static const struct option names[] = {
        {"interface", required_argument, NULL, 'i'},
        {"read", required_argument, NULL, 'r'},
        {"count", required_argument, NULL, 'c'},
        {"ethertype", required_argument, NULL, 'e'},
        {"absolute", no_argument, NULL, 'a'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options options = {.ethertype = RAWE_ETHERTYPE_DEFAULT};
    int option;

    while ((option = getopt_long(argc, argv, "i:r:c:e:ah", names, NULL)) != -1) {
        switch (option) {
        case 'i':
            options.interface = optarg;
            break;
        case 'r':
            options.file = optarg;
            break;
        case 'c':
            options.count = parse_number(optarg, "--count", 10, 1, 1ul << 30);
            break;
        case 'e':
            options.ethertype = (unsigned)parse_number(optarg, "--ethertype", 16, 0x600, 0xFFFF);
            break;
        case 'a':
            options.absolute = true;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            usage(stderr);
            exit(2);
        }
    }
    if (optind != argc || (options.interface == NULL) == (options.file == NULL)) {
        fputs("rawe-dump: name an interface (-i) or a file (-r)\n", stderr);
        usage(stderr);
        exit(2);
    }
    return options;
}

int main(int argc, char **argv)
{
    const struct options options = parse(argc, argv);
    struct state state = {.options = &options};
    const struct sigaction action = {.sa_handler = stop};

    capture = open_capture(&options);
    set_filter(capture, &options);
    setvbuf(stdout, NULL, options.file == NULL ? _IOLBF : _IOFBF, 1 << 16);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (options.file == NULL) {
        fprintf(stderr, "rawe-dump: listening on %s, EtherType 0x%04x; end with Ctrl-C\n",
                options.interface, options.ethertype);
    }
    int status = pcap_loop(capture, options.count == 0 ? -1 : (int)options.count, take_packet,
                           (u_char *)&state);
    if (status == PCAP_ERROR) {
        fflush(stdout);
        die("capture", pcap_geterr(capture), "What was read before is shown above.\n");
    }
    const bool written = fflush(stdout) == 0 && !ferror(stdout);
    report(&state, capture);
    pcap_close(capture);
    if (!written) {
        die("standard output", "it cannot be written", "");
    }
    return 0;
}
