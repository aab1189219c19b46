/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cells.h -- the cells of a partition: pieces of 64 bytes of its chunks, taken and given back.
 *
 * The first word of a cell leads to the next one, of its pair or of the free ones.  All cells have
 * one size, so memory does not fragment.
 */
#ifndef NAM_KV_SERVER_CELLS_H
#define NAM_KV_SERVER_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/race.h"

#define NAM__KV_CHUNK_BYTES 32768u
#define NAM__KV_CELL_BYTES 64u
#define NAM__KV_CELLS_PER_CHUNK (NAM__KV_CHUNK_BYTES / NAM__KV_CELL_BYTES)
#define NAM__KV_CELL_NONE UINT32_MAX

struct nam__kv_cells {
	uint8_t *const *chunks;		/* the first one; */
	ptrdiff_t step;			/* the next one is so far from it: 1; or -1, and in each
					   of them the last cell comes first */
	uint32_t count;
	uint32_t carved;		/* cells that were ever used */
	uint32_t free_first;		/* of cells that were given back */
	uint32_t free_count;		/* of those, and of those never used */
};

static inline void
nam__kv_cells_init(struct nam__kv_cells *cells, uint8_t *const *chunks, ptrdiff_t step,
	uint32_t count)
{
	*cells = (struct nam__kv_cells){ chunks, step, count, 0, NAM__KV_CELL_NONE, count };
}

static inline void *
nam__kv_cell_at(const struct nam__kv_cells *cells, uint32_t at)
{
	uint32_t in_chunk = (cells->step < 0 ? ~at : at) % NAM__KV_CELLS_PER_CHUNK;

	return cells->chunks[cells->step * (ptrdiff_t)(at / NAM__KV_CELLS_PER_CHUNK)] +
	       in_chunk * NAM__KV_CELL_BYTES;
}

/* The cell that a cell's first word names; NAM__KV_CELL_NONE, also for a word of no cell. */
static inline uint32_t
nam__kv_cell_next(const struct nam__kv_cells *cells, uint32_t at)
{
	const uint32_t *word = nam__kv_cell_at(cells, at);
	uint32_t next = __atomic_load_n(word, __ATOMIC_RELAXED);

	return next < cells->carved ? next : NAM__KV_CELL_NONE;
}

/* A cell is free.  If clients have damaged chains, perhaps none is, but the count does not wrap. */
static inline uint32_t
nam__kv_cell_take(struct nam__kv_cells *cells)
{
	uint32_t at = cells->free_first;

	cells->free_count -= cells->free_count > 0;
	if (at != NAM__KV_CELL_NONE) {
		cells->free_first = nam__kv_cell_next(cells, at);
		return at;
	}
	/* Clients have damaged the list of free ones, if there is none: any will do. */
	return cells->carved < cells->count ? cells->carved++ : 0;
}

static inline void
nam__kv_cell_give(struct nam__kv_cells *cells, uint32_t at)
{
	*(uint32_t *)nam__kv_cell_at(cells, at) = cells->free_first;
	cells->free_first = at;
	cells->free_count += cells->free_count < cells->count;
}

static inline uint32_t
nam__kv_cells_used(const struct nam__kv_cells *cells)
{
	return cells->count - cells->free_count;
}

/* ---- the bytes of a pair ------------------------------------------------------------------- */

/* A position in the bytes of a pair: contiguous ones, then those of a chain of cells. */
struct nam__kv_stream {
	const struct nam__kv_cells *cells;
	uint32_t more;			/* the next cell */
	uint32_t skip;			/* bytes at the beginning of each that are not the pair's */
	uint8_t *data;
	uint32_t left;			/* contiguous ones */
};

/* As many of `bytes` as are contiguous. */
static inline uint8_t *
nam__kv_stream_piece(struct nam__kv_stream *stream, uint32_t bytes, uint32_t *ret_bytes)
{
	uint8_t *piece;

	if (!stream->left) {
		/* A chain that clients have damaged ends early: any cell is bytes. */
		uint32_t at = stream->more == NAM__KV_CELL_NONE ? 0 : stream->more;

		stream->more = nam__kv_cell_next(stream->cells, at);
		stream->data = (uint8_t *)nam__kv_cell_at(stream->cells, at) + stream->skip;
		stream->left = NAM__KV_CELL_BYTES - stream->skip;
	}
	piece = stream->data;
	*ret_bytes = bytes < stream->left ? bytes : stream->left;
	stream->data += *ret_bytes;
	stream->left -= *ret_bytes;
	return piece;
}

static inline void
nam__kv_stream_write(struct nam__kv_stream *stream, const void *from, uint32_t bytes)
{
	for (uint32_t n; bytes; bytes -= n) {
		uint8_t *piece = nam__kv_stream_piece(stream, bytes, &n);

		memcpy(piece, from, n);
		from = (const uint8_t *)from + n;
		if (bytes > n)
			nam_race_point("kv.half_written");
	}
}

/* @to	NULL: pass over them */
static inline void
nam__kv_stream_read(struct nam__kv_stream *stream, void *to, uint32_t bytes)
{
	for (uint32_t done = 0, n; done < bytes; done += n) {
		const uint8_t *piece = nam__kv_stream_piece(stream, bytes - done, &n);

		if (to)
			memcpy((uint8_t *)to + done, piece, n);
	}
}

static inline bool
nam__kv_stream_equals(struct nam__kv_stream *stream, const void *with, uint32_t bytes)
{
	for (uint32_t n; bytes; bytes -= n) {
		const uint8_t *piece = nam__kv_stream_piece(stream, bytes, &n);

		if (memcmp(piece, with, n) != 0)
			return false;
		with = (const uint8_t *)with + n;
	}
	return true;
}

#endif /* NAM_KV_SERVER_CELLS_H */
