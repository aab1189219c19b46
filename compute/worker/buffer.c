/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer.c -- registered local memory of one worker, without locks: powers of two, cut from slabs
 * that are registered once, in free lists by size.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "compute/worker/buffer.h"

#define SLAB_BYTES (128u << 10)

struct nam__slab {
	SLIST_ENTRY(nam__slab) link;	/* worker->slabs */
	struct nam_domain *domain;
	struct nam_mr mr;
	uint8_t *base;
	size_t bytes, used;
};

static struct nam__slab *
slab_new(struct nam_worker *worker, size_t bytes)
{
	struct nam__slab *slab = calloc(1, sizeof(*slab));

	if (!slab)
		goto no_memory;
	slab->bytes = bytes;
	slab->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slab->base == MAP_FAILED)
		goto no_memory;
	slab->domain = worker->client->domains[0];
	/* The user can raise a limit that is too low, so the provider's message stays. */
	if (slab->domain->ops->mr_register(slab->domain, slab->base, bytes, NAM_MR_LOCAL, &slab->mr,
		    &worker->diag))
		goto unmap;
	SLIST_INSERT_HEAD(&worker->slabs, slab, link);
	worker->lkeys_needed |= slab->mr.lkey != 0;
	worker->bytes += bytes;
	return slab;

no_memory:
	nam_diag_set(&worker->diag, -ENOMEM, "this process has no memory for %zu bytes of buffers",
		bytes);
	goto free_slab;
unmap:
	munmap(slab->base, bytes);
free_slab:
	free(slab);
	return NULL;
}

void *
nam_buffer_take(struct nam_worker *worker, uint32_t bytes)
{
	unsigned class = nam__buffer_class(bytes);
	void **list;
	struct nam__slab *slab = NULL, *other;
	size_t size = (size_t)1 << class;
	void *buffer;

	if (class >= NAM__BUFFER_CLASSES) {
		nam_diag_set(&worker->diag, -NAM_E_LIMIT, "a buffer is 2 MiB at most, not %u bytes",
			bytes);
		return NULL;
	}
	list = &worker->buffers[class];
	buffer = *list;
	if (buffer) {
		*list = *(void **)buffer;
		return buffer;
	}
	/* Small buffers fill the slab with the least room that is enough. */
	SLIST_FOREACH(other, &worker->slabs, link)
		if (other->bytes - other->used >= size &&
			(!slab || other->bytes - other->used < slab->bytes - slab->used))
			slab = other;
	if (!slab)
		slab = slab_new(worker, size > SLAB_BYTES ? size : SLAB_BYTES);
	if (!slab)
		return NULL;
	buffer = slab->base + slab->used;
	slab->used += size;
	return buffer;
}

void
nam_buffer_give(struct nam_worker *worker, void *buffer, uint32_t bytes)
{
	if (buffer)
		nam__buffer_give(worker, buffer, bytes);
}

uint32_t
nam__buffer_lkey_find(const struct nam_worker *worker, const void *local)
{
	const uint8_t *byte = local;
	const struct nam__slab *slab;

	SLIST_FOREACH(slab, &worker->slabs, link)
		if (byte >= slab->base && byte < slab->base + slab->bytes)
			return slab->mr.lkey;
	return 0;
}

void
nam__buffers_free(struct nam_worker *worker)
{
	struct nam__slab *slab;

	while ((slab = SLIST_FIRST(&worker->slabs))) {
		SLIST_REMOVE_HEAD(&worker->slabs, link);
		slab->domain->ops->mr_release(slab->domain, &slab->mr);
		munmap(slab->base, slab->bytes);
		free(slab);
	}
}

void *
nam__scratch(struct nam_worker *worker, uint32_t bytes)
{
	struct nam__task *task = worker->current;

	if (__builtin_expect(task->scratch_bytes >= bytes, 1))
		return task->scratch;
	nam_buffer_give(worker, task->scratch, task->scratch_bytes);
	task->scratch = nam_buffer_take(worker, bytes);
	task->scratch_bytes = task->scratch ? bytes : 0;
	return task->scratch;
}
