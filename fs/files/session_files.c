/* A session's status and stats, and the names of the sessions. */
#include "fs/files/facts.h"
#include "fs/files/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static uint64_t session_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	const struct conversation *c = conversations_after(folder->model, (uint32_t)after);
	if (!c)
		return 0;
	memcpy(name, c->name, NAME_SIZE);
	return c->id;
}

static uint64_t session_find(const struct node *folder, const char *name)
{
	const struct conversation *c = conversations_by_name(folder->model, name);
	return c ? c->id : 0;
}

static void session_bind(struct node *child, uint64_t member)
{
	child->conversation = conversations_by_id(child->model, (uint32_t)member);
}

const struct row_family session_family = {session_next, session_find, session_bind};

/* ---- status and stats ---- */

void session_status_render(const struct node *n, struct text *out)
{
	text_string(out, session_status_word(session_status(n->conversation->session)));
	text_string(out, "\n");
}

static double session_per_second(uint64_t count, double seconds)
{
	return seconds > 0 ? (double)count / seconds : 0;
}

void session_stats_list(const struct node *n, struct facts *f)
{
	static const char *const kinds[] = {
		[DRAFT_MTP] = "draft_mtp", [DRAFT_LOOKUP] = "draft_lookup"};
	struct session_stats s;
	session_stats(n->conversation->session, &s);
	uint64_t prefilled =
		s.prompt_tokens > s.cached_tokens ? s.prompt_tokens - s.cached_tokens : 0;
	fact_number(f, "prompt_tokens", s.prompt_tokens);
	fact_number(f, "cached_tokens", s.cached_tokens);
	fact_number(f, "recomputed_tokens", s.recomputed_tokens);
	fact_number(f, "output_tokens", s.output_tokens);
	if (s.remembered)
		fact_word(f, "remembered", "yes");
	fact_number(f, "context_tokens", s.context_tokens);
	fact_number(f, "from_disk_tokens", s.from_disk_tokens);
	fact_number(f, "on_disk_tokens", s.on_disk_tokens);
	fact_real(f, "prefill_tokens_per_second", 1,
		  session_per_second(prefilled, s.prefill_seconds));
	fact_real(f, "decode_tokens_per_second", 1,
		  session_per_second(s.output_tokens, s.decode_seconds));
	fact_real(f, "first_token_seconds", 3, s.first_token_seconds);
	fact_word(f, "priority", session_priority_words[s.priority]);
	fact_real(f, "queued_seconds", 3, s.queued_seconds);
	fact_word(f, "waits_for", session_wait_words[s.waits]);
	fact_number(f, "expert_hits", s.expert_hits);
	fact_number(f, "expert_misses", s.expert_misses);
	fact_number(f, "bytes_read", s.bytes_read);
	if (s.ngram_rows) { /* only for a model with such tables */
		fact_number(f, "ngram_rows", s.ngram_rows);
		fact_number(f, "ngram_waits", s.ngram_waits);
	}
	for (unsigned i = 0; i < SESSION_DRAFTS && s.drafted[i]; i++) {
		char name[24];
		(void)snprintf(name, sizeof name, "draft_%u", i + 1);
		fact_share(f, name, s.draft_stood[i], s.drafted[i]);
	}
	for (unsigned k = 0; k < DRAFT_KINDS; k++)
		if (s.drafted_by[k])
			fact_share(f, kinds[k], s.draft_stood_by[k], s.drafted_by[k]);
	fact_number(f, "experts_dropped", s.experts_dropped);
	fact_number(f, "experts_substituted", s.experts_substituted);
	fact_real(f, "wait_seconds", 3, s.wait_seconds);
	fact_real(f, "wait_ms_per_token", 3,
		  s.output_tokens ? 1e3 * s.decode_wait_seconds / (double)s.output_tokens : 0);
	/* As a word: many JSON readers convert numbers to doubles, which would round the seed. */
	char seed[24];
	(void)snprintf(seed, sizeof seed, "%" PRIu64, s.seed);
	fact_word(f, "seed", seed);
	fact_word(f, "finish", s.finish && *s.finish ? s.finish : "-");
	if (s.stop)
		fact_number(f, "stop_text", s.stop);
	if (s.dropped_turns)
		fact_number(f, "dropped_turns", s.dropped_turns);
	if (*s.ignored)
		fact_word(f, "ignored", s.ignored);
	if (*s.lossy)
		fact_word(f, "lossy", s.lossy);
}
