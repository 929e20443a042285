/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values in memory that streams write or wait for
 */
#include "core/internal.h"

_Static_assert((int)DSC_VALUE_WRITE == DS_VALUE_WRITE && (int)DSC_VALUE_GEQ == DS_VALUE_GEQ &&
                       (int)DSC_VALUE_EQ == DS_VALUE_EQ && (int)DSC_VALUE_AND == DS_VALUE_AND &&
                       (int)DSC_VALUE_NOR == DS_VALUE_NOR,
        "the wire has the same numbers");

int dsc_value(
        dsc_session *s, uint32_t stream, enum dsc_value_kind kind, uint32_t bytes, uint64_t address, uint64_t value)
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
