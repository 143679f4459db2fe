/* Likelihood of a text and of an answer's tokens: the reference's numbers, the same ones however
 * they are computed; a score is a turn like any other. */
#include "engine/admin/observe.h"
#include "golden.h"
#include "session_help.h"

#include <json-c/json.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

static const char TALE[] = "Once upon a time there was a fox who lived in the wood near the mill.\n"
			   "What is the capital of France? The capital of France is Paris.\n"
			   "1 2 3 4 5 6 7 8 9 10 11 12; it's not what they'd say, but we'll see.";
/* The likeliest continuation of this is more of it. */
static const char REPEATS[] = "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha "
			      "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha";

/* ---- help ---- */

static struct answer *begin_score(struct session *s, const char *text)
{
	struct answer *a;
	struct err e;
	if (session_score(s, text, strlen(text), &a, &e))
		fail_msg("%s", e.text);
	return a;
}

static char *score(struct session *s, const char *text)
{
	int code;
	char words[1024], *lines = test_read(begin_score(s, text), &code);
	session_error(s, words, sizeof words);
	if (code)
		fail_msg("%s", words);
	return lines;
}

struct scored {
	size_t count;
	uint32_t *ids;
	double *logprobs; /* the first is NAN */
	double mean, perplexity;
};

/* The lines are freed. */
static struct scored read_score(char *lines)
{
	struct scored r = {.ids = malloc(strlen(lines) * sizeof *r.ids),
			   .logprobs = malloc(strlen(lines) * sizeof *r.logprobs)};
	assert_non_null(r.ids);
	assert_non_null(r.logprobs);
	char *line = lines, number[64];
	for (; strncmp(line, "mean ", 5); line = strchr(line, '\n') + 1) {
		assert_int_equal(sscanf(line, "%u %63s \"", &r.ids[r.count], number), 2);
		r.logprobs[r.count++] = strcmp(number, "-") ? strtod(number, NULL) : NAN;
	}
	assert_int_equal(sscanf(line, "mean %lf\nperplexity %lf\n", &r.mean, &r.perplexity), 2);
	free(lines);
	return r;
}

static void free_score(struct scored *r)
{
	free(r->ids);
	free(r->logprobs);
}

static char *text_of(const struct tokenizer *t, const int32_t *ids, size_t count)
{
	char *text = calloc(count + 1, 64), *end = text;
	size_t n;
	assert_non_null(text);
	for (size_t i = 0; i < count; i++) {
		const char *bytes = tokenizer_bytes(t, (uint32_t)ids[i], true, &n);
		assert_true(n < 64);
		memcpy(end, bytes, n);
		end += n;
	}
	return text;
}

/* In double precision, and slowly. */
static double log_softmax(const float *logits, uint32_t n, uint32_t id)
{
	double sum = 0, largest = logits[0];
	for (uint32_t i = 0; i < n; i++)
		largest = logits[i] > largest ? logits[i] : largest;
	for (uint32_t i = 0; i < n; i++)
		sum += exp(logits[i] - largest);
	return logits[id] - largest - log(sum);
}

/* ---- against the reference ---- */

static const char *const fixtures[] = {"qwen2",	     "qwen3",	   "qwen3_moe", "granitemoe",
				       "mixtral",    "olmoe",	   "qwen3_5",	"qwen3_5_moe",
				       "qwen3_next", "gemma4_moe", "gpt_oss",	"glm4_moe",
				       "minimax_m2", "deepseek_v3"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

struct reference {
	struct test_model model;
	struct model_view view;
	struct golden *golden;
	double mean_nll;
};

static bool open_reference(struct reference *r, const char *fixture)
{
	char path[512], name[600], facts[8192];
	const char *folder = test_fixture(fixture);
	if (!folder)
		return false;
	(void)snprintf(path, sizeof path, "%s", folder);
	test_model_ready(&r->model, path, &(struct engine_options){.quant = "bf16"});
	observe_model(r->model.model, &r->view);
	(void)snprintf(name, sizeof name, "%s/golden.safetensors", path);
	r->golden = golden_open(name);
	(void)snprintf(name, sizeof name, "%s/golden.json", path);
	FILE *f = fopen(name, "r");
	assert_non_null(f);
	facts[fread(facts, 1, sizeof facts - 1, f)] = 0;
	(void)fclose(f);
	const char *at = strstr(facts, "\"long_mean_nll\":");
	assert_non_null(at);
	r->mean_nll = strtod(at + strlen("\"long_mean_nll\":"), NULL);
	return true;
}

static void close_reference(struct reference *r)
{
	golden_close(r->golden);
	test_model_close(&r->model);
}

static struct scored score_ids(struct reference *r, const char *ids_name)
{
	struct golden_tensor ids = golden_get(r->golden, ids_name, "I32");
	char *text = text_of(r->view.tokenizer, ids.data, ids.count);
	struct session *s = test_session(&r->model);
	text[strlen(text)] = '\n'; /* one is dropped */
	struct scored got = read_score(score(s, text));
	assert_int_equal(got.count, ids.count);
	for (size_t i = 0; i < ids.count; i++)
		assert_int_equal(got.ids[i], ((const int32_t *)ids.data)[i]);
	assert_true(isnan(got.logprobs[0]));
	session_end(s);
	free(text);
	return got;
}

static void a_score_is_the_reference_s(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct reference r;
		if (!open_reference(&r, fixtures[i]))
			continue;
		struct scored got = score_ids(&r, "long_input_ids");
		if (!(fabs(-got.mean - r.mean_nll) < 1e-5))
			fail_msg("%s: mean %.6f, not %.7f", fixtures[i], got.mean, -r.mean_nll);
		assert_true(fabs(got.perplexity / exp(r.mean_nll) - 1) < 2e-5);
		free_score(&got);

		struct golden_tensor want = golden_get(r.golden, "logits", "F32");
		uint32_t vocabulary = r.view.config->vocabulary;
		got = score_ids(&r, "input_ids");
		for (size_t t = 1; t < got.count; t++) {
			const float *row = (const float *)want.data + (t - 1) * vocabulary;
			double logprob = log_softmax(row, vocabulary, got.ids[t]);
			if (!(fabs(got.logprobs[t] - logprob) < 5e-5))
				fail_msg("%s, token %zu: %.6f, not %.6f", fixtures[i], t,
					 got.logprobs[t], logprob);
		}
		free_score(&got);
		close_reference(&r);
	}
}

/* ---- log-probabilities of an answer ---- */

static struct json_object *member(struct json_object *of, const char *key)
{
	struct json_object *value;
	assert_true(json_object_object_get_ex(of, key, &value));
	return value;
}

static uint32_t id_of(struct json_object *token)
{
	return (uint32_t)json_object_get_int64(member(token, "id"));
}

static double logprob_of(struct json_object *token)
{
	return json_object_get_double(member(token, "logprob"));
}

static char *logprobs_of(struct session *s)
{
	int code;
	char *lines = test_read(session_logprobs(s), &code);
	assert_int_equal(code, 0);
	return lines;
}

/* The document of each line; how many. */
static size_t parse_lines(const char *lines, struct json_object **out, size_t most)
{
	size_t count = 0;
	for (const char *end; *lines; lines = end + 1) {
		end = strchr(lines, '\n');
		assert_non_null(end);
		char *line = strndup(lines, (size_t)(end - lines));
		assert_true(count < most);
		out[count] = json_tokener_parse(line);
		assert_non_null(out[count++]);
		free(line);
	}
	return count;
}

static void free_lines(struct json_object **lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		json_object_put(lines[i]);
}

static void check_token(struct json_object *token, const float *row, uint32_t vocabulary,
			const char *fixture)
{
	double want = log_softmax(row, vocabulary, id_of(token)), got = logprob_of(token);
	if (!(fabs(got - want) < 5e-5))
		fail_msg("%s, token %u: %.6f, not %.6f", fixture, id_of(token), got, want);
}

/* Twenty tokens, none less likely than a token that is left out. */
static void check_top(struct json_object *line, const float *row, uint32_t vocabulary,
		      const char *fixture)
{
	struct json_object *top = member(line, "top_logprobs");
	assert_int_equal(json_object_array_length(top), SESSION_LOGPROBS);
	float least = INFINITY;
	uint32_t above = 0;
	for (size_t k = 0; k < SESSION_LOGPROBS; k++) {
		struct json_object *one = json_object_array_get_idx(top, k);
		check_token(one, row, vocabulary, fixture);
		float logit = row[id_of(one)];
		assert_true(logit <= least + 1e-4F);
		least = logit < least ? logit : least;
	}
	for (uint32_t i = 0; i < vocabulary; i++)
		above += row[i] > least + 1e-4F;
	assert_true(above < SESSION_LOGPROBS);
}

/* What an answer's first token has to choose from is the last row of its prompt. */
static void logprobs_are_the_log_softmax_of_the_reference_s_logits(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct reference r;
		if (!open_reference(&r, fixtures[i]))
			continue;
		struct golden_tensor ids = golden_get(r.golden, "input_ids", "I32"),
				     logits = golden_get(r.golden, "logits", "F32");
		uint32_t vocabulary = r.view.config->vocabulary;
		const float *row = (const float *)logits.data + (ids.count - 1) * vocabulary;
		char *text = text_of(r.view.tokenizer, ids.data, ids.count);
		char prompt[4096];
		(void)snprintf(prompt, sizeof prompt, "%s\n", text); /* which drops one newline */
		struct session *s = test_greedy_session(&r.model);
		test_set(s, "chat", "off");
		test_set(s, "max_tokens", "1");
		test_set(s, "logprobs", "20");
		free(test_ask(s, prompt));
		struct json_object *line;
		char *lines = logprobs_of(s);
		assert_int_equal(parse_lines(lines, &line, 1), 1);
		check_token(line, row, vocabulary, fixtures[i]);
		check_top(line, row, vocabulary, fixtures[i]);
		free_lines(&line, 1);
		free(lines);
		session_end(s);
		free(text);
		close_reference(&r);
	}
}

/* A session that continues with the text as it stands. */
static struct session *continuing(struct test_model *m, const char *draft, const char *temperature)
{
	struct session *s = test_session(m);
	test_set(s, "chat", "off");
	test_set(s, "max_tokens", "60");
	test_set(s, "temperature", temperature);
	test_set(s, "seed", "7");
	test_set(s, "draft", draft);
	test_set(s, "logprobs", "3");
	return s;
}

static void logprobs_are_the_same_drafted_or_not(void **state)
{
	(void)state;
	static const char *const temperatures[] = {"0", "0.8"};
	for (int i = 0; i < 2; i++) {
		struct session *off = continuing(&fable, "off", temperatures[i]),
			       *on = continuing(&fable, "lookup", temperatures[i]);
		test_set(off, "frequency_penalty", "0.1");
		test_set(on, "frequency_penalty", "0.1");
		test_same_text(test_ask(off, REPEATS), test_ask(on, REPEATS));
		if (!i)
			assert_true(test_stats(on).draft_stood_by[DRAFT_LOOKUP] > 0);
		test_same_text(logprobs_of(off), logprobs_of(on));
		session_end(off);
		session_end(on);
	}
}

/* Every drawn token has a line, also the last one; all drawn tokens but the last are in the
 * context. */
static void each_token_has_a_line(void **state)
{
	(void)state;
	enum { MOST = 64 };
	struct json_object *lines[MOST];
	static const char *const ends[][2] = {{"max_tokens", "9"}, {"stop", "is"}, {"seed", "1"}};
	for (int i = 0; i < 3; i++) {
		struct session *s = test_greedy_session(&fable);
		test_set(s, "logprobs", "1");
		test_set(s, ends[i][0], ends[i][1]);
		free(test_ask(s, "What is the capital of France?"));
		char *text = logprobs_of(s);
		size_t count = parse_lines(text, lines, MOST);
		struct session_stats st = test_stats(s);
		const struct token_list *held = observe_computed(s);
		assert_int_equal(count, st.output_tokens);
		assert_int_equal(held->count, st.prompt_tokens + count - 1);
		for (size_t k = 0; k < count; k++) {
			struct json_object *top = member(lines[k], "top_logprobs");
			struct json_object *best = json_object_array_get_idx(top, 0);
			assert_int_equal(json_object_array_length(top), 1);
			assert_int_equal(id_of(best), id_of(lines[k])); /* greedy */
			assert_true(logprob_of(best) == logprob_of(lines[k]));
			assert_string_equal(json_object_get_string(member(best, "token")),
					    json_object_get_string(member(lines[k], "token")));
			if (k + 1 < count)
				assert_int_equal(held->ids[st.prompt_tokens + k], id_of(lines[k]));
		}
		free_lines(lines, count);
		free(text);
		session_end(s);
	}
}

/* Bias, penalties, temperature and filters choose among the same numbers. */
static void logprobs_are_the_model_s_own(void **state)
{
	(void)state;
	struct json_object *plain[1], *changed[1];
	struct session *s = continuing(&fable, "off", "0");
	test_set(s, "max_tokens", "1");
	free(test_ask(s, TALE));
	char *text = logprobs_of(s), bias[64];
	assert_int_equal(parse_lines(text, plain, 1), 1);
	free(text);
	struct json_object *second = json_object_array_get_idx(member(plain[0], "top_logprobs"), 1);
	(void)snprintf(bias, sizeof bias, "%u 30", id_of(second));
	test_set(s, "logit_bias", bias);
	test_set(s, "temperature", "1.3");
	test_set(s, "top_k", "1");
	test_set(s, "repetition_penalty", "1.01");
	free(test_ask(s, TALE));
	text = logprobs_of(s);
	assert_int_equal(parse_lines(text, changed, 1), 1);
	free(text);
	assert_int_equal(id_of(changed[0]), id_of(second));
	assert_true(logprob_of(changed[0]) == logprob_of(second));
	assert_string_equal(json_object_to_json_string(member(changed[0], "top_logprobs")),
			    json_object_to_json_string(member(plain[0], "top_logprobs")));
	free_lines(plain, 1);
	free_lines(changed, 1);
	session_end(s);
}

/* For each place the twenty likeliest tokens are listed with the model's own numbers. After bias
 * and penalties, computed from their definitions, the drawn token must come first. */
static void what_was_drawn_is_the_best_by_the_definitions(void **state)
{
	(void)state;
	enum { MOST = 128 };
	struct json_object *lines[MOST];
	struct session *s = continuing(&fable, "lookup", "0");
	test_set(s, "logprobs", "20");
	test_set(s, "frequency_penalty", "0.7");
	test_set(s, "presence_penalty", "0.4");
	free(test_ask(s, REPEATS));
	char *text = logprobs_of(s);
	size_t count = parse_lines(text, lines, MOST), moved = 0;
	for (size_t k = 0; k < count; k++) {
		struct json_object *top = member(lines[k], "top_logprobs");
		double best = -INFINITY, drawn = -INFINITY;
		for (size_t j = 0; j < SESSION_LOGPROBS; j++) {
			struct json_object *one = json_object_array_get_idx(top, j);
			double value = logprob_of(one);
			int times = 0;
			for (size_t i = 0; i < k; i++)
				times += id_of(lines[i]) == id_of(one);
			value -= 0.7 * times + (times > 0 ? 0.4 : 0);
			best = value > best ? value : best;
			if (id_of(one) == id_of(lines[k]))
				drawn = value;
		}
		assert_true(drawn >= best - 3e-6);
		moved += id_of(lines[k]) != id_of(json_object_array_get_idx(top, 0));
	}
	assert_true(moved > 3);
	free_lines(lines, count);
	free(text);
	session_end(s);
}

static void without_logprobs_there_are_none_and_nobody_waits(void **state)
{
	(void)state;
	bool complete;
	struct session *s = test_greedy_session(&fable);
	assert_null(session_logprobs(s));
	test_set(s, "max_tokens", "2000");
	test_set(s, "chat", "off");
	struct answer *a = test_submit_held(s, REPEATS, 1);
	struct answer *none = session_logprobs(s);
	assert_int_equal(answer_size(none, &complete), 0);
	assert_true(complete);
	answer_unref(none);
	session_stop(s);
	test_wait(a);
	answer_unref(a);
	session_end(s);
}

/* However fast the list grows; the reader may come so late that it is complete. */
static void lines_come_whole_while_the_answer_grows(void **state)
{
	(void)state;
	enum { MOST = 1 << 20 };
	bool complete = false;
	char *lines = malloc(MOST);
	assert_non_null(lines);
	size_t length = 0;
	struct session *s = continuing(&fable, "off", "0");
	test_set(s, "max_tokens", "500");
	struct answer *a = test_submit(s, TALE), *logprobs = session_logprobs(s);
	while (!complete) {
		test_wait_bytes(logprobs, length + 1);
		ssize_t n = answer_read(logprobs, length, lines + length, MOST - length, &complete);
		assert_true(n > 0 || complete);
		length += (size_t)n;
		assert_true(length < MOST && lines[length - 1] == '\n');
	}
	test_wait(a);
	answer_unref(a);
	answer_unref(logprobs);
	session_end(s);
	free(lines);
}

/* ---- one score ---- */

/* Rows of a prompt have the same numbers as in an answer. */
static void a_score_says_what_the_answer_s_logprobs_said(void **state)
{
	(void)state;
	enum { MOST = 64 };
	struct json_object *lines[MOST];
	struct session *s = continuing(&fable, "lookup", "0");
	char *answer = test_ask(s, REPEATS), *logprobs = logprobs_of(s);
	size_t count = parse_lines(logprobs, lines, MOST), prompt = test_stats(s).prompt_tokens;
	char *text = calloc(strlen(REPEATS) + strlen(answer) + 1, 1);
	(void)sprintf(text, "%s%s", REPEATS, answer);
	struct scored got = read_score(score(s, text));
	size_t same = 0;
	for (; same < count && prompt + same < got.count; same++) {
		if (got.ids[prompt + same] != id_of(lines[same]))
			break; /* written out and read again, a text may have other tokens */
		assert_true(got.logprobs[prompt + same] == logprob_of(lines[same]));
	}
	assert_true(same > 20);
	free_score(&got);
	free_lines(lines, count);
	free(text);
	free(answer);
	free(logprobs);
	session_end(s);
}

static void chunks_threads_and_budget_do_not_change_a_score(void **state)
{
	(void)state;
	static const struct engine_options ways[] = {{.chunk = 1, .threads = 1},
						     {.chunk = 7, .threads = 3},
						     {.threads = 2, .budget = 1 << 20},
						     {.chunk = 3, .threads = 4, .budget = 1 << 18}};
	struct session *s = test_session(&fable);
	char *want = score(s, TALE);
	assert_non_null(strstr(want, "\nperplexity "));
	test_same_text(score(s, TALE), strdup(want)); /* and the context before does not */
	session_end(s);
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		struct test_model other;
		test_model_open(&other, test_fable(), &ways[i]);
		s = test_session(&other);
		test_same_text(score(s, TALE), strdup(want));
		session_end(s);
		test_model_close(&other);
	}
	free(want);
}

static void a_score_takes_turns_with_others(void **state)
{
	(void)state;
	enum { SESSIONS = 4 };
	struct session *talks = test_greedy_session(&fable), *s[SESSIONS];
	struct answer *scores[SESSIONS];
	char *alone = test_ask(talks, "Tell me a tale of a fox."), *want = NULL;
	struct err e;
	int code;
	assert_int_equal(session_reset(talks, &e), 0);
	for (int i = 0; i < SESSIONS; i++)
		s[i] = test_session(&fable);
	want = score(s[0], TALE);
	struct answer *talk = test_submit(talks, "Tell me a tale of a fox.");
	for (int i = 0; i < SESSIONS; i++)
		scores[i] = begin_score(s[i], TALE);
	for (int i = 0; i < SESSIONS; i++)
		test_same_text(test_read(scores[i], &code), strdup(want));
	test_same_text(test_read(talk, &code), alone);
	for (int i = 0; i < SESSIONS; i++)
		session_end(s[i]);
	session_end(talks);
	free(want);
}

/* ---- a turn like any other ---- */

static void a_score_is_no_part_of_the_conversation(void **state)
{
	(void)state;
	static const char question[] = "What is the capital of France?";
	struct session *s = test_greedy_session(&fable);
	test_answer(s, question, "The capital of France is Paris.\n");
	uint64_t log = session_log_size(s);
	free(score(s, TALE));
	assert_int_equal(session_log_size(s), log);
	assert_int_equal(session_status(s), SESSION_DONE);
	assert_string_equal(test_stats(s).finish, "end");
	assert_int_equal(observe_computed(s)->count, 0);
	struct err e;
	assert_int_equal(session_undo(s, &e), 0);
	assert_int_equal(session_undo(s, &e), -ENODATA);
	test_answer(s, question, "The capital of France is Paris.\n");
	session_end(s);
}

static void a_text_longer_than_the_context_is_refused_in_words(void **state)
{
	(void)state;
	enum { CONTEXT = 64 };
	struct test_model small;
	struct scored got;
	char text[4 * CONTEXT + 1] = "ha", words[1024];
	int code;
	test_model_open(&small, test_fable(), &(struct engine_options){.context = CONTEXT});
	struct session *s = test_session(&small);
	for (size_t tokens = 0; tokens < CONTEXT; tokens = got.count, free_score(&got)) {
		(void)strcat(text, " ha");
		got = read_score(score(s, text)); /* one that just fits does */
		assert_true(got.count <= CONTEXT);
	}
	(void)strcat(text, " ha");
	free(test_read(begin_score(s, text), &code));
	session_error(s, words, sizeof words);
	assert_int_equal(code, -EIO);
	if (!strstr(words, "65 tokens") || !strstr(words, "64") || !strstr(words, "-o context="))
		fail_msg("%s", words);
	free(score(s, "ha")); /* it continues */
	session_end(s);
	test_model_close(&small);
}

static void what_is_no_text_is_refused(void **state)
{
	(void)state;
	struct session *s = test_session(&fable);
	struct answer *a;
	struct err e;
	int code;
	char words[1024];
	assert_int_equal(session_score(s, "", 0, &a, &e), -EINVAL);
	assert_int_equal(session_score(s, "\n", 1, &a, &e), -EINVAL);
	free(test_read(begin_score(s, "caf\xff"), &code));
	session_error(s, words, sizeof words);
	assert_int_equal(code, -EIO);
	assert_non_null(strstr(words, "UTF-8"));
	session_end(s);
}

static void one_token_has_no_likelihood(void **state)
{
	(void)state;
	struct session *s = test_session(&fable);
	char *lines = score(s, "<|im_end|>");
	assert_non_null(strstr(lines, " - \"<|im_end|>\"\nmean -\nperplexity -\n"));
	free(lines);
	session_end(s);
}

static void a_score_can_be_stopped_and_ended(void **state)
{
	(void)state;
	struct test_model steps;
	test_model_ready(&steps, test_fable(), &(struct engine_options){.chunk = 1});
	struct session *s = test_session(&steps);
	test_hold(s, 100);
	struct answer *a = begin_score(s, TALE);
	struct err e;
	int code;
	test_wait_held();
	assert_int_equal(session_score(s, TALE, 4, NULL, &e), -EBUSY);
	session_stop(s);
	char *part = test_read(a, &code);
	assert_int_equal(code, 0);
	assert_null(strstr(part, "perplexity"));
	assert_int_equal(session_status(s), SESSION_STOPPED);
	free(part);
	test_hold(s, 100);
	a = begin_score(s, TALE);
	test_wait_held();
	session_end(s);
	part = test_read(a, &code);
	assert_int_equal(code, -EIO);
	free(part);
	test_model_close(&steps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_score_is_the_reference_s),
		cmocka_unit_test(logprobs_are_the_log_softmax_of_the_reference_s_logits),
		cmocka_unit_test(logprobs_are_the_same_drafted_or_not),
		cmocka_unit_test(each_token_has_a_line),
		cmocka_unit_test(logprobs_are_the_model_s_own),
		cmocka_unit_test(what_was_drawn_is_the_best_by_the_definitions),
		cmocka_unit_test(without_logprobs_there_are_none_and_nobody_waits),
		cmocka_unit_test(lines_come_whole_while_the_answer_grows),
		cmocka_unit_test(a_score_says_what_the_answer_s_logprobs_said),
		cmocka_unit_test(chunks_threads_and_budget_do_not_change_a_score),
		cmocka_unit_test(a_score_takes_turns_with_others),
		cmocka_unit_test(a_score_is_no_part_of_the_conversation),
		cmocka_unit_test(a_text_longer_than_the_context_is_refused_in_words),
		cmocka_unit_test(what_is_no_text_is_refused),
		cmocka_unit_test(one_token_has_no_likelihood),
		cmocka_unit_test(a_score_can_be_stopped_and_ended),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
