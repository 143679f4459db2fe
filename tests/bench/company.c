/* moefs-bench company: what sessions of one model take from each other.
 *
 * Equal answers: sessions that are asked at once, with prompts of the same length. The slowest
 * one's speed is given as a share of the mean, which is what each would have if all were served
 * alike. A model of random weights may draw an end at any time, so ends are forbidden.
 *
 * A prompt beside an answer: while one session answers, another one is given a long prompt. The
 * pauses are those between tokens of the answer, from the prompt's submission to its first token. A
 * reader polls a counter, so a pause is known to a fifth of a millisecond. */
#include "engine/family/config.h"
#include "engine/family/source_text.h"
#include "engine/model.h"
#include "engine/model/model_state.h"
#include "engine/session.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/bench/bench.h"
#include "tests/bench/divergence.h"
#include "tests/bench/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EQUAL_MOST = 64, EQUAL_PROMPT = 32, PAUSES_MOST = 1 << 16, BEGUN_TOKENS = 8 };

/* Of one round. */
struct company_figure {
	double slowest;			    /* share of the mean speed */
	double equal_rate;		    /* tokens/s of all equal answers */
	double prompt_alone, prompt_beside; /* tokens/s */
	double answer_alone, answer_beside; /* tokens/s */
	double pause, longest;		    /* milliseconds: the median; the longest */
};

struct company {
	struct effort effort;
	const char *directory, *quant, *store;
	uint64_t budget, answers, tokens, prompt, step_ms;

	struct engine *engine;
	struct model *model;
	struct tokenizer *tokenizer;
	char *no_ends; /* a logit_bias that forbids all tokens that end an answer */
	uint64_t random;
	double pauses[PAUSES_MOST];
	size_t pause_count;
	struct company_figure figure[ROUNDS_MOST];
};

/* ---- sessions ---- */

static void company_moment(void)
{
	(void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static int company_set(struct session *s, const char *name, const char *value, struct err *e)
{
	return session_param_set(s, params_find(name), value, strlen(value), e);
}

/* Asks a new session with a prompt of `prompt` random words for `tokens` tokens. No other session
 * has what it computes. */
static int company_ask(struct company *c, struct session **out, uint64_t prompt, uint64_t tokens,
		       struct err *e)
{
	char most[24], alone[24];
	(void)snprintf(most, sizeof most, "%llu", (unsigned long long)tokens);
	(void)snprintf(alone, sizeof alone, "r%llx", (unsigned long long)random_u64(&c->random));
	const struct {
		const char *name, *value;
	} params[] = {{"chat", "off"},	     {"temperature", "1"},	 {"draft", "off"},
		      {"share_with", alone}, {"stop_repetition", "off"}, {"max_tokens", most},
		      {"logit_bias", c->no_ends}};
	char *text = text_random_words(c->tokenizer, prompt, random_u64(&c->random), e);
	int failed = text ? session_create(out, c->model, NULL, c, e) : -e->code;
	for (size_t i = 0; i < sizeof params / sizeof *params && !failed; i++)
		failed = company_set(*out, params[i].name, params[i].value, e);
	if (!failed)
		failed = session_submit(*out, text, strlen(text), NULL, e);
	free(text);
	return failed;
}

static uint64_t company_output(const struct session *s)
{
	struct session_stats stats;
	session_stats(s, &stats);
	return stats.output_tokens;
}

/* Waits until a session has that many tokens, or none will come. *seconds: when it had the last. */
static int company_await(const struct session *s, uint64_t tokens, double *seconds, struct err *e)
{
	while (session_working(s) && company_output(s) < tokens)
		company_moment();
	*seconds = seconds_now();
	if (session_status(s) == SESSION_ERROR) {
		session_failure(s, e);
		return -e->code;
	}
	return 0;
}

/* ---- equal answers ---- */

static void company_compare(struct company *c, const double *rates, struct company_figure *to)
{
	double sum = 0, slowest = rates[0];
	for (uint64_t i = 0; i < c->answers; i++) {
		sum += rates[i];
		slowest = rates[i] < slowest ? rates[i] : slowest;
	}
	to->slowest = slowest * (double)c->answers / sum;
	to->equal_rate = sum;
}

/* Speeds from the moment at which all are asked to each one's last token. */
static int company_equal(struct company *c, struct company_figure *to, struct err *e)
{
	struct session *s[EQUAL_MOST] = {0};
	double rates[EQUAL_MOST] = {0}, begun = seconds_now();
	uint64_t left = c->answers;
	int failed = 0;
	for (uint64_t i = 0; i < c->answers && !failed; i++)
		failed = company_ask(c, &s[i], EQUAL_PROMPT, c->tokens, e);
	while (left && !failed) {
		company_moment();
		for (uint64_t i = 0; i < c->answers && !failed; i++) {
			double now;
			if (rates[i] > 0 || session_working(s[i]))
				continue;
			failed = company_await(s[i], 0, &now, e);
			rates[i] = (double)company_output(s[i]) / (now - begun);
			left--;
		}
	}
	for (uint64_t i = 0; i < c->answers; i++)
		if (s[i])
			session_end(s[i]);
	if (!failed)
		company_compare(c, rates, to);
	return failed;
}

/* ---- a prompt beside an answer ---- */

static int company_prompt_alone(struct company *c, struct company_figure *to, struct err *e)
{
	struct session *s = NULL;
	double begun = seconds_now(), ended;
	int failed = company_ask(c, &s, c->prompt, 1, e);
	if (!failed)
		failed = company_await(s, 1, &ended, e);
	if (!failed)
		to->prompt_alone = (double)c->prompt / (ended - begun);
	if (s)
		session_end(s);
	return failed;
}

/* Notes each pause of the answer until the prompt's session has its token. */
static void company_watch(struct company *c, const struct session *answer,
			  const struct session *prompt)
{
	double last = seconds_now();
	uint64_t seen = company_output(answer);
	c->pause_count = 0;
	while (session_working(prompt) && session_working(answer)) {
		company_moment();
		uint64_t now = company_output(answer);
		double at = seconds_now();
		if (now == seen)
			continue;
		if (c->pause_count < PAUSES_MOST)
			c->pauses[c->pause_count++] = 1e3 * (at - last);
		seen = now;
		last = at;
	}
}

static int company_compare_pauses(const void *a, const void *b)
{
	double x, y;
	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

static int company_pause(struct company *c, struct company_figure *to, struct err *e)
{
	struct session *answer = NULL, *prompt = NULL;
	double first, begun, ended;
	uint64_t had = 0;
	int failed = company_ask(c, &answer, EQUAL_PROMPT, 0, e);
	if (!failed)
		failed = company_await(answer, BEGUN_TOKENS, &first, e);
	if (!failed)
		failed = company_await(answer, 4 * BEGUN_TOKENS, &begun, e);
	if (!failed) {
		to->answer_alone = 3 * BEGUN_TOKENS / (begun - first);
		had = company_output(answer);
		begun = seconds_now();
		failed = company_ask(c, &prompt, c->prompt, 1, e);
	}
	if (!failed) {
		company_watch(c, answer, prompt);
		failed = company_await(prompt, 1, &ended, e);
	}
	if (!failed && !session_working(answer))
		failed = err_set(e, EIO, "the answer ended before the prompt was computed");
	if (!failed) {
		to->prompt_beside = (double)c->prompt / (ended - begun);
		to->answer_beside = (double)(company_output(answer) - had) / (ended - begun);
		qsort(c->pauses, c->pause_count, sizeof *c->pauses, company_compare_pauses);
		to->pause = c->pauses[c->pause_count / 2];
		to->longest = c->pause_count ? c->pauses[c->pause_count - 1] : 0;
	}
	if (answer)
		session_end(answer);
	if (prompt)
		session_end(prompt);
	return failed;
}

/* ---- the report ---- */

static void company_row(struct table *t, const struct company *c, const char *what, size_t member)
{
	double values[ROUNDS_MOST];
	for (uint64_t i = 0; i < c->effort.rounds; i++)
		memcpy(&values[i], (const char *)&c->figure[i] + member, sizeof *values);
	const struct summary s = summarise(values, c->effort.rounds);
	table_text(t, what);
	table_summary(t, &s);
}

static int company_report(struct company *c, struct err *e)
{
	static const struct column columns[] = {{"what", "what", -1}, {"value", "value", 2}};
	static const struct {
		const char *what;
		size_t member;
	} rows[] = {
		{"slowest of the equal answers, share of the mean speed",
		 offsetof(struct company_figure, slowest)},
		{"equal answers, tokens/s of all", offsetof(struct company_figure, equal_rate)},
		{"prompt alone, tokens/s", offsetof(struct company_figure, prompt_alone)},
		{"prompt beside the answer, tokens/s",
		 offsetof(struct company_figure, prompt_beside)},
		{"answer alone, tokens/s", offsetof(struct company_figure, answer_alone)},
		{"answer beside the prompt, tokens/s",
		 offsetof(struct company_figure, answer_beside)},
		{"pause between its tokens then, median, ms",
		 offsetof(struct company_figure, pause)},
		{"longest pause, ms", offsetof(struct company_figure, longest)},
	};
	struct report r;
	struct table t;
	report_begin(&r, "company", c->effort.json);
	report_text(&r, "model", "model", model_name(c->model));
	report_number(&r, "threads", "threads", (double)c->effort.threads, 0);
	report_number(&r, "answers", "equal answers", (double)c->answers, 0);
	report_number(&r, "tokens", "tokens of each", (double)c->tokens, 0);
	report_number(&r, "prompt", "prompt, tokens", (double)c->prompt, 0);
	table_begin(&t, &r, "figures", "medians (least-most)", columns, 2);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		company_row(&t, c, rows[i].what, rows[i].member);
	table_end(&t);
	return report_end(&r, e);
}

/* ---- all of it ---- */

static int company_forbid_ends(struct company *c, struct err *e)
{
	size_t length;
	FILE *to = open_memstream(&c->no_ends, &length);
	for (uint32_t id = 0; to && id < tokenizer_size(c->tokenizer); id++)
		if (model_ends(c->model, false, id))
			(void)fprintf(to, "%" PRIu32 " -100\n", id);
	bool failed = !to || ferror(to);
	failed |= to && fclose(to) != 0;
	return failed ? err_set(e, ENOMEM, "out of memory for the tokens that end an answer") : 0;
}

static int company_open(struct company *c, struct err *e)
{
	const struct engine_options options = {
		.budget = c->budget,
		.threads = (uint32_t)c->effort.threads,
		.step_ms = (uint32_t)c->step_ms,
		.quant = c->quant,
		.store = c->store,
	};
	int failed = source_tokenizer_open(&c->tokenizer, c->directory, e);
	if (!failed)
		failed = engine_create(&c->engine, &options, e);
	if (!failed)
		failed = model_open(&c->model, c->engine, c->directory, e);
	if (!failed)
		failed = mount_wait(c->model, e);
	return failed ? failed : company_forbid_ends(c, e);
}

static int company(struct company *c, struct err *e)
{
	int failed = company_open(c, e);
	if (!failed) /* fills the cache of experts */
		failed = company_equal(c, &c->figure[0], e);
	for (uint64_t i = 0; i < c->effort.rounds && !failed; i++) {
		failed = company_equal(c, &c->figure[i], e);
		if (!failed)
			failed = company_prompt_alone(c, &c->figure[i], e);
		if (!failed)
			failed = company_pause(c, &c->figure[i], e);
	}
	if (!failed)
		failed = company_report(c, e);
	free(c->no_ends);
	tokenizer_close(c->tokenizer);
	if (c->model)
		model_close(c->model);
	if (c->engine)
		engine_destroy(c->engine);
	return failed;
}

int company_command(int argc, char **argv, struct err *e)
{
	struct company *c = calloc(1, sizeof *c);
	if (!c)
		return err_set(e, ENOMEM, "out of memory for figures");
	*c = (struct company){
		.effort = effort_default(), .answers = 8, .tokens = 512, .prompt = 8000};
	const struct bench_option options[] = {
		{"answers", OPTION_NUMBER, &c->answers, 1, EQUAL_MOST, "equal answers at once"},
		{"tokens", OPTION_NUMBER, &c->tokens, 1, CONFIG_MAX_POSITIONS, "of each of them"},
		{"prompt", OPTION_NUMBER, &c->prompt, 1, CONFIG_MAX_POSITIONS,
		 "tokens of the prompt that comes beside an answer"},
		{"step-ms", OPTION_NUMBER, &c->step_ms, 1, 10000, "as moefs -o step_ms="},
		{"budget", OPTION_NUMBER, &c->budget, 1, UINT64_MAX - 1,
		 "bytes for experts (half of what is free)"},
		{"quant", OPTION_TEXT, &c->quant, 0, 0, "a recipe, as moefs -o quant= (auto)"},
		{"store", OPTION_TEXT, &c->store, 0, 0, "folder of stores, as moefs -o store="},
		EFFORT_OPTIONS(&c->effort),
	};
	const struct command_line line = {"company MODEL", options,
					  sizeof options / sizeof *options, &c->directory, 1};
	int failed = command_line_parse(&line, argc, argv, e);
	if (!failed)
		failed = company(c, e);
	free(c);
	return failed;
}
