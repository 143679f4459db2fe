/* Saves a session as the bytes of its state. */
#include "engine/model/model_state.h"
#include "engine/session/state.h"

#include "cache/checksum.h"
#include "engine/compute/context_save.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a state is written as it lies there");
_Static_assert(sizeof(struct state_head) == 192 && sizeof(struct state_record) == 40,
	       "no padding is written");

struct saved {
	pthread_mutex_t lock; /* of the sum */
	struct state_head head;
	struct text_out texts;
	struct context_save context;
	XXH3_state_t *sum;
	uint64_t summed; /* bytes that the sum covers */
};

/* ---- the head ---- */

void state_identify(const struct model *m, struct state_head *h)
{
	*h = (struct state_head){
		.version = STATE_VERSION,
		.arithmetic = KERNELS_ARITHMETIC,
		.exact = m->id.recipe.exact,
		.kv = model_kv_type(&m->id) == (m->id.recipe.exact ? KV_F32 : KV_F16)
			      ? 0
			      : (uint8_t)(1 + model_kv_type(&m->id)),
		.config_sum = m->id.config_sum,
	};
	memcpy(h->magic, STATE_MAGIC, sizeof h->magic);
	(void)snprintf(h->quant, sizeof h->quant, "%s", m->id.recipe.quant);
	(void)snprintf(h->model, sizeof h->model, "%s", m->id.name);
}

bool state_weights(const struct model *m, uint64_t *sum)
{
	*sum = atomic_load(&m->loaded.weights_sum);
	if (atomic_load(&m->state) == MODEL_READY && *sum)
		return true;
	if (!model_hold_store(&m->stored))
		return false;
	*sum = XXH3_64bits(&store_info(m->stored.store)->key, sizeof(struct store_key));
	model_release_store(&m->stored);
	return true;
}

/* ---- taking hold ---- */

static void saved_finish_head(struct saved *v, const struct session *s)
{
	struct state_head *h = &v->head;
	h->texts_bytes = v->texts.n;
	h->context_bytes = context_save_bytes(&v->context);
	h->bytes = sizeof *h + h->texts_bytes + h->context_bytes + sizeof(uint64_t);
	if (v->context.parts.counts.head.positions) {
		h->weights_sum = s->weights_sum;
		h->experts_per_token = s->context_losses.experts_per_token;
		h->drop_missing = s->context_losses.drop_missing;
	}
	h->sum = XXH3_64bits(h, offsetof(struct state_head, sum));
}

int saved_take(struct saved *v, struct session *s, struct err *e)
{
	const struct model *m = s->model;
	if (s->working)
		return err_set(e, EBUSY,
			       "state: the session is still working; read its output to the end, "
			       "or echo stop > ctl");
	state_identify(m, &v->head);
	state_texts_write(s, &v->texts);
	if (v->texts.failed)
		return err_set(e, ENOMEM, "out of memory for saving a session");
	int failed = context_save_open(&v->context, &s->context, &m->id.config, e);
	if (!failed)
		saved_finish_head(v, s);
	return failed;
}

int saved_new(struct saved **out, struct err *e)
{
	struct saved *v = calloc(1, sizeof *v);
	if (v)
		v->sum = XXH3_createState();
	if (v)
		pthread_mutex_init(&v->lock, NULL);
	if (!v || !v->sum) {
		saved_close(v);
		return err_set(e, ENOMEM, "out of memory for saving a session");
	}
	XXH3_64bits_reset(v->sum);
	*out = v;
	return 0;
}

void saved_close(struct saved *s)
{
	if (!s)
		return;
	if (s->head.bytes)
		context_save_close(&s->context);
	text_out_free(&s->texts);
	XXH3_freeState(s->sum);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int saved_give(struct saved *v, struct session *to, struct err *e)
{
	const struct state_head *h = &v->head;
	int failed = state_texts_read(to, v->texts.bytes, v->texts.n, e);
	if (failed)
		return failed;
	context_save_become(&v->context, &to->context);
	to->weights_sum = h->weights_sum;
	to->context_losses.experts_per_token = h->experts_per_token;
	to->context_losses.drop_missing = h->drop_missing;
	return 0;
}

uint64_t saved_bytes_of(const struct session *s)
{
	struct text_out texts = {.counts = true};
	if (s->working)
		return 0;
	state_texts_write(s, &texts);
	return sizeof(struct state_head) + texts.n + context_save_size(&s->context) +
	       sizeof(uint64_t);
}

/* ---- reading ---- */

uint64_t saved_bytes(const struct saved *s)
{
	return s->head.bytes;
}

/* How many bytes of the part at `at` overlap with n bytes at `offset`. */
static size_t saved_overlap(uint64_t at, uint64_t bytes, uint64_t offset, size_t n)
{
	if (offset < at || offset >= at + bytes)
		return 0;
	uint64_t left = at + bytes - offset;
	return left < n ? (size_t)left : n;
}

/* Reads from the bytes before the checksum, at most to the end of a part. */
static size_t saved_read_part(const struct saved *s, uint64_t offset, void *to, size_t n)
{
	const struct state_head *h = &s->head;
	uint64_t texts = sizeof *h, context = texts + h->texts_bytes;
	size_t part = saved_overlap(0, sizeof *h, offset, n);
	if (part) {
		memcpy(to, (const char *)h + offset, part);
	} else if ((part = saved_overlap(texts, h->texts_bytes, offset, n))) {
		memcpy(to, s->texts.bytes + (offset - texts), part);
	} else if ((part = saved_overlap(context, h->context_bytes, offset, n))) {
		context_save_read(&s->context, offset - context, to, part);
	}
	return part;
}

static void saved_sum_up(struct saved *s, uint64_t offset, const void *bytes, size_t n)
{
	if (offset != s->summed)
		return;
	checksum_update(s->sum, bytes, n);
	s->summed += n;
}

/* Completes the checksum. If a reader has read from the beginning, the sum covers everything
 * already. */
static uint64_t saved_sum_of_all(struct saved *s)
{
	char piece[1 << 14];
	size_t n;
	while ((n = saved_read_part(s, s->summed, piece, sizeof piece)))
		saved_sum_up(s, s->summed, piece, n);
	return XXH3_64bits_digest(s->sum);
}

static size_t saved_read_alone(struct saved *s, uint64_t offset, void *buffer, size_t bytes)
{
	uint64_t at = s->head.bytes - sizeof at;
	char *to = buffer;
	size_t done = 0, n;
	while (done < bytes && (n = saved_read_part(s, offset + done, to + done, bytes - done))) {
		saved_sum_up(s, offset + done, to + done, n);
		done += n;
	}
	n = saved_overlap(at, sizeof at, offset + done, bytes - done);
	if (n) {
		uint64_t sum = saved_sum_of_all(s);
		memcpy(to + done, (char *)&sum + (offset + done - at), n);
	}
	return done + n;
}

size_t saved_read(struct saved *s, uint64_t offset, void *buffer, size_t bytes)
{
	pthread_mutex_lock(&s->lock);
	size_t n = saved_read_alone(s, offset, buffer, bytes);
	pthread_mutex_unlock(&s->lock);
	return n;
}
