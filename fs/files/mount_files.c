/* The files of the mount's own folder and of cache/: README, version, pid; MOUNT/ctl; budgets,
 * policy and the state of the cache. error and error.json are in error_files.c. */
#include "fs/base/human.h"
#include "fs/base/text.h"
#include "fs/files/ctl.h"
#include "fs/files/facts.h"
#include "fs/files/files.h"
#include "fs/files/values.h"
#include "fs/models/model_folders.h"
#include "fs/models/models.h"
#include "fs/mount/mount.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void mount_readme_render(const struct node *n, struct text *out)
{
	text_add(out, n->mount->readme.data, n->mount->readme.length);
}

void mount_version_render(const struct node *n, struct text *out)
{
	(void)n;
	text_format(out, "%s\n", MOEFS_VERSION);
}

void mount_pid_render(const struct node *n, struct text *out)
{
	(void)n;
	text_format(out, "%d\n", (int)getpid());
}

void mount_kept_render(const struct node *n, struct text *out)
{
	text_format(out, "%s\n", n->mount->kept.path ? n->mount->kept.path : "off");
}

/* ---- MOUNT/ctl ---- */

struct mount_command {	       /* a parsed write */
	struct handle *handle; /* released after the answer */
	fuse_req_t req;
	const char *words; /* [size] */
	size_t size;
	struct mounted *model; /* the model that it names; NULL: none */
};

static int mount_load(const struct mount_command *a, struct err *e)
{
	(void)e;
	model_load(a->model->model);
	a->handle->node.mount->load_asked = true;
	fuse_reply_write(a->req, a->size);
	return 0;
}

static int mount_unload_take(struct deferred_write *w, struct err *e)
{
	return model_unload(((struct mounted *)w->of)->model, e);
}

/* In a worker, since it waits for the model's threads. */
static int mount_unload(const struct mount_command *a, struct err *e)
{
	const struct deferred_write w = {
		.req = a->req,
		.handle = a->handle,
		.size = a->size,
		.take = mount_unload_take,
		.of = a->model,
	};
	return value_write_deferred(&w, a->words, true, e);
}

static int mount_rescan(const struct mount_command *a, struct err *e)
{
	return model_folders_rescan(a->handle->node.mount, a->req, a->size, e);
}

static const struct mount_verb {
	struct verb verb;
	int (*run)(const struct mount_command *a, struct err *e); /* 0: run answers the write */
	bool of_model;
} mount_verb_rows[] = {
	{{"load", "NAME", "read the model's weights now instead of with its first prompt"},
	 mount_load,
	 true},
	{{"unload", "NAME", "free the model's memory; the next prompt loads the model again"},
	 mount_unload,
	 true},
	{{"rescan", NULL, "look for models that were added to a mounted folder or removed from it"},
	 mount_rescan,
	 false},
};
const struct verbs mount_verbs = VERBS("ctl", mount_verb_rows);

static int mount_run_verb(const struct mount_verb *v, struct mount_command *a, const char *name,
			  size_t length, struct err *e)
{
	if (!v->of_model && length)
		return err_set(e, EINVAL, "ctl: %s takes no name", v->verb.name);
	if (v->of_model && !length && !a->model)
		return err_set(e, EINVAL, "ctl: %s needs the name of a model: `%s NAME`",
			       v->verb.name, v->verb.name);
	if (v->of_model && !a->model)
		a->model = models_named(a->handle->node.mount, name, length);
	if (v->of_model && !a->model)
		return err_set(e, ENOENT, "ctl: there is no model \"%.*s\"; `ls` lists the models",
			       (int)(length < NAME_SIZE ? length : NAME_SIZE), name);
	return v->run(a, e);
}

/* VERB or VERB NAME. Blanks around a name are ignored, unless they are part of it: a model's name
 * may begin or end with blanks and contain newlines. So everything after the verb's blank is tried
 * as a name first, without the newline that a shell appends and then with it. */
static int mount_ctl_write(struct handle *h, fuse_req_t req, const char *data, size_t size,
			   uint64_t offset, struct err *e)
{
	struct mount_command a = {.handle = h, .req = req, .words = data, .size = size};
	(void)offset;
	size_t length = size;
	while (length && strchr(" \n", data[length - 1]) && data[length - 1])
		length--;
	const char *blank = memchr(data, ' ', size);
	size_t verb = blank && blank < data + length ? (size_t)(blank - data) : length;
	size_t name = verb;
	if (blank) {
		const char *exact = blank + 1;
		size_t n = size - (size_t)(exact - data);
		if (n && exact[n - 1] == '\n')
			a.model = models_named(h->node.mount, exact, n - 1);
		if (!a.model)
			a.model = models_named(h->node.mount, exact, n);
	}
	while (name < length && data[name] == ' ')
		name++;
	const struct mount_verb *v = ctl_verb_find(&mount_verbs, data, verb, e);
	return v ? mount_run_verb(v, &a, data + name, name < length ? length - name : 0, e)
		 : -e->code;
}

const struct file_ops mount_ctl_ops = {
	.read = value_read,
	.write_later = mount_ctl_write,
};

/* ---- cache/ ---- */

static void mount_render_size(uint64_t bytes, struct text *out)
{
	char size[32];
	human_print_size(size, sizeof size, bytes);
	text_format(out, "%s\n", size);
}

/* What a budget's file takes: sizes, and the word auto, which restores the default. */
struct mount_size {
	const char *path, *such_as; /* for the sentence of a refusal */
	bool shares;		    /* also percentages of the machine's memory */
	int (*set)(struct engine *g, uint64_t bytes, struct err *e);
	void (*set_automatic)(struct engine *g);
};

static int mount_set_size(const struct node *n, const struct mount_size *s, const char *value,
			  size_t length, struct err *e)
{
	char string[32];
	uint64_t bytes;
	while (length && (value[length - 1] == '\n' || value[length - 1] == ' '))
		length--;
	int shown = (int)(length < sizeof string ? length : sizeof string - 1);
	(void)snprintf(string, sizeof string, "%.*s", shown, value);
	if (length == strlen(string) && !strcmp(string, "auto")) {
		s->set_automatic(n->mount->engine);
		return 0;
	}
	if (length != strlen(string) ||
	    !human_parse_size(string, s->shares ? engine_memory() : 0, &bytes))
		return err_set(e, EINVAL,
			       "%s: \"%s\" is not a size; write a size such as %s, or auto",
			       s->path, string, s->such_as);
	return s->set(n->mount->engine, bytes, e);
}

/* The size as set, so that it reads back as written; otherwise the present size. */
void mount_budget_render(const struct node *n, struct text *out)
{
	struct pager_stats s;
	uint64_t asked = engine_budget_asked(n->mount->engine);
	engine_cache_stats(n->mount->engine, &s);
	mount_render_size(asked ? asked : s.budget, out);
}

int mount_budget_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	static const struct mount_size budget = {"cache/budget", "512M, 1.5G or 50%", true,
						 engine_set_budget, engine_automatic_budget};
	return mount_set_size(n, &budget, value, length, e);
}

void mount_context_budget_render(const struct node *n, struct text *out)
{
	mount_render_size(engine_context_budget(n->mount->engine), out);
}

int mount_context_budget_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	static const struct mount_size budget = {"cache/context_budget", "512M, 1.5G or 50%", true,
						 engine_set_context_budget,
						 engine_automatic_context_budget};
	return mount_set_size(n, &budget, value, length, e);
}

/* As above; auto while no card was opened, since only the card knows what is free. */
void mount_gpu_budget_render(const struct node *n, struct text *out)
{
	struct engine_gpu_stats s;
	engine_gpu_stats(n->mount->engine, &s);
	if (s.budget_asked || s.memory)
		mount_render_size(s.budget_asked ? s.budget_asked : s.budget, out);
	else
		text_string(out, "auto\n");
}

int mount_gpu_budget_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	static const struct mount_size budget = {"cache/gpu/budget", "20G", false,
						 engine_set_gpu_budget,
						 engine_automatic_gpu_budget};
	return mount_set_size(n, &budget, value, length, e);
}

void mount_policy_render(const struct node *n, struct text *out)
{
	char words[PAGER_POLICY_TEXT];
	engine_policy(n->mount->engine, words);
	text_format(out, "%s\n", words);
}

int mount_policy_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	char words[PAGER_POLICY_TEXT];
	if (length >= sizeof words || memchr(value, 0, length))
		return err_set(
			e, EINVAL,
			"cache/policy: this is not a policy; write scales, lrfu, lfu or lru");
	memcpy(words, value, length);
	words[length] = 0;
	return engine_set_policy(n->mount->engine, words, e);
}

static void mount_list_budget(struct facts *f, uint64_t in_force, uint64_t asked)
{
	fact_number(f, "budget", in_force);
	if (asked)
		fact_number(f, "budget_asked", asked);
	else
		fact_word(f, "budget_asked", "auto");
}

static void mount_list_totals(const struct node *n, struct facts *f)
{
	struct engine_totals t;
	uint32_t sessions = 0, working = 0;
	for (struct mounted *m = NULL; (m = mount_next_model(n->mount, m));)
		model_count_sessions(m->model, &sessions, &working);
	engine_totals(n->mount->engine, &t);
	fact_number(f, "sessions", sessions);
	fact_number(f, "working", working);
	fact_number(f, "turns", t.turns);
	fact_number(f, "turns_remembered", t.remembered);
	fact_number(f, "prompt_tokens", t.prompt_tokens);
	fact_number(f, "cached_tokens", t.cached_tokens);
	fact_number(f, "output_tokens", t.output_tokens);
}

static void mount_list_remembered(const struct node *n, struct facts *f)
{
	struct engine_remember r;
	engine_remember(n->mount->engine, &r);
	fact_number(f, "remember", r.most);
	fact_number(f, "remember_used", r.used);
	if (r.failure.code)
		fact_word(f, "remember_failed", r.failure.text);
}

/* How often forecasts of a layer came true, by rank, up to the last rank with forecasts. */
static void mount_list_ahead(struct facts *f, const struct pager_ahead ahead[AHEAD_RANKS],
			     uint32_t distance)
{
	uint64_t forecast[AHEAD_RANKS], used[AHEAD_RANKS], read[AHEAD_RANKS];
	const struct {
		const char *word;
		const uint64_t *counts;
	} lists[] = {{"forecast", forecast}, {"used", used}, {"read", read}};
	size_t ranks = 0;
	for (uint32_t r = 0; r < AHEAD_RANKS; r++) {
		forecast[r] = ahead[r].forecast;
		used[r] = ahead[r].came_true;
		read[r] = ahead[r].read;
		ranks = forecast[r] ? r + 1 : ranks;
	}
	for (size_t i = 0; i < sizeof lists / sizeof *lists && ranks; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "ahead_%" PRIu32 "_%s", distance + 1, lists[i].word);
		fact_numbers(f, name, lists[i].counts, ranks);
	}
}

void mount_cache_stats_list(const struct node *n, struct facts *f)
{
	struct pager_stats s;
	struct pager_ahead ahead[AHEAD_LAYERS][AHEAD_RANKS];
	engine_cache_stats(n->mount->engine, &s);
	mount_list_budget(f, s.budget, engine_budget_asked(n->mount->engine));
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
	engine_ahead_stats(n->mount->engine, ahead);
	for (uint32_t d = 0; d < AHEAD_LAYERS; d++)
		mount_list_ahead(f, ahead[d], d);
	fact_real(f, "wait_seconds", 3, (double)s.wait_ns / 1e9);
	fact_word(f, "io", s.io);
	fact_number(f, "io_depth", s.depth);
	fact_number(f, "context_budget", engine_context_budget(n->mount->engine));
	fact_number(f, "context_used", engine_context_used(n->mount->engine));
	fact_number(f, "offload", engine_offload(n->mount->engine));
	fact_number(f, "offload_used", engine_offload_used(n->mount->engine));
	mount_list_remembered(n, f);
	mount_list_totals(n, f);
}

void mount_gpu_stats_list(const struct node *n, struct facts *f)
{
	struct engine_gpu_stats s;
	char none[sizeof s.why.text + sizeof "none: "];
	engine_gpu_stats(n->mount->engine, &s);
	if (!s.memory) {
		(void)snprintf(none, sizeof none, "none: %s",
			       s.why.code ? s.why.text : "not opened before a model is loaded");
		fact_word(f, "gpu", none);
		return;
	}
	fact_word(f, "gpu", s.name);
	fact_number(f, "memory", s.memory);
	mount_list_budget(f, s.budget, s.budget_asked);
	fact_number(f, "used_dense", s.dense);
	fact_number(f, "used_contexts", s.contexts);
	fact_number(f, "used_experts", s.expert_bytes);
	fact_number(f, "experts", s.experts);
	fact_number(f, "hits", s.hits);
	fact_number(f, "promotions", s.promotions);
	if (s.why.code)
		fact_word(f, "failed", s.why.text);
}

/* The waiting turns of a model. */
struct mount_queue {
	const struct node *node; /* the file being read; its viewer */
	const struct mounted *model;
	struct text *out; /* a line for each turn that the viewer may see */
	uint32_t count;	  /* number of all turns */
};

/* As in the trace: the user who mounted sees all sessions, other users their own. */
static void mount_waiting_add(void *ctx, const struct session_waiting *w)
{
	struct mount_queue *q = ctx;
	const struct node *n = q->node;
	q->count++;
	if (n->viewer != n->mount->uid && n->viewer != w->owner)
		return;
	text_line(q->out, q->model->name);
	text_format(q->out, " %s %s %.3f %s\n", w->session, session_priority_words[w->priority],
		    w->seconds, session_wait_words[w->waits]);
}

static void mount_queue_render(const struct node *n, struct text *out)
{
	struct text lines = {0};
	struct mount_queue q = {.node = n, .out = &lines};
	for (struct mounted *m = NULL; (m = mount_next_model(n->mount, m));) {
		q.model = m;
		session_each_waiting(m->model, mount_waiting_add, &q);
	}
	text_format(out, "queued %" PRIu32 "\n", q.count);
	text_add(out, lines.data, lines.length);
	out->failed |= lines.failed;
	text_free(&lines);
}

void mount_waiting_render(const struct node *n, struct text *out)
{
	struct pager_stats s;
	engine_cache_stats(n->mount->engine, &s);
	double ms = (double)s.wait_ns * 1e-6;
	text_format(out, "waiting %" PRIu32 "\n", s.waiting);
	text_format(out, "wait_seconds %.3f\n", ms * 1e-3);
	text_format(out, "tokens %" PRIu64 "\n", s.tokens);
	text_format(out, "wait_ms_per_token %.3f\n", s.tokens ? ms / (double)s.tokens : 0);
	mount_queue_render(n, out);
}

void mount_warming_render(const struct node *n, struct text *out)
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
