/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_group_config.h"

#include "base/rawe_crc32c.h"

void rawe_group_sign(const struct rawe_group_config *config, struct rawe_group_header *header)
{
    header->sender = (uint16_t)config->self;
    header->key = config->key;
    header->id = config->id;
}

struct rawe_bytes rawe_group_seal(const struct rawe_group_config *config, uint8_t *bytes,
                                  struct rawe_group_header *header)
{
    size_t len_bytes = RAWE_GROUP_HEADER_BYTES + header->payload_bytes;
    rawe_group_sign(config, header);
    header->flags |= config->checksum ? RAWE_FLAG_CHECKSUM : 0;
    rawe_group_header_encode(bytes, header);
    if (config->checksum) {
        rawe_checksum_encode(bytes + len_bytes, rawe_crc32c(0, bytes, len_bytes));
        len_bytes += RAWE_CHECKSUM_BYTES;
    }
    return (struct rawe_bytes){bytes, len_bytes};
}

static bool checksum_right(const struct rawe_group_config *config,
                           const struct rawe_group_header *header, const uint8_t *bytes,
                           size_t len_bytes)
{
    const size_t covered_bytes = RAWE_GROUP_HEADER_BYTES + header->payload_bytes;
    if ((header->flags & RAWE_FLAG_CHECKSUM) == 0) {
        return !config->checksum;
    }
    return len_bytes >= covered_bytes + RAWE_CHECKSUM_BYTES &&
           rawe_checksum_decode(bytes + covered_bytes) == rawe_crc32c(0, bytes, covered_bytes);
}

/** Count why a frame is dropped: it is not for this group, its content is wrong, or its sender. */
static bool check(const struct rawe_group_config *config, const struct rawe_group_header *header,
                  uint64_t *content_wrong)
{
    struct rawe_group_counters *counters = config->counters;
    uint64_t *reason = NULL;
    if (header->key != config->key) {
        reason = &counters->dropped_key;
    } else if (header->id != config->id) {
        reason = &counters->dropped_group;
    } else if (content_wrong != NULL) {
        reason = content_wrong;
    } else if (header->sender >= config->members || header->sender == config->self) {
        reason = &counters->dropped_member;
    }
    if (reason != NULL) {
        ++*reason;
    }
    return reason == NULL;
}

bool rawe_group_open(const struct rawe_group_config *config, struct rawe_group_header *header,
                     const uint8_t *bytes, size_t len_bytes)
{
    struct rawe_group_counters *counters = config->counters;
    uint64_t *reason = NULL;
    if (rawe_group_header_decode(header, bytes, len_bytes) != RAWE_DECODE_OK) {
        counters->dropped_decode++;
        return false;
    }
    if (!checksum_right(config, header, bytes, len_bytes)) {
        reason = &counters->dropped_checksum;
    } else if ((header->flags & RAWE_GROUP_FLAG_SHARED) != 0 &&
               !rawe_group_shared_fits(bytes + RAWE_GROUP_HEADER_BYTES, header->payload_bytes)) {
        reason = &counters->dropped_decode;
    }
    return check(config, header, reason);
}

bool rawe_group_open_batch(const struct rawe_group_config *config, struct rawe_group_header *header,
                           const uint8_t *head, size_t head_bytes, size_t data_bytes)
{
    struct rawe_group_counters *counters = config->counters;
    if (rawe_group_batch_decode(header, head, head_bytes, data_bytes) != RAWE_DECODE_OK) {
        counters->dropped_decode++;
        return false;
    }
    return check(config, header, NULL);
}
