/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads a capture with libpcap. A batch is cut into the frames that a cable would carry.
 */
#include "attack.h"

#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 20000u

static unsigned get16(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static void put16(uint8_t *at, size_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static unsigned get32(const uint8_t *at)
{
    return get16(at) << 16 | get16(at + 2);
}

static void add(struct attack_capture *capture, const uint8_t *head, size_t head_bytes,
                size_t header_bytes, const uint8_t *data, size_t data_bytes)
{
    struct attack_frame *next = &capture->frames[capture->count];

    if (capture->count == FRAMES_MAX || head_bytes + data_bytes > sizeof next->bytes) {
        return;
    }
    next->header_at = head_bytes - header_bytes;
    next->header_bytes = header_bytes;
    next->len_bytes = head_bytes + data_bytes;
    memcpy(next->bytes, head, head_bytes);
    memcpy(next->bytes + head_bytes, data, data_bytes);
    capture->count++;
}

/* The packet of a batch, which may carry several of its frames, or none: a PROBE. */
static void add_batch(struct attack_capture *capture, const uint8_t *bytes, size_t len_bytes)
{
    uint8_t head[ATTACK_ETH_BYTES + ATTACK_IPV4_BYTES + ATTACK_BATCH_HEADER_BYTES];
    uint8_t *ipv4 = head + ATTACK_ETH_BYTES;
    uint8_t *header = ipv4 + ATTACK_IPV4_BYTES;

    if (len_bytes < sizeof head) {
        return;
    }
    memcpy(head, bytes, sizeof head);
    const unsigned first = get32(header + 4);
    const size_t segment_bytes = get16(header + 14);
    const size_t data_bytes = len_bytes - sizeof head;
    size_t at = 0;
    do {
        size_t left = data_bytes - at;
        size_t one = segment_bytes != 0 && segment_bytes < left ? segment_bytes : left;
        put16(ipv4 + 2, ATTACK_IPV4_BYTES + ATTACK_BATCH_HEADER_BYTES + one);
        put16(header + 4, (first + at) >> 16);
        put16(header + 6, first + at);
        add(capture, head, sizeof head, ATTACK_BATCH_HEADER_BYTES, bytes + sizeof head + at, one);
        at += one;
    } while (at < data_bytes);
}

struct attack_capture attack_capture_read(const char *file)
{
    static const uint8_t martian[] = {255, 255, 255, 255}; /* the batches' source address */
    struct attack_capture capture = {malloc(FRAMES_MAX * sizeof *capture.frames), 0};
    char why[PCAP_ERRBUF_SIZE];
    pcap_t *pcap = pcap_open_offline(file, why);
    struct pcap_pkthdr *info;
    const uint8_t *bytes;

    if (pcap == NULL || capture.frames == NULL) {
        fprintf(stderr, "rawe-attack: cannot read %s: %s\n", file,
                pcap != NULL ? "no memory" : why);
        exit(1);
    }
    while (pcap_next_ex(pcap, &info, &bytes) == 1) {
        if (info->caplen < ATTACK_ETH_BYTES + ATTACK_HEADER_BYTES || info->caplen != info->len) {
            continue;
        }
        if (get16(bytes + 12) == 0x88B5) {
            const size_t head_bytes = ATTACK_ETH_BYTES + ATTACK_HEADER_BYTES;
            add(&capture, bytes, head_bytes, ATTACK_HEADER_BYTES, bytes + head_bytes,
                info->caplen - head_bytes);
        } else if (get16(bytes + 12) == 0x0800 && memcmp(bytes + 26, martian, 4) == 0) {
            add_batch(&capture, bytes, info->caplen);
        }
    }
    pcap_close(pcap);
    if (capture.count == 0) {
        fprintf(stderr, "rawe-attack: no rawe frame is in %s; capture on a host of a running job\n",
                file);
        exit(1);
    }
    return capture;
}
