/* SPDX-License-Identifier: Apache-2.0 */
#include "util/text.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Length of the UTF-8 sequence at s, and its character; 0: invalid (overlong, a surrogate, above U+10FFFF). */
static size_t sequence(const unsigned char *s, uint32_t *ret)
{
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        const size_t n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
        uint32_t c = n > 1 ? s[0] & (0x7fu >> n) : s[0];

        for (size_t i = 1; i < n; i++) {
                if (s[i] >> 6 != 2)
                        return 0;
                c = c << 6 | (s[i] & 0x3fu);
        }
        if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
                return 0;
        *ret = c;
        return n;
}

static int obeyed(uint32_t c)
{
        if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c)
                return 1;
        /* marks of writing direction, separators of lines and paragraphs */
        return c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void ds_text_make_safe(char *text)
{
        unsigned char *s = (unsigned char *)text;
        uint32_t c;

        while (*s) {
                size_t n = sequence(s, &c);

                if (!n || obeyed(c))
                        memset(s, '?', n ? n : 1);
                s += n ? n : 1;
        }
}
