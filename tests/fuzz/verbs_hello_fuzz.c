/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_hello_fuzz.c -- the private data of rdma_cm, without a device: hellos and answers to the
 * listener; rejections, challenges and responses to the client.
 *
 * input	up to 8 times: flags, length, private data
 */
#include "fuzz_answer.h"
#include "fuzz_input.h"

#ifdef NAM_VERBS

#include "common/fabric/verbs/verbs_internal.h"

/* Rejections go nowhere. */
static int
fuzz_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	(void)id;
	if (data && bytes != sizeof(struct verbs_reply))
		abort();
	return 0;
}

static int
fuzz_destroy_id(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

#define rdma_reject fuzz_reject
#define rdma_destroy_id fuzz_destroy_id
#include "common/fabric/verbs/connect.c"
#include "common/fabric/verbs/listen.c"
#undef rdma_reject
#undef rdma_destroy_id

#define PRIVATE_BYTES_MAX 196u		/* of a response */

enum flag {
	FLAG_MAGIC = 1,
	FLAG_LENGTH = 2,
	FLAG_KIND = 4,
	FLAG_NUMBER = 8,		/* of the last challenge */
	FLAG_WHOLE = 16,		/* as rdma_cm pads it; a rejection by the memory server */
	FLAG_CLIENT = 32,
	FLAG_CHALLENGE = 64,		/* the listener does, or this is one */
	FLAG_RESPONSE = 128,
};

static struct ibv_device device = { .name = "fuzz" };
static struct ibv_context context = { .device = &device };
static struct verbs_domain domain = { .device = "fuzz" };

/* Memory of exactly its length, or NULL. */
static void *
private_data(struct fuzz_input *input, unsigned flags, uint16_t number, uint8_t *ret_bytes)
{
	struct verbs_reply reply;
	size_t bytes = fuzz_u8(input) % (PRIVATE_BYTES_MAX + 1);
	uint32_t max = flags & FLAG_CLIENT ? NAM_REPLY_BYTES_MAX : NAM_HELLO_BYTES_MAX;
	uint8_t *data;

	if (flags & FLAG_WHOLE && bytes < sizeof(reply))
		bytes = sizeof(reply);
	data = fuzz_memory(bytes);
	fuzz_take(input, data, bytes);
	fuzz_take(&(struct fuzz_input){ data, bytes }, &reply, sizeof(reply));
	if (flags & FLAG_MAGIC) {
		reply.magic = VERBS_MAGIC;
		reply.version = VERBS_VERSION;
	}
	if (flags & FLAG_LENGTH)
		reply.bytes = (uint8_t)(reply.bytes % (max + 1));
	if (flags & FLAG_KIND)
		reply.params.kind = (uint8_t)(reply.params.kind % (VERBS_ANSWER + 1));
	if (flags & FLAG_NUMBER)
		reply.params.number = number;
	memcpy(data, &reply, bytes < sizeof(reply) ? bytes : sizeof(reply));
	*ret_bytes = (uint8_t)bytes;
	if (bytes)
		return data;
	free(data);
	return NULL;
}

static void
be_client(const struct rdma_cm_event *event, unsigned flags, bool answered)
{
	const struct nam_qp_options options = { .answer = fuzz_answer };
	struct nam_hello reply = { .bytes = 0 }, answer;
	struct nam_diag diag = { "" };
	struct verbs_qp qp = { .mtu = 0 };
	struct attempt attempt = {
		.domain = &domain,
		.address = "verbs:there:1",
		.qp = &qp,
		.reply = &reply,
		.diag = &diag,
		.answered = answered,
	};
	int rc = flags & FLAG_RESPONSE ? take_response(&attempt, event) :
		take_rejection(&attempt, event);

	/* A challenge comes with a rejection only. */
	if (!rc && ((const struct verbs_reply *)event->param.conn.private_data)->params.kind !=
		VERBS_PLAIN)
		abort();
	if (rc > 0 || (rc && rc != -EAGAIN && !attempt.challenged && !diag.text[0]))
		abort();
	if ((attempt.challenged && answered) || qp.mtu > IBV_MTU_4096 ||
		reply.bytes > NAM_REPLY_BYTES_MAX)
		abort();
	if (attempt.challenged)
		(void)!nam__fabric_answer(&options, attempt.address, &attempt.challenge, &answer,
			&diag);
}

static void
be_listener(struct verbs_listener *listener, const struct rdma_cm_event *event, unsigned flags,
	unsigned *waiting)
{
	struct nam_hello reply = { .bytes = NAM_REPLY_BYTES_MAX };
	struct nam_cm_event heard;

	if (!take_request(listener, event, &heard))
		return;
	if (heard.hello.bytes > NAM_HELLO_BYTES_MAX || heard.answer.bytes > NAM_HELLO_BYTES_MAX ||
		heard.request->mtu > IBV_MTU_4096 || !memchr(heard.peer, '\0', sizeof(heard.peer)))
		abort();
	/* One answer to each challenge. */
	if (heard.kind == NAM_CM_ANSWER &&
		(!(*waiting)-- || heard.challenge.bytes != NAM_REPLY_BYTES_MAX))
		abort();
	*waiting += heard.kind == NAM_CM_REQUEST && flags & FLAG_CHALLENGE;
	if (flags & FLAG_CHALLENGE)
		nam__verbs_challenge(&listener->pub, heard.request, &reply);
	else
		nam__verbs_reject(&listener->pub, heard.request, &reply);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct verbs_listener *listener = fuzz_memory(sizeof(*listener));
	struct rdma_cm_id id = { .verbs = &context };
	unsigned waiting = 0;

	listener->domain = &domain;
	id.route.addr.dst_addr.sa_family = AF_INET;
	for (unsigned i = 0; input.left && i < 8; i++) {
		struct rdma_cm_event event = { .id = &id };
		unsigned flags = fuzz_u8(&input);
		uint8_t length;
		void *said = private_data(&input, flags, listener->number, &length);

		event.param.conn.private_data = said;
		event.param.conn.private_data_len = length;
		event.status = flags & FLAG_WHOLE ? REASON_CONSUMER : fuzz_u8(&input);
		if (flags & FLAG_CLIENT)
			be_client(&event, flags, flags & FLAG_CHALLENGE);
		else
			be_listener(listener, &event, flags, &waiting);
		free(said);
	}
	free(listener);
	return 0;
}

#else

/* Built without verbs: there is nothing to decode. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	(void)data;
	(void)bytes;
	return 0;
}

#endif
