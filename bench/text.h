/* SPDX-License-Identifier: Apache-2.0 */
/* text.h -- numbers as people like to read them. */
#ifndef NAM_BENCH_TEXT_H
#define NAM_BENCH_TEXT_H

#include <stdint.h>

#define TEXT_BYTES 24

/* Three or four digits and a unit: "987", "12.3 k", "4.56 M", "7.89 G". */
char *text_count(char text[TEXT_BYTES], double value);
/* Powers of 1,024: "512 B", "1.00 KiB", "12.3 MiB". */
char *text_bytes(char text[TEXT_BYTES], double bytes);
/* "850 ns", "1.23 us", "45.6 ms", "7.8 s". */
char *text_ns(char text[TEXT_BYTES], double ns);

#endif /* NAM_BENCH_TEXT_H */
