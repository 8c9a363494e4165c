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

static void add(struct attack_capture *capture, const uint8_t *head, size_t head_bytes,
                const uint8_t *frame, size_t frame_bytes)
{
    struct attack_frame *next = &capture->frames[capture->count];

    if (capture->count == FRAMES_MAX || head_bytes + frame_bytes > sizeof next->bytes ||
        frame_bytes < ATTACK_HEADER_BYTES) {
        return;
    }
    next->header_at = head_bytes;
    next->len_bytes = head_bytes + frame_bytes;
    memcpy(next->bytes, head, head_bytes);
    memcpy(next->bytes + head_bytes, frame, frame_bytes);
    if (head_bytes > ATTACK_ETH_BYTES) {
        put16(next->bytes + ATTACK_ETH_BYTES + 2, 20 + 8 + frame_bytes); /* IPv4: total length */
        put16(next->bytes + ATTACK_ETH_BYTES + 24, 8 + frame_bytes);     /* UDP: length */
        put16(next->bytes + ATTACK_ETH_BYTES + 26, 0);                   /* UDP: no checksum */
    }
    capture->count++;
}

/* The frames of an envelope: each but the last is as long as the first says. */
static void add_batch(struct attack_capture *capture, const uint8_t *bytes, size_t len_bytes)
{
    const size_t head_bytes = ATTACK_ETH_BYTES + ATTACK_ENVELOPE_BYTES;
    size_t one, at = head_bytes;

    if (len_bytes < head_bytes + ATTACK_HEADER_BYTES) {
        return;
    }
    one = ATTACK_HEADER_BYTES + get16(bytes + head_bytes + 20) +
          ((bytes[head_bytes + 1] & 0x08) != 0 ? 4 : 0);
    for (; at < len_bytes; at += one) {
        add(capture, bytes, head_bytes, bytes + at, len_bytes - at < one ? len_bytes - at : one);
    }
}

struct attack_capture attack_capture_read(const char *file)
{
    static const uint8_t martian[] = {255, 255, 255, 255}; /* the envelopes' source address */
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
            add(&capture, bytes, ATTACK_ETH_BYTES, bytes + ATTACK_ETH_BYTES,
                info->caplen - ATTACK_ETH_BYTES);
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
