/* How turns change the session when they begin: with a prompt, with tool results, or from the
 * current messages. */
#include "cache/clock.h"
#include "engine/model/model_state.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void asked_free(struct asked *a)
{
	free(a->prompt);
	messages_free(&a->taken);
	token_list_free(&a->earlier);
	text_out_free(&a->given);
	text_out_free(&a->given_thoughts);
	params_free(&a->params);
	*a = (struct asked){0};
}

/* ---- the messages ---- */

/* Whether the session's prompts are messages. Before the model is loaded this is a guess. */
static bool asked_chats(const struct session *s)
{
	const struct model *m = s->model;
	return s->params.chat == CHAT_ON ||
	       (s->params.chat == CHAT_UNSET &&
		(!atomic_load(&m->loaded.speaks) || model_loaded_chats(&m->loaded)));
}

static void asked_log_results(struct session *s, const struct message *results, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t n;
		char *text = message_text(&results[i], &n);
		if (text)
			history_log_quoted(s, text, n);
		free(text);
	}
}

/* Adds the tool results and then the prompt to the messages. A prompt that cannot be a message is
 * refused later, when the turn begins. -ENOMEM: nothing has changed. */
static int asked_add_messages(struct session *s, const struct asking *r, struct err *e)
{
	struct dialogue *c = &s->dialogue;
	struct asked *t = &s->asked;
	int failed = messages_move(&c->messages, &c->results, 0, e);
	if (failed)
		return failed;
	if (r->kind == ASK_PROMPT &&
	    messages_add(&c->messages, "user", r->text, r->length, &t->refused) == -ENOMEM) {
		struct err ignored; /* cannot fail: the memory of the results is reused */
		(void)messages_move(&c->results, &c->messages, t->messages_before, &ignored);
		return err_set(e, ENOMEM, "%s", t->refused.text);
	}
	return 0;
}

/* Submits the tool results together with a prompt. */
static int asked_add_prompt(struct session *s, const struct asking *r, struct err *e)
{
	size_t results = s->dialogue.results.count;
	int failed = history_add_mark(s, e);
	if (failed)
		return failed;
	if (asked_chats(s)) {
		failed = asked_add_messages(s, r, e);
		if (failed) {
			s->undo_count--;
			return failed;
		}
		const struct messages *m = &s->dialogue.messages;
		asked_log_results(s, m->items + s->asked.messages_before, results);
	}
	if (r->kind == ASK_PROMPT)
		history_log_quoted(s, r->text, r->length);
	s->undo[s->undo_count - 1].answer_log = s->log_size;
	return 0;
}

/* Removes the last answer from the messages, and from the log if it is the last turn's. */
static int asked_take_answer(struct session *s, struct err *e)
{
	struct messages *m = &s->dialogue.messages;
	struct asked *t = &s->asked;
	int failed = messages_move(&t->taken, m, m->count - 1, e);
	if (failed)
		return failed;
	t->messages_before = m->count;
	messages_free(&s->dialogue.results);
	const struct undo_mark *last = s->undo_count ? &s->undo[s->undo_count - 1] : NULL;
	if (last && last->messages <= m->count) /* else not part of the conversation */
		s->log_size = last->answer_log;
	return 0;
}

/* Reads the text and the thoughts of the last message, which the turn continues. */
static int asked_read_given(struct asked *t, const struct message *last, struct err *e)
{
	struct json *message;
	int failed = json_parse_text(&message, last->json, last->n, "the last message", e);
	if (failed)
		return failed;
	const struct json *thoughts = json_find(message, "thinking");
	size_t n;
	if (!thoughts)
		thoughts = json_find(message, "reasoning_content");
	const char *text = json_bytes(thoughts, &n);
	if (json_kind(thoughts) == JSON_TEXT)
		text_out_add(&t->given_thoughts, text, n);
	message_join(json_find(message, "content"), &t->given);
	bool calls = json_count(json_find(message, "tool_calls")) > 0;
	json_free(message);
	/* Removes spaces at the end. Tokens of words begin with a space, so no word would follow a
	 * space. */
	while (t->given.n && scan_is_space(t->given.bytes[t->given.n - 1]))
		t->given.n--;
	if (t->given.failed || t->given_thoughts.failed)
		return err_set(e, ENOMEM, "out of memory for the beginning of an answer");
	return calls ? err_set(e, ENODATA,
			       "continue: the last message calls tools; write the results to "
			       "tool_result, or append them to messages.json")
		     : 0;
}

static int asked_change_messages(struct session *s, const struct asking *r, struct err *e)
{
	s->asked.messages_before = s->dialogue.messages.count;
	if (r->kind < ASK_RETRY /* removes no answer */)
		return asked_add_prompt(s, r, e);
	struct messages *m = &s->dialogue.messages;
	bool given = r->kind == ASK_CONTINUE && !s->tail.count;
	int failed = given ? asked_read_given(&s->asked, &m->items[m->count - 1], e) : 0;
	if (!failed)
		failed = asked_take_answer(s, e);
	if (!failed && r->kind == ASK_CONTINUE && !given) {
		s->asked.earlier = s->tail;
		s->tail = (struct token_list){0};
	}
	return failed;
}

void asked_undo(struct session *s)
{
	struct asked *t = &s->asked;
	struct err ignored; /* cannot fail: reuses the memory of the removed messages */
	messages_cut(&s->dialogue.messages, t->messages_before);
	(void)messages_move(&s->dialogue.messages, &t->taken, 0, &ignored);
	if (!t->earlier.count)
		return;
	token_list_free(&s->tail);
	s->tail = t->earlier;
	t->earlier = (struct token_list){0};
}

/* ---- the turn ---- */

static uint64_t asked_random_seed(void)
{
	uint64_t seed;
	if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
		seed = clock_ns();
	return seed;
}

/* Resets params that do not apply to choices. */
static void asked_ignore(struct params *p)
{
	p->max_tokens = 0;
	p->stop[0] = 0;
	p->tool_choice[0] = 0;
}

/* Notes the names of these params, if they were set. */
static void asked_note_ignored(const struct session *s, char *text, size_t size)
{
	bool tools = s->dialogue.tools.json, most = s->params.max_tokens;
	if (s->params.format == FORMAT_CHOICES)
		(void)snprintf(text, size, "%s%s%s", tools ? "tools.json" : "",
			       tools && most ? " " : "", most ? "max_tokens" : "");
}

static int asked_prepare_params(struct session *s, struct err *e)
{
	struct asked *t = &s->asked;
	int failed = params_copy(&t->params, &s->params, e);
	if (failed)
		return failed;
	if (t->params.format == FORMAT_CHOICES)
		asked_ignore(&t->params);
	t->sampling = (struct sampling){
		.temperature = (float)t->params.temperature,
		.top_k = (uint32_t)t->params.top_k,
		.top_p = (float)t->params.top_p,
		.min_p = (float)t->params.min_p,
		.seed = t->params.seed_random ? asked_random_seed() : t->params.seed,
	};
	return 0;
}

/* Copies the prompt for the session and for the turn. */
static int asked_copy_prompt(struct session *s, const struct asking *r, char **copy, struct err *e)
{
	struct asked *t = &s->asked;
	*copy = NULL;
	if (r->kind != ASK_PROMPT)
		return 0;
	t->prompt = malloc(r->length + 1);
	*copy = malloc(r->length + 1);
	if (!t->prompt || !*copy)
		return err_set(e, ENOMEM, "out of memory for a prompt of %zu bytes", r->length);
	t->prompt_length = r->length;
	memcpy(t->prompt, r->text, r->length);
	memcpy(*copy, r->text, r->length);
	return 0;
}

static int asked_prepare_turn(struct session *s, const struct asking *r, struct err *e)
{
	struct asked *t = &s->asked;
	char *copy = NULL;
	*t = (struct asked){.submitted_ns = clock_ns(),
			    .whole = r->kind >= ASK_ANSWER && s->written};
	int failed = asked_prepare_params(s, e);
	if (failed)
		return failed;
	struct answer *answer = answer_create(t->params.stream);
	if (!answer)
		failed = err_set(e, ENOMEM, "out of memory for an answer");
	if (!failed)
		failed = asked_copy_prompt(s, r, &copy, e);
	if (!failed)
		failed = asked_change_messages(s, r, e);
	if (failed) {
		free(copy);
		answer_unref(answer);
		asked_free(t);
		return failed;
	}
	if (copy) {
		free(s->prompt);
		s->prompt = copy;
		s->prompt_length = r->length;
	}
	answer_unref(s->answer);
	s->answer = answer;
	return 0;
}

/* A text to score is not part of the conversation. */
static int asked_prepare_score(struct session *s, const struct asking *r, struct err *e)
{
	struct asked *t = &s->asked;
	*t = (struct asked){.prompt = malloc(r->length),
			    .prompt_length = r->length,
			    .scores = true,
			    .embeds = r->kind == ASK_EMBED	 ? EMBEDS_LINE
				      : r->kind == ASK_EMBED_ALL ? EMBEDS_ARRAY
								 : EMBEDS_NOT,
			    .submitted_ns = clock_ns()};
	int failed = params_copy(&t->params, &s->params, e);
	struct answer *answer = failed ? NULL : answer_create_lines(t->params.stream);
	if (!failed && (!t->prompt || !answer))
		failed = err_set(e, ENOMEM, "out of memory for a text of %zu bytes", r->length);
	if (failed) {
		answer_unref(answer);
		asked_free(t);
		return failed;
	}
	memcpy(t->prompt, r->text, r->length);
	answer_unref(s->answer);
	s->answer = answer;
	return 0;
}

static void asked_fix_clock(struct dialogue *c)
{
	time_t now = time(NULL);
	c->clock_set |= localtime_r(&now, &c->clock) != NULL;
}

int asked_take(struct session *s, const struct asking *r, struct err *e)
{
	bool scores = r->kind >= ASK_SCORE;
	int failed = scores ? asked_prepare_score(s, r, e) : asked_prepare_turn(s, r, e);
	if (failed)
		return failed;
	if (!scores && !s->dialogue.clock_set)
		asked_fix_clock(&s->dialogue);
	s->stats = (struct session_stats){
		.seed = s->asked.sampling.seed, .priority = s->asked.params.priority, .finish = ""};
	if (!scores) {
		asked_note_ignored(s, s->stats.ignored, sizeof s->stats.ignored);
		free(s->chosen);
		s->chosen = NULL;
	}
	params_lossy(&s->asked.params, s->stats.lossy, sizeof s->stats.lossy);
	s->error = (struct err){0};
	s->working = true;
	s->logged = 0;
	atomic_store(&s->stop, false);
	return 0;
}

/* ---- what can be asked for ---- */

/* Why the messages cannot be answered, retried or continued; NULL: they can. */
static const char *asked_refusal(const struct session *s, const struct asking *r)
{
	const struct messages *m = &s->dialogue.messages;
	const struct message *last = m->count ? &m->items[m->count - 1] : NULL;
	bool answered = last && message_is(last, "assistant");
	if (r->kind == ASK_RESULTS && !s->dialogue.results.count)
		return "tool_result: there is no result to submit";
	if (r->kind == ASK_ANSWER && (!last || answered))
		return last ? "answer: the last message is an answer; echo retry > ctl replaces it"
			    : "answer: there are no messages to answer";
	if (r->kind == ASK_RETRY && !answered)
		return last ? "retry: the conversation does not end with an answer; echo answer > "
			      "ctl makes one"
			    : "retry: there are no messages yet";
	if (r->kind == ASK_CONTINUE && !answered)
		return "continue: the last message is not an answer; echo answer > ctl makes one";
	if (r->kind == ASK_CONTINUE && !s->tail.count && !s->written)
		return "continue: the last answer was not cut short; echo retry > ctl replaces it";
	return NULL;
}

/* Checks the limits of the texts, which do not depend on the session's state. */
static int asked_check_text(const struct session *s, const struct asking *r, struct err *e)
{
	uint64_t most = model_max_prompt_bytes(s->model);
	bool scores = r->kind >= ASK_SCORE;
	if (r->kind == ASK_EMBED_ALL && most < SESSION_EMBED_BYTES)
		most = SESSION_EMBED_BYTES;
	if (!r->length)
		return err_set(e, EINVAL, scores ? "the text is empty" : "the prompt is empty");
	if (r->length > most)
		return asked_too_many_bytes(scores ? "the text" : "the prompt", r->length, most, e);
	return 0;
}

int asked_check(const struct session *s, const struct asking *r, struct err *e)
{
	bool text = r->kind == ASK_PROMPT || r->kind >= ASK_SCORE;
	int failed = text ? asked_check_text(s, r, e) : 0;
	if (failed)
		return failed;
	if (s->working)
		return err_set(e, EBUSY,
			       r->kind >= ASK_SCORE
				       ? "the session is still working on the last text"
				       : "the session is still working on the last prompt; read "
					 "output, or echo stop > ctl");
	if (text)
		return 0;
	if (!asked_chats(s))
		return err_set(e, ENODATA, "this needs a conversation; echo on > params/chat");
	const char *why = asked_refusal(s, r);
	return why ? err_set(e, ENODATA, "%s", why) : 0;
}

int asked_too_many_bytes(const char *what, size_t bytes, uint64_t most, struct err *e)
{
	err_set(e, EFBIG, "%s has %zu bytes; at most %llu are allowed (info/max_prompt_bytes)",
		what, bytes, (unsigned long long)most);
	err_number(e, "bytes", bytes);
	err_number(e, "maximum_bytes", most);
	return err_name(e, "prompt_too_long");
}

struct asking asked_again(enum session_again how)
{
	static const enum asking_kind kinds[] = {[SESSION_AGAIN_ANSWER] = ASK_ANSWER,
						 [SESSION_AGAIN_RETRY] = ASK_RETRY,
						 [SESSION_AGAIN_CONTINUE] = ASK_CONTINUE};
	return (struct asking){.kind = kinds[how]};
}
