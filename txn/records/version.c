/* SPDX-License-Identifier: Apache-2.0 */
/* version.c -- versions of records as blocks of memory. */
#include <stddef.h>

#include "common/hash/hash.h"
#include "common/hash/inline.h"
#include "version.h"

#define FINE_STRIDES_MAX 1024u
#define STRIDES_PER_DOUBLING 8u

_Static_assert(NAM__VERSION_BYTES_MAX / NAM_GADDR_UNIT_BYTES <= UINT16_MAX, "a tag holds it");

static inline __attribute__((always_inline)) struct nam__record_id
id_of(const void *key, uint32_t key_bytes)
{
	XXH128_hash_t hash = XXH3_128bits(key, key_bytes);

	return (struct nam__record_id){ { hash.low64, hash.high64 } };
}

struct nam__record_id
nam__record_id(const void *key, uint32_t key_bytes)
{
	/* The hash of a constant length is inlined: some twenty instructions for 8 bytes. */
	return key_bytes == 8 ? id_of(key, 8) : id_of(key, key_bytes);
}

uint32_t
nam__version_stride(uint32_t bytes)
{
	uint32_t step = NAM_GADDR_UNIT_BYTES, stride;

	if (bytes > FINE_STRIDES_MAX)
		step = (1u << (31 - __builtin_clz(bytes - 1))) / STRIDES_PER_DOUBLING;
	stride = (bytes + step - 1) / step * step;
	return nam_stride_is_of_nodes(stride) ? stride + step : stride;
}

uint64_t
nam__version_hash(const struct nam_version *version, uint32_t length, struct nam_gaddr at)
{
	const size_t from = offsetof(struct nam_version, timestamp);

	return nam_mix64(nam_hash64((const uint8_t *)version + from, length - from) ^
		nam_mix64(at.raw));
}

/* A key's id is a hash, so 4 of its bytes serve as 4 hashes. */
void
nam__filter_add(struct nam_version_filter *filter, uint64_t key_id)
{
	for (unsigned i = 0; i < 4; i++, key_id >>= 8)
		filter->bits[(key_id & 0xff) / 64] |= 1ull << key_id % 64;
}

bool
nam__filter_has(const struct nam_version_filter *filter, uint64_t key_id)
{
	for (unsigned i = 0; i < 4; i++, key_id >>= 8)
		if (!(filter->bits[(key_id & 0xff) / 64] >> key_id % 64 & 1))
			return false;
	return true;
}

void
nam__version_seal(struct nam_version *version, struct nam_gaddr at)
{
	version->current = version->timestamp;
	version->hash = nam__version_hash(version, nam__version_length_of(version), at);
}
