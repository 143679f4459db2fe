/* moefs-bench first: from mounting to the first token.
 *
 * One mount in the present state: a checkpoint without a store, with an interrupted conversion, or
 * with a complete store; the report says which. A prompt of random words waits for the weights as
 * a user's would. To see all three: run it twice, then with --complete, then once more; drop the
 * caches before each run, which this program does not do. */
#include "engine/family/config.h"
#include "engine/family/source_text.h"
#include "engine/model.h"
#include "engine/session/params.h"
#include "engine/session.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/bench/bench.h"
#include "tests/bench/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct first {
	struct effort effort;
	const char *directory, *quant, *store;
	uint64_t prompt, budget;
	bool complete;

	struct engine *engine;
	struct model *model;
	struct session *session;
	const char *found;
	struct session_stats stats;
	double share; /* of the source that was converted when the first token was there */
	double ready, first_token, all;
};

static void pause_a_moment(void)
{
	(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* "fresh", "interrupted" or "complete" */
static const char *look(const struct first *f)
{
	char folder[4096], path[4200];
	const struct {
		const char *file, *means;
	} files[] = {{"index", "complete"}, {"journal", "interrupted"}};
	model_fact(f->model, FACT_STORE, folder, sizeof folder);
	for (size_t i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", folder, files[i].file);
		if (!access(path, F_OK))
			return files[i].means;
	}
	return "fresh";
}

static int set_param(struct session *s, const char *name, const char *value, struct err *e)
{
	return session_param_set(s, params_find(name), value, strlen(value), e);
}

static int prepare(struct first *f, struct err *e)
{
	int failed = session_create(&f->session, f->model, NULL, f, e);
	if (!failed)
		failed = set_param(f->session, "chat", "off", e);
	if (!failed)
		failed = set_param(f->session, "max_tokens", "1", e);
	return failed ? failed : set_param(f->session, "temperature", "0", e);
}

/* One turn of one token; begun is when the mount began. */
static int answer(struct first *f, const char *prompt, double begun, struct err *e)
{
	struct answer *a;
	struct model_progress p;
	bool complete = false;
	int failed = session_submit(f->session, prompt, strlen(prompt), &a, e);
	if (failed)
		return failed;
	failed = model_wait(f->model, e);
	f->ready = seconds_now() - begun;
	while (!complete && !failed) {
		(void)answer_size(a, &complete);
		pause_a_moment();
	}
	f->first_token = seconds_now() - begun;
	model_progress(f->model, &p);
	f->share = p.total ? (double)p.done / (double)p.total : 1;
	session_stats(f->session, &f->stats);
	answer_unref(a);
	if (!failed && session_status(f->session) == SESSION_ERROR) {
		session_error(f->session, e->text, sizeof e->text);
		failed = -EIO;
	}
	return failed;
}

static int wait_until_complete(struct first *f, double begun, struct err *e)
{
	struct model_progress p = {.doing = ""};
	do {
		pause_a_moment();
		model_progress(f->model, &p);
	} while (!strcmp(p.doing, "converting"));
	f->all = seconds_now() - begun;
	if (strcmp(p.doing, "idle") != 0) {
		model_error(f->model, e->text, sizeof e->text);
		return -EIO;
	}
	return 0;
}

static int report(const struct first *f, struct err *e)
{
	struct report r;
	report_begin(&r, "first", f->effort.json);
	report_text(&r, "model", "model", model_name(f->model));
	report_text(&r, "found", "found a store", f->found);
	report_number(&r, "threads", "threads", (double)f->effort.threads, 0);
	report_number(&r, "prompt_tokens", "prompt, tokens", (double)f->stats.prompt_tokens, 0);
	report_number(&r, "ready_seconds", "mount to ready, s", f->ready, 2);
	report_number(&r, "first_token_seconds", "mount to first token, s", f->first_token, 2);
	report_number(&r, "converted_percent", "converted by then, %", 100 * f->share, 1);
	report_number(&r, "experts", "experts touched", (double)f->stats.expert_misses, 0);
	if (f->complete)
		report_number(&r, "complete_seconds", "mount to complete, s", f->all, 1);
	return report_end(&r, e);
}

static int first(struct first *f, struct err *e)
{
	const struct engine_options options = {
		.budget = f->budget,
		.threads = (uint32_t)f->effort.threads,
		.quant = f->quant,
		.store = f->store,
	};
	struct tokenizer *t = NULL;
	int failed = source_tokenizer_open(&t, f->directory, e);
	char *prompt = failed ? NULL : text_random_words(t, f->prompt, 1, e);
	tokenizer_close(t);
	if (!prompt)
		return failed ? failed : -e->code;
	double begun = seconds_now();
	failed = engine_create(&f->engine, &options, e);
	if (!failed)
		failed = model_open(&f->model, f->engine, f->directory, e);
	if (!failed) {
		f->found = look(f);
		failed = prepare(f, e);
	}
	if (!failed)
		failed = answer(f, prompt, begun, e);
	if (!failed && f->complete)
		failed = wait_until_complete(f, begun, e);
	if (!failed)
		failed = report(f, e);
	free(prompt);
	if (f->session)
		session_end(f->session);
	model_close(f->model);
	engine_destroy(f->engine);
	return failed;
}

int first_command(int argc, char **argv, struct err *e)
{
	struct first f = {.effort = effort_default(), .prompt = 32};
	const struct bench_option options[] = {
		{"prompt", OPTION_NUMBER, &f.prompt, 1, CONFIG_MAX_POSITIONS, "tokens"},
		{"budget", OPTION_NUMBER, &f.budget, 1, UINT64_MAX - 1,
		 "bytes for experts (half of what is free)"},
		{"quant", OPTION_TEXT, &f.quant, 0, 0, "a recipe, as moefs -o quant= (auto)"},
		{"store", OPTION_TEXT, &f.store, 0, 0, "folder of stores, as moefs -o store="},
		{"complete", OPTION_FLAG, &f.complete, 0, 0,
		 "wait until the store is complete, too"},
		EFFORT_OPTIONS(&f.effort),
	};
	const struct command_line line = {"first MODEL", options, sizeof options / sizeof *options,
					  &f.directory, 1};
	int failed = command_line_parse(&line, argc, argv, e);
	return failed ? failed : first(&f, e);
}
