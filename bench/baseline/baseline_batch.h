/* SPDX-License-Identifier: BSD-3-Clause */
/* What both kinds of GSO batches share. */
#ifndef RAWE_BASELINE_BATCH_H
#define RAWE_BASELINE_BATCH_H

#include <netinet/ip.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "baseline.h"

#define BASELINE_PORT 34998 /* of all batches, both directions */

/* A packet socket that gets our batches of an IP protocol; -1 after saying why there is none. */
int baseline_batch_socket(const struct baseline_link *link, uint8_t protocol);
/* Writes the Ethernet (14 bytes) and IPv4 headers of a packet with `bytes` behind them. Returns
 * the pseudo-header's checksum, from which the device completes that of each segment. */
uint16_t baseline_batch_headers(const struct baseline_link *link, uint8_t *mac, struct iphdr *ip,
                                uint8_t protocol, size_t bytes);
/* sendmsg() that waits where the device is full. */
ssize_t baseline_batch_sendmsg(int fd, const struct msghdr *message);

#endif
