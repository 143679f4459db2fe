/* The folder cache/: what all mounted models share, budgets and policy, and what came of them. */
#include "fs/base/human.h"
#include "fs/base/text.h"
#include "fs/files/facts.h"
#include "fs/files/files.h"
#include "fs/mount/mount.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void size_render(uint64_t bytes, struct text *out)
{
	char size[32];
	human_print_size(size, sizeof size, bytes);
	text_format(out, "%s\n", size);
}

/* A size, or auto, which is whatever it would be if nothing had been asked for. */
static int size_set(const struct node *n, const char *value, size_t length,
		    int (*set)(struct engine *, uint64_t, struct err *),
		    void (*set_automatic)(struct engine *), struct err *e)
{
	char string[32];
	uint64_t bytes;
	while (length && (value[length - 1] == '\n' || value[length - 1] == ' '))
		length--;
	int shown = (int)(length < sizeof string ? length : sizeof string - 1);
	(void)snprintf(string, sizeof string, "%.*s", shown, value);
	if (length == strlen(string) && !strcmp(string, "auto")) {
		set_automatic(n->mount->engine);
		return 0;
	}
	if (length != strlen(string) || !human_parse_size(string, engine_memory(), &bytes))
		return err_set(e, EINVAL,
			       "cache/%s: '%s' is not a size such as 512M, 1.5G or 50%%, or auto",
			       n->row->name, string);
	return set(n->mount->engine, bytes, e);
}

/* What was asked for, so that it reads back as it was written; if nothing was, what is in force. */
void budget_render(const struct node *n, struct text *out)
{
	struct pager_stats s;
	uint64_t asked = engine_budget_asked(n->mount->engine);
	engine_cache_stats(n->mount->engine, &s);
	size_render(asked ? asked : s.budget, out);
}

int budget_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	return size_set(n, value, length, engine_set_budget, engine_automatic_budget, e);
}

void context_budget_render(const struct node *n, struct text *out)
{
	size_render(engine_context_budget(n->mount->engine), out);
}

int context_budget_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	return size_set(n, value, length, engine_set_context_budget,
			engine_automatic_context_budget, e);
}

void policy_render(const struct node *n, struct text *out)
{
	char words[PAGER_POLICY_TEXT];
	engine_policy(n->mount->engine, words);
	text_format(out, "%s\n", words);
}

int policy_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	char words[PAGER_POLICY_TEXT];
	if (length >= sizeof words || memchr(value, 0, length))
		return err_set(e, EINVAL, "cache/policy: longer than any policy that there is");
	memcpy(words, value, length);
	words[length] = 0;
	return engine_set_policy(n->mount->engine, words, e);
}

void cache_stats_list(const struct node *n, struct facts *f)
{
	struct pager_stats s;
	uint64_t asked = engine_budget_asked(n->mount->engine);
	engine_cache_stats(n->mount->engine, &s);
	fact_number(f, "budget", s.budget);
	if (asked)
		fact_number(f, "budget_asked", asked);
	else
		fact_word(f, "budget_asked", "auto");
	fact_number(f, "used", s.used);
	fact_number(f, "peak", s.peak);
	fact_number(f, "experts_resident", s.experts_resident);
	fact_number(f, "pinned", s.pinned);
	fact_number(f, "hits", s.hits);
	fact_number(f, "misses", s.misses);
	fact_number(f, "evictions", s.evictions);
	fact_number(f, "bytes_read", s.bytes_read);
	fact_number(f, "prefetched", s.prefetched);
	fact_number(f, "prefetch_hits", s.prefetch_hits);
	fact_real(f, "wait_seconds", 3, (double)s.wait_ns / 1e9);
	fact_word(f, "io", s.io);
	fact_number(f, "io_depth", s.depth);
	fact_number(f, "context_budget", engine_context_budget(n->mount->engine));
	fact_number(f, "context_used", engine_context_used(n->mount->engine));
}

void waiting_render(const struct node *n, struct text *out)
{
	struct pager_stats s;
	engine_cache_stats(n->mount->engine, &s);
	double ms = (double)s.wait_ns * 1e-6;
	text_format(out, "waiting %" PRIu32 "\n", s.waiting);
	text_format(out, "wait_seconds %.3f\n", ms * 1e-3);
	text_format(out, "tokens %" PRIu64 "\n", s.tokens);
	text_format(out, "wait_ms_per_token %.3f\n", s.tokens ? ms / (double)s.tokens : 0);
}

void warming_render(const struct node *n, struct text *out)
{
	for (struct mounted *m = NULL; (m = mount_next_model(n->mount, m));) {
		uint32_t done, total;
		model_warming(m->model, &done, &total);
		if (total)
			text_format(out, "%s %" PRIu32 "/%" PRIu32 "\n", model_name(m->model), done,
				    total);
	}
	if (!out->length)
		text_string(out, "idle\n");
}
