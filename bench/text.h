/* SPDX-License-Identifier: Apache-2.0 */
/* text.h -- numbers to read.  A text stays until its thread has asked for TEXTS_COUNT more. */
#ifndef NAM_BENCH_TEXT_H
#define NAM_BENCH_TEXT_H

#define TEXTS_COUNT 8u

/* Three or four digits and a unit: "987", "12.3 k", "4.56 M", "7.89 G". */
const char *text_count(double value);
/* Powers of 1,024: "512 B", "1.00 KiB", "12.3 MiB". */
const char *text_bytes(double bytes);
/* "850 ns", "1.23 us", "45.6 ms", "7.8 s". */
const char *text_ns(double ns);

#endif /* NAM_BENCH_TEXT_H */
