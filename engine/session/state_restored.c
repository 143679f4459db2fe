/* Restores a session from the bytes of its state. */
#include "engine/model/model_state.h"
#include "engine/session/state.h"

#include "cache/checksum.h"
#include "engine/compute/context_save.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct restored {
	pthread_mutex_t lock; /* of all fields except the model */
	struct model *model;
	struct state_head head;
	uint64_t done; /* bytes received so far */
	char *texts;   /* [texts_bytes], taken from the context budget */
	struct context_load context;
	XXH3_state_t *sum;
	uint64_t last; /* the checksum at the end */
	/* Filled from the texts once all bytes are received; no other thread knows it. */
	struct session *session;
	bool complete;
	bool spent; /* it was swapped with a session */
	struct err failed;
};

static int restored_wrap(struct err *e, int failed)
{
	struct err why = *e;
	return failed ? err_because(e, &why, -failed, "state: %s; the session is unchanged",
				    why.text)
		      : 0;
}

int restored_begin(struct model *m, struct restored **out, struct err *e)
{
	struct restored *r = calloc(1, sizeof *r);
	if (r) {
		r->model = m;
		pthread_mutex_init(&r->lock, NULL);
		r->sum = XXH3_createState();
	}
	if (!r || !r->sum) {
		restored_close(r);
		return err_set(e, ENOMEM, "out of memory for restoring a session");
	}
	XXH3_64bits_reset(r->sum);
	*out = r;
	return 0;
}

static size_t restored_texts_mapped(const struct restored *r)
{
	return context_pages(r->head.texts_bytes);
}

void restored_close(struct restored *r)
{
	if (!r)
		return;
	if (r->session) {
		state_texts_free(r->session);
		context_free(&r->session->context);
		drafter_free(&r->session->drafter);
		free(r->session);
	}
	if (r->context.config)
		context_load_free(&r->context);
	context_give(&r->model->engine->context_budget, r->texts, restored_texts_mapped(r));
	XXH3_freeState(r->sum);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* ---- the head ---- */

static int restored_check_magic(const struct restored *r, struct err *e)
{
	size_t n = r->done < sizeof r->head.magic ? r->done : sizeof r->head.magic;
	if (memcmp(r->head.magic, STATE_MAGIC, n) != 0)
		return err_set(e, EINVAL, "this was not copied from a session's state file");
	return 0;
}

/* Whether this program computes the same numbers. If not, the context is ignored. */
static bool restored_same_arithmetic(const struct restored *r)
{
	struct state_head here;
	state_identify(r->model, &here);
	return r->head.arithmetic == here.arithmetic && r->head.kv == here.kv;
}

/* A name in the head, as text for messages. */
static const char *restored_head_name(const char *name, size_t size, char out[100])
{
	(void)snprintf(out, 100, "%.*s", (int)strnlen(name, size), name);
	return out;
}

static int restored_check_model(const struct restored *r, const struct state_head *want,
				struct err *e)
{
	const struct state_head *h = &r->head;
	char theirs[100];
	if (h->config_sum != want->config_sum)
		return err_set(
			e, EINVAL,
			"it was saved by the model %s, but this is %s; copy messages.json instead",
			restored_head_name(h->model, sizeof h->model, theirs), want->model);
	if (memcmp(h->quant, want->quant, sizeof h->quant) != 0 || h->exact != want->exact)
		return err_set(e, EINVAL,
			       "it was saved with the recipe %s, but this mount uses %s%s; mount "
			       "with the same -o quant=, or copy messages.json",
			       restored_head_name(h->quant, sizeof h->quant, theirs),
			       want->exact ? "exact, " : "", want->quant);
	return 0;
}

/* -EINVAL: the context has other weights. If the weights are not known yet, the first turn checks
 * them (turn_reuse_own) and computes the context again if they differ. */
static int restored_check_weights(const struct restored *r, struct err *e)
{
	uint64_t here;
	bool known = state_weights(r->model, &here);
	if (!known || !r->head.weights_sum || r->head.weights_sum == here)
		return 0;
	return err_set(e, EINVAL,
		       "it was saved with other weights: the store was refined since, or the "
		       "checkpoint changed or is another copy; copy messages.json instead");
}

static int restored_check_sizes(const struct restored *r, struct err *e)
{
	const struct state_head *h = &r->head;
	uint64_t rest = sizeof *h + sizeof(uint64_t);
	if (h->sum != XXH3_64bits(h, offsetof(struct state_head, sum)) || h->bytes < rest ||
	    h->texts_bytes > h->bytes - rest ||
	    h->context_bytes != h->bytes - rest - h->texts_bytes ||
	    h->context_bytes < sizeof(struct context_head))
		return err_set(e, EINVAL, "its header is damaged");
	if (h->texts_bytes > STATE_TEXTS_MOST)
		return err_set(e, EFBIG, "its texts take %" PRIu64 " bytes; at most %d are taken",
			       h->texts_bytes, STATE_TEXTS_MOST);
	return 0;
}

static int restored_take_head(struct restored *r, struct err *e)
{
	struct model *m = r->model;
	struct state_head want;
	state_identify(m, &want);
	if (!r->head.version || r->head.version > STATE_VERSION)
		return err_set(e, EINVAL,
			       "its format has version %" PRIu32
			       ", but this moefs reads versions 1 to %d",
			       r->head.version, STATE_VERSION);
	int failed = restored_check_sizes(r, e);
	if (!failed)
		failed = restored_check_model(r, &want, e);
	if (!failed)
		failed = restored_check_weights(r, e);
	r->session = failed ? NULL : session_alone(m, e);
	if (failed || !r->session)
		return failed ? failed : -e->code;
	struct session *s = r->session;
	context_load_begin(&r->context, &s->context, &m->id.config, m->id.context,
			   r->head.context_bytes);
	if (r->head.texts_bytes)
		r->texts = context_take(&m->engine->context_budget, restored_texts_mapped(r), e);
	return r->texts || !r->head.texts_bytes ? 0 : -e->code;
}

/* ---- what comes ---- */

static int restored_finish(struct restored *r, struct err *e)
{
	struct session *s = r->session;
	if (r->last != XXH3_64bits_digest(r->sum))
		return err_set(e, EINVAL, "it is damaged: its checksum does not match");
	if (restored_same_arithmetic(r) && !context_load_done(&r->context))
		return err_set(e, EINVAL, "it is damaged: its counts contradict each other");
	int failed = state_texts_read(s, r->texts, r->head.texts_bytes, e);
	if (failed)
		return failed;
	if (restored_same_arithmetic(r)) {
		context_load_end(&r->context);
		context_move(&s->context, &r->context.x);
		s->weights_sum = r->head.weights_sum;
		s->context_losses.experts_per_token = r->head.experts_per_token;
		s->context_losses.drop_missing = r->head.drop_missing;
	}
	r->complete = true;
	return 0;
}

/* Takes the next bytes into the part of the file that they belong to. Returns how many it took. */
static int restored_take(struct restored *r, const char *bytes, size_t *n, struct err *e)
{
	const struct state_head *h = &r->head;
	uint64_t texts = sizeof *h, context = texts + h->texts_bytes, at = r->done;
	uint64_t end = at < texts ? texts : at < context ? context : h->bytes - sizeof r->last;
	if (at >= texts && at >= h->bytes - sizeof r->last)
		end = h->bytes;
	*n = end - at < *n ? (size_t)(end - at) : *n;
	bool last = at >= texts && end == h->bytes;
	if (!last)
		checksum_update(r->sum, bytes, *n);
	r->done += *n;
	if (at < texts) {
		memcpy((char *)&r->head + at, bytes, *n);
		int failed = restored_check_magic(r, e);
		return failed || r->done < texts ? failed : restored_take_head(r, e);
	}
	if (at < context) {
		memcpy(r->texts + (at - texts), bytes, *n);
		return 0;
	}
	if (!last)
		return restored_same_arithmetic(r) ? context_load_feed(&r->context, bytes, *n, e)
						   : 0;
	memcpy((char *)&r->last + (at - (end - sizeof r->last)), bytes, *n);
	return r->done == end ? restored_finish(r, e) : 0;
}

static int restored_feed_parts(struct restored *r, const char *bytes, size_t n, struct err *e)
{
	int failed = 0;
	for (size_t part; n && !failed; bytes += part, n -= part) {
		part = n;
		if (r->complete)
			return err_set(e, EINVAL, "it is longer than its header says");
		failed = restored_take(r, bytes, &part, e);
	}
	return failed;
}

/* Fills a hole of a sparse copy with zeros, at most up to the size in the head. */
static int restored_skip(struct restored *r, uint64_t to, struct err *e)
{
	static const char zeros[1 << 12];
	int failed = 0;
	if (to < r->done || r->done < sizeof r->head || to > r->head.bytes)
		return err_set(e, EINVAL, "it must be written from beginning to end, as cp does");
	while (r->done < to && !failed) {
		uint64_t left = to - r->done;
		failed = restored_feed_parts(r, zeros,
					     left < sizeof zeros ? (size_t)left : sizeof zeros, e);
	}
	return failed;
}

static int restored_feed_at(struct restored *r, uint64_t offset, const void *bytes, size_t n,
			    struct err *e)
{
	int failed = 0;
	if (r->failed.code) {
		*e = r->failed;
		return -e->code;
	}
	if (offset != r->done)
		failed = restored_skip(r, offset, e);
	if (!failed)
		failed = restored_feed_parts(r, bytes, n, e);
	if (!failed)
		return 0;
	failed = restored_wrap(e, failed);
	r->failed = *e;
	return failed;
}

int restored_feed(struct restored *r, uint64_t offset, const void *bytes, size_t n, struct err *e)
{
	pthread_mutex_lock(&r->lock);
	int failed = restored_feed_at(r, offset, bytes, n, e);
	pthread_mutex_unlock(&r->lock);
	return failed;
}

int restored_from_saved(struct restored *r, struct saved *v, struct err *e)
{
	pthread_mutex_lock(&r->lock);
	r->session = session_alone(r->model, e);
	int failed = r->session ? saved_give(v, r->session, e) : -e->code;
	r->complete = !failed;
	if (failed)
		r->failed = *e;
	pthread_mutex_unlock(&r->lock);
	return failed;
}

/* ---- becoming a session ---- */

static int restored_refuse_part(const struct restored *r, struct err *e)
{
	if (r->done < sizeof r->head)
		return err_set(e, EINVAL, "it ends after %" PRIu64 " bytes, inside its header",
			       r->done);
	return err_set(e, EINVAL, "it ends after %" PRIu64 " of %" PRIu64 " bytes", r->done,
		       r->head.bytes);
}

static void restored_become(struct session *s, struct session *saved)
{
	struct context old;
	context_init(&old, s->context.budget, &s->model->id.config, s->context.type);
	context_move(&old, &s->context);
	context_move(&s->context, &saved->context);
	context_move(&saved->context, &old);
	offload_drop(s->offloaded);
	s->offloaded = NULL;
	state_texts_swap(s, saved);
	/* A file must not decide who shares with the session. */
	memcpy(s->params.share_with, saved->params.share_with, sizeof s->params.share_with);
	s->weights_sum = saved->weights_sum;
	s->context_losses = saved->context_losses;
	s->context_private = true; /* the file is not trusted */
	atomic_store(&s->prefix, 0);
	drafter_drop(&s->drafter);
	s->stats = (struct session_stats){.context_tokens = s->context.tokens.count, .finish = ""};
	s->error = (struct err){0};
}

static int restored_check_whole(const struct restored *r, struct err *e)
{
	if (r->failed.code) {
		*e = r->failed;
		return -e->code;
	}
	if (!r->complete)
		return restored_wrap(e, restored_refuse_part(r, e));
	return 0;
}

int restored_hold(struct restored *r, struct err *e)
{
	pthread_mutex_lock(&r->lock);
	return restored_check_whole(r, e);
}

void restored_release(struct restored *r)
{
	pthread_mutex_unlock(&r->lock);
}

int restored_give(struct restored *r, struct session *s, struct err *e)
{
	if (r->spent)
		return 0;
	if (s->working)
		return err_set(e, EBUSY,
			       "state: the session is still working; echo stop > ctl first");
	restored_become(s, r->session);
	r->spent = true;
	return 0;
}
