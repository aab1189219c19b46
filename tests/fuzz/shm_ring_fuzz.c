/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_ring_fuzz.c -- rings and bells that the other process writes as it likes, between any two
 * looks at them.
 *
 * input	which side, then steps: what the other process does, or what we do
 */
#include <sys/mman.h>

#include "common/fabric/shm/shm_internal.h"
#include "fuzz_input.h"

#define RECVS 8u
#define RECV_BYTES 512u

enum step {
	STEP_TAIL, STEP_HEAD, STEP_WANT_SPACE, STEP_SLOT, STEP_BELL, STEP_MESSAGE,	/* theirs */
	STEP_POLL, STEP_RECV, STEP_SEND, STEP_SEND_INLINE, STEP_WAIT, STEP_CLOSE,	/* ours */
	STEPS_COUNT
};

struct fixture {
	struct nam_cq *cq;
	struct nam_rq *rq;
	struct shm_qp *qp;
	uint8_t *recvs[RECVS];
	uint32_t recvs_posted, recvs_done;
	uint32_t sent;			/* requests that are to complete */
	uint8_t message[SHM_MESSAGE_BYTES];
	bool closing, closed;
};

static struct nam_domain *domain;

static void *
pages(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		abort();
	return at;
}

static void
fixture_open(struct fixture *fixture, bool accepted)
{
	const struct nam_fabric_ops *ops = nam_fabric_find("shm:/x", NULL);
	struct nam_qp_options options;

	memset(fixture, 0, sizeof(*fixture));
	if (!domain && ops->domain_open(NULL, &domain, NULL))
		abort();
	if (ops->cq_create(domain, 32, &fixture->cq) ||
		ops->rq_create(domain, fixture->cq, RECVS, &fixture->rq))
		abort();
	options = (struct nam_qp_options){ .cq = fixture->cq, .rq = fixture->rq };
	if (nam__shm_qp_create((struct shm_domain *)domain, &options, &fixture->qp) ||
		nam__shm_cq_reserve(fixture->qp->cq, fixture->qp))
		abort();
	fixture->qp->rings = pages(sizeof(struct shm_rings));
	fixture->qp->peer_bell = pages(SHM_PAGE_BYTES);
	fixture->qp->in = &fixture->qp->rings->request;
	fixture->qp->out = &fixture->qp->rings->reply;
	fixture->qp->accepted = accepted;
	nam__shm_cq_publish(fixture->qp->cq, fixture->qp);
	for (unsigned i = 0; i < RECVS; i++)
		fixture->recvs[i] = fuzz_memory(RECV_BYTES);
}

static void
fixture_close(struct fixture *fixture)
{
	nam__shm_qp_destroy(&fixture->qp->pub);
	nam__shm_rq_destroy(fixture->rq);
	nam__shm_cq_destroy(fixture->cq);
	for (unsigned i = 0; i < RECVS; i++)
		free(fixture->recvs[i]);
}

static uint32_t
word(struct fuzz_input *input, uint32_t near)
{
	uint32_t value;

	/* Mostly close to what is right. */
	if (fuzz_u8(input) & 7)
		return near + fuzz_u8(input) - 4;
	fuzz_take(input, &value, sizeof(value));
	return value;
}

static void
poll_some(struct fixture *fixture, unsigned max)
{
	struct nam_wc wcs[16];
	int count = nam__shm_cq_poll(fixture->cq, wcs, max);

	if (count < 0 || count > (int)max)
		abort();
	for (int i = 0; i < count; i++) {
		if (wcs[i].op == NAM_WC_CLOSED) {
			fixture->closed = true;
		} else if (wcs[i].op == NAM_WC_RECV) {
			if (wcs[i].bytes > RECV_BYTES ||
				++fixture->recvs_done > fixture->recvs_posted)
				abort();
		} else if (!fixture->sent--) {
			abort();
		}
	}
}

static void
post_recv(struct fixture *fixture)
{
	uint32_t number = fixture->recvs_posted;
	struct nam_recv recv = {
		.buffer = fixture->recvs[number % RECVS],
		.bytes = RECV_BYTES,
	};

	/* A buffer whose message has not come yet is not ours to post again. */
	if (number - fixture->recvs_done < RECVS && !nam__shm_rq_post(fixture->rq, &recv, 1))
		fixture->recvs_posted++;
}

static void
post_send(struct fixture *fixture, uint32_t bytes, bool is_inline)
{
	struct nam_wr wr = {
		.op = NAM_WR_SEND,
		.flags = (uint8_t)(NAM_WR_SIGNALED | (is_inline ? NAM_WR_INLINE : 0)),
		.bytes = is_inline ? bytes % (SHM_INLINE_BYTES + 1) : bytes,
		.local = fixture->message,
	};

	if (!nam__shm_qp_post(&fixture->qp->pub, &wr, 1))
		fixture->sent++;
}

/* One thing that the other process does to the memory that it shares with us. */
static void
theirs(struct fixture *fixture, struct fuzz_input *input, enum step step)
{
	struct shm_ring *in = fixture->qp->in, *out = fixture->qp->out;
	struct shm_bell *bell = fixture->qp->cq->bell;
	struct shm_slot *slot = &in->slots[fuzz_u8(input) % SHM_SLOTS];

	switch (step) {
	case STEP_TAIL:
		atomic_store(&in->tail, word(input, atomic_load(&in->tail)));
		break;
	case STEP_HEAD:
		atomic_store(&out->head, word(input, atomic_load(&out->head)));
		break;
	case STEP_WANT_SPACE:
		atomic_store(&in->want_space, word(input, 0));
		break;
	case STEP_SLOT:
		atomic_store(&slot->bytes, word(input, RECV_BYTES));
		break;
	case STEP_MESSAGE:
		slot = &in->slots[atomic_load(&in->tail) % SHM_SLOTS];
		atomic_store(&slot->bytes, fuzz_u16(input) % (RECV_BYTES + 1));
		atomic_fetch_add(&in->tail, 1);
		/* fallthrough */
	default:
		atomic_fetch_or(
			&bell->bits[fuzz_u8(input) % SHM_BELL_WORDS], 1ull << fuzz_u8(input) % 64);
		atomic_fetch_or(&bell->bits[0], 1);
		atomic_fetch_or(&bell->summary, fuzz_u8(input) & 3 ? 1 : UINT64_MAX);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct fixture fixture;

	fixture_open(&fixture, fuzz_u8(&input) & 1);
	for (unsigned steps = 0; input.left && steps < 500 && !fixture.closed; steps++) {
		enum step step = fuzz_u8(&input) % STEPS_COUNT;

		switch (step) {
		case STEP_POLL:
			poll_some(&fixture, 1 + fuzz_u8(&input) % 16);
			break;
		case STEP_RECV:
			post_recv(&fixture);
			break;
		case STEP_SEND:
			post_send(&fixture, fuzz_u16(&input) % (SHM_MESSAGE_BYTES + 10), false);
			break;
		case STEP_SEND_INLINE:
			post_send(&fixture, fuzz_u8(&input), true);
			break;
		case STEP_WAIT:
			(void)nam__shm_cq_wait(fixture.cq, 0);
			break;
		case STEP_CLOSE:
			/* The watcher says so once. */
			if (!fixture.closing)
				nam__shm_cq_closed(fixture.qp->cq, fixture.qp);
			fixture.closing = true;
			break;
		default:
			theirs(&fixture, &input, step);
		}
	}
	for (unsigned i = 0; i < 8; i++)
		poll_some(&fixture, 16);
	/* In any state that the peer has caused, its end is noticed. */
	if (fixture.closing && !fixture.closed)
		abort();
	fixture_close(&fixture);
	return 0;
}
