/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values in memory that streams write and wait for
 */
#include "core/internal.h"

int dsc_value(dsc_session *s, uint32_t stream, uint32_t kind, uint32_t bytes, uint64_t address, uint64_t value)
{
        if (stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        if (s->socket_only) {
                Detshare__Value ask = DETSHARE__VALUE__INIT;
                ask.stream = stream;
                ask.kind = kind;
                ask.bytes = bytes;
                ask.address = address;
                ask.value = value;
                Detshare__Request request = DSC__REQUEST(VALUE, value, &ask);
                return dsc__submit_call(s, stream, &request, NULL);
        }
        const struct ds_record_value record = {
                .head = {.type = DS_RECORD_VALUE, .stream = (uint16_t)stream},
                .kind = kind,
                .bytes = bytes,
                .address = address,
                .value = value,
        };
        return dsc__submit(s, &record.head, sizeof(record), NULL, 0, NULL);
}
