/* Splits an answer while it streams: the states of the answer, its marks, and messages in channels
 * (gpt-oss). Not here: the syntax of calls (split_forms.c) and the functions that read calls. */
#include "engine/answer/split.h"

#include "engine/answer/split_calls.h"
#include "engine/answer/split_forms.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct split {
	const struct split_form *form;
	bool begins[256];	  /* bytes that a mark of the form begins with */
	const struct json *tools; /* NULL: the request has none */
	enum split_thinking thinking;
	enum { AT_START, IN_THOUGHTS, BEHIND_THOUGHTS, IN_HEAD, IN_CONTENT } where;
	struct text_out text;	     /* the whole answer so far */
	size_t at;		     /* text[0 .. at) is split */
	size_t wasted;		     /* bytes that were read as calls but are not calls */
	size_t again;		     /* the length at which the text is scanned again */
	struct text_out held;	     /* white space that is dropped if a call follows */
	bool fresh, after_call;	     /* no content yet; none since the last call */
	const struct call_way *open; /* the way whose `open` mark came before */
	bool as_it_is;		     /* the channel's message is content, marks included */
	bool cut;		     /* split_cut is running */
	bool thought;		     /* no more thoughts can follow */
	struct text_out thoughts, content;
	struct calls calls;
};

/* ---- channels ---- */

/* Answers in channels, as gpt-oss writes them: messages, each with a head that names its channel.
 *
 *     <|channel|>analysis<|message|>THOUGHTS<|end|>
 *     <|start|>assistant<|channel|>commentary to=functions.NAME
 * <|constrain|>json<|message|>{...}<|call|>
 *     <|start|>assistant<|channel|>final<|message|>CONTENT<|return|>  */

enum { CHANNEL_HEAD_MAX = 512 };
struct channel_head {
	enum { CHANNEL_OTHER, CHANNEL_ANALYSIS, CHANNEL_FINAL } channel;
	const char *recipient; /* NULL: the user */
	size_t recipient_n;
};

/* The mark at i that ends a message, or NULL. <|start|> ends a message and begins the next. */
static const char *split_channel_end(struct split_scan *s, size_t i)
{
	static const char *const ENDS[] = {CHANNEL_END, CHANNEL_RETURN, CHANNEL_CALL,
					   CHANNEL_START};
	for (size_t k = 0; k < sizeof ENDS / sizeof *ENDS; k++)
		if (scan_word(s, i, ENDS[k]))
			return ENDS[k];
	return NULL;
}

static bool split_is_word(const char *text, size_t n, const char *word)
{
	return n == strlen(word) && memcmp(text, word, n) == 0;
}

/* Reads one word of the head: a channel, or to=RECIPIENT. */
static void split_read_head_word(const char *text, size_t n, bool names_channel,
				 struct channel_head *head)
{
	static const char TO[] = "to=";
	size_t to = sizeof TO - 1;
	if (names_channel)
		head->channel = split_is_word(text, n, "analysis") ? CHANNEL_ANALYSIS
				: split_is_word(text, n, "final")  ? CHANNEL_FINAL
								   : CHANNEL_OTHER;
	else if (n > to && memcmp(text, TO, to) == 0) {
		head->recipient = text + to;
		head->recipient_n = n - to;
	}
}

/* Reads the head at i and returns the offset after it. SCAN_BAD if the head is longer than
 * CHANNEL_HEAD_MAX. */
static size_t split_channel_head(struct split_scan *s, size_t i, struct channel_head *head)
{
	bool names_channel = false, any = false;
	size_t from = i;
	*head = (struct channel_head){0};
	if (scan_word(s, i, CHANNEL_START))
		i += strlen(CHANNEL_START);
	while (s->state == SCAN_GOOD) {
		size_t word = i = scan_space(s, i);
		if (i - from > CHANNEL_HEAD_MAX)
			scan_fail(s);
		if (scan_word(s, i, CHANNEL_MESSAGE) && any)
			return i + strlen(CHANNEL_MESSAGE);
		bool name = scan_word(s, i, CHANNEL_NAME);
		bool constrain = !name && scan_word(s, i, CHANNEL_CONSTRAIN);
		i += name ? strlen(CHANNEL_NAME) : constrain ? strlen(CHANNEL_CONSTRAIN) : 0;
		for (int c; !name && !constrain && (c = scan_at(s, i)) > ' ' && c != '<';)
			i++; /* a word: up to a space or a mark */
		if (i == word || scan_at(s, i) < 0)
			scan_fail(s);
		if (s->state == SCAN_GOOD && !name && !constrain)
			split_read_head_word(s->bytes + word, i - word, names_channel, head);
		any |= name || head->recipient;
		names_channel = name;
	}
	return i;
}

/* Appends the call whose object is at i, and returns the offset after its end mark. */
static size_t split_channel_call(struct split_scan *s, size_t i, const struct channel_head *head,
				 struct calls *calls)
{
	size_t from = i = scan_space(s, i);
	if (scan_at(s, i) != '{')
		scan_fail(s);
	size_t to = scan_json(s, i);
	i = scan_space(s, to);
	const char *end = split_channel_end(s, i);
	if (!end && scan_at(s, i) >= 0)
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	size_t kind = call_kind_length(head->recipient, head->recipient_n);
	const char *name = head->recipient + kind;
	size_t n = head->recipient_n - kind;
	if (memchr(name, '\0', n) ||
	    !calls_append_object(calls, name, n, s->bytes + from, to - from))
		scan_fail(s);
	return end && strcmp(end, CHANNEL_START) != 0 ? i + strlen(end) : i;
}

/* ---- marks ---- */

/* Bytes that may be read as calls but turn out not to be calls; after that no more calls are read.
 * A megabyte that keeps beginning calls would otherwise take hours. */
enum { WASTE_MAX = 16 << 20 };

/* Whether the mark of a way is at *i, after an optional `open` mark, over which *i moves. */
static bool split_begins_way(const struct call_way *w, const struct call_way *open,
			     struct split_scan *t, size_t *i)
{
	bool opened = w->open && scan_word(t, *i, w->open);
	if (opened)
		*i = scan_space(t, *i + strlen(w->open));
	else if (w->open && open != w)
		return false;
	return scan_word(t, *i, w->begin);
}

/* Appends the calls at i and returns the offset after them; *open is their way if the way has an
 * `open` mark. Returns i if there are none, or with SCAN_MORE if that is undecided. */
static size_t split_read_calls(struct split *s, struct split_scan *t, size_t i, bool line,
			       const struct call_way **open)
{
	size_t count = s->calls.count;
	bool may = s->tools && s->wasted < WASTE_MAX;
	for (size_t k = 0; may && k < FORM_WAYS_MAX && s->form->ways[k].begin; k++) {
		const struct call_way *w = &s->form->ways[k];
		struct split_scan own = *t;
		size_t end = own.reach = i;
		if ((w->line && !line) || (w->whole && (s->content.n > 0 || count > 0)))
			continue;
		if (split_begins_way(w, *open, &own, &end) && own.state == SCAN_GOOD)
			end = w->read(&own, end, w, s->tools, &s->calls);
		else
			scan_fail(&own);
		if (own.state != SCAN_GOOD)
			calls_cut(&s->calls, count);
		if (own.state == SCAN_MORE)
			t->state = SCAN_MORE;
		s->wasted += own.state == SCAN_BAD ? own.reach - i : 0;
		if (own.state == SCAN_BAD)
			continue;
		*open = own.state == SCAN_GOOD && w->open ? w : NULL;
		return own.state == SCAN_GOOD ? end : i;
	}
	return i;
}

/* The offset after the mark that closes a block of calls; i if the mark is not at i. */
static size_t split_close(struct split_scan *t, size_t i, const struct call_way **open)
{
	if (!*open || !scan_word(t, i, (*open)->close))
		return i;
	i += strlen((*open)->close);
	*open = NULL;
	return i;
}

/* The offset after a mark that is not content; i if there is none at i. */
static size_t split_silent(const struct split *s, struct split_scan *t, size_t i)
{
	for (size_t k = 0; k < FORM_WORDS_MAX && s->form->silent[k]; k++)
		if (scan_word(t, i, s->form->silent[k]))
			return i + strlen(s->form->silent[k]);
	return i;
}

/* Reads calls and the marks around them up to the end. SCAN_BAD if there is other text. */
static void split_read_to_the_end(struct split *s, struct split_scan *t, size_t i, bool line)
{
	const struct call_way *open = s->open;
	size_t from = i;
	while (t->state == SCAN_GOOD && i < t->n) {
		size_t next = split_close(t, i, &open);
		if (next == i)
			next = split_read_calls(s, t, i, line, &open);
		if (next == i)
			next = split_silent(s, t, i);
		if (next == i)
			scan_fail(t);
		i = scan_space(t, next);
	}
	s->wasted += t->state == SCAN_BAD ? i - from : 0;
}

/* If nothing but calls follows from i to the end, appends the calls. `line`: a line begins at i. */
static bool split_calls_to_the_end(struct split *s, const struct split_scan *t, size_t i, bool line)
{
	struct split_scan own = *t;
	size_t count = s->calls.count;
	own.whole = true;
	own.cut = s->cut;
	split_read_to_the_end(s, &own, i, line);
	bool good = own.state == SCAN_GOOD && s->calls.count > count;
	if (!good)
		calls_cut(&s->calls, count);
	return good;
}

/* Whether the rest of a text that was cut off is the beginning of nothing but calls. */
static bool split_may_become_calls(struct split *s, size_t i)
{
	struct split_scan own = {.bytes = s->text.bytes, .n = s->text.n};
	size_t count = s->calls.count;
	split_read_to_the_end(s, &own, i, false);
	calls_cut(&s->calls, count);
	return own.state == SCAN_MORE;
}

/* Whether text[n] and a word agree up to the end of the shorter one. */
static bool split_agree(const char *text, size_t n, const char *word)
{
	size_t length = strlen(word);
	return memcmp(text, word, n < length ? n : length) == 0;
}

/* Whether the first key of an object that was cut off is that of a call's name or arguments. */
static bool split_begins_json_call(const char *text, size_t n, const struct json_words *w)
{
	size_t i = 1;
	while (i < n && scan_is_space(text[i]))
		i++;
	if (i < n && text[i] == '"')
		i++;
	bool alike = split_agree(text + i, n - i, w->name);
	for (size_t k = 0; k < 2 && w->arguments[k]; k++)
		alike |= split_agree(text + i, n - i, w->arguments[k]);
	return alike;
}

/* Whether the undecided end of a text that was cut off becomes content, since it is more likely
 * ordinary text than the beginning of a mark or a call. */
static bool split_is_plain(const struct split *s)
{
	const char *text = s->text.bytes + s->at, *end = s->text.bytes + s->text.n;
	while (text < end && scan_is_space(*text))
		text++;
	size_t n = (size_t)(end - text);
	if (s->where == IN_HEAD || (s->where == AT_START && s->form->channels))
		return n && *text != '<' && !split_agree(text, n, "to=");
	for (size_t k = 0; n && k < FORM_WAYS_MAX && s->form->ways[k].begin; k++) {
		const struct call_way *w = &s->form->ways[k];
		if (*text == '{' && w->begin[0] == '{')
			return !split_begins_json_call(text, n, w->json);
		if (isalpha((unsigned char)*text) && n < strlen(w->begin))
			return true;
	}
	return !n;
}

/* Whether the mark of a call is at i. */
static bool split_stands_a_call(const struct split *s, struct split_scan *t, size_t i)
{
	for (size_t k = 0; k < FORM_WAYS_MAX && s->form->ways[k].begin; k++) {
		const struct call_way *w = &s->form->ways[k];
		if (!w->whole && !w->line && scan_word(t, i, w->open ? w->open : w->begin))
			return true;
	}
	return false;
}

/* ---- states ---- */

/* Each function takes a part of the answer, or sets SCAN_MORE. */

static char split_before(const struct split *s)
{
	return s->at > 0 ? s->text.bytes[s->at - 1] : '\0';
}

static void split_at_start(struct split *s, struct split_scan *t)
{
	size_t i = s->thinking == THINKING_OFF ? 0 : scan_space(t, 0);
	const char *mark = s->form->think_begin;
	bool marked = s->thinking != THINKING_OFF && scan_word(t, i, mark);
	if (t->state != SCAN_GOOD)
		return;
	s->where = marked || s->thinking == THINKING_OPEN ? IN_THOUGHTS
		   : s->form->channels			  ? IN_HEAD
							  : IN_CONTENT;
	if (s->where == IN_THOUGHTS)
		s->at = marked ? i + strlen(mark) : i;
}

/* A call among thoughts is part of the thoughts if their end mark follows: waits until that is
 * known. */
static bool split_held_by_a_call(struct split *s, struct split_scan *t)
{
	const char *end = s->form->think_end;
	bool line = split_before(s) == '\n' || s->thoughts.n == 0;
	if (!s->tools || !line || !split_stands_a_call(s, t, s->at))
		return t->state != SCAN_GOOD;
	if (memmem(t->bytes + s->at, t->n - s->at, end, strlen(end)))
		return false;
	if (!t->whole && !s->cut)
		t->state = SCAN_MORE;
	else if (split_calls_to_the_end(s, t, s->at, false)) {
		s->at = t->n;
		s->held.n = 0;
		s->where = BEHIND_THOUGHTS;
		return true;
	} else if (!t->whole && split_may_become_calls(s, s->at))
		t->state = SCAN_MORE;
	return t->state != SCAN_GOOD;
}

static void split_in_thoughts(struct split *s, struct split_scan *t)
{
	const char *end = s->form->think_end;
	int c = scan_at(t, s->at);
	bool ends = c == end[0] && scan_word(t, s->at, end);
	bool broken = s->form->channels && c == '<' && !ends && split_channel_end(t, s->at);
	if (t->state == SCAN_GOOD && (ends || broken)) {
		s->where = s->form->channels ? IN_HEAD : BEHIND_THOUGHTS;
		s->held.n = 0;
		s->at += ends ? strlen(end) : 0;
		return;
	}
	if (t->state != SCAN_GOOD || (s->begins[c] && split_held_by_a_call(s, t)))
		return;
	if (!scan_is_space(c)) {
		text_out_add(&s->thoughts, s->held.bytes, s->held.n);
		text_out_add(&s->thoughts, t->bytes + s->at, 1);
		s->held.n = 0;
	} else if (s->thoughts.n > 0)
		text_out_add(&s->held, t->bytes + s->at, 1);
	s->at++;
}

static void split_behind_thoughts(struct split *s, struct split_scan *t)
{
	s->at = scan_space(t, s->at);
	if (t->state == SCAN_GOOD)
		s->where = IN_CONTENT;
}

/* After a call or a message: further content is joined by one newline. */
static void split_begin_part(struct split *s)
{
	s->held.n = 0;
	s->after_call = s->fresh = true;
}

/* Between messages in channels: reads the head of the next message. */
static void split_in_head(struct split *s, struct split_scan *t)
{
	struct channel_head head;
	struct split_scan own = *t;
	size_t end = split_channel_head(&own, s->at, &head);
	bool thoughts = head.channel == CHANNEL_ANALYSIS && !head.recipient;
	bool good = own.state == SCAN_GOOD && !(thoughts && s->thinking == THINKING_OFF);
	if (own.state == SCAN_GOOD && head.recipient) {
		end = s->tools ? split_channel_call(&own, end, &head, &s->calls) : end;
		good = s->tools && own.state == SCAN_GOOD;
	}
	if (own.state == SCAN_MORE) {
		t->state = SCAN_MORE;
		return;
	}
	if (good && head.recipient)
		split_begin_part(s);
	else
		s->where = good && thoughts ? IN_THOUGHTS : IN_CONTENT;
	s->as_it_is = !good;
	s->thought |= good && head.channel == CHANNEL_FINAL;
	s->at = good ? end : s->at;
	if (s->where == IN_THOUGHTS && s->thoughts.n > 0)
		text_out_string(&s->held, "\n");
}

/* Whether a message in channels ends here. */
static bool split_ends_message(struct split *s, struct split_scan *t)
{
	const char *end = split_channel_end(t, s->at);
	if (!end)
		return false;
	bool next = strcmp(end, CHANNEL_START) == 0;
	if (next && s->as_it_is && s->fresh)
		return false; /* the mark begins this message itself */
	if (s->as_it_is || strcmp(end, CHANNEL_RETURN) == 0) {
		text_out_add(&s->content, s->held.bytes, s->held.n);
		text_out_string(&s->content, s->as_it_is && !next ? end : "");
	}
	split_begin_part(s);
	s->after_call = s->content.n > 0;
	s->at += next ? 0 : strlen(end);
	s->where = IN_HEAD;
	return true;
}

/* Takes a mark of the form, with the calls that the mark begins. False: there is none. */
static bool split_take_marks(struct split *s, struct split_scan *t)
{
	if (s->form->channels)
		return split_ends_message(s, t);
	size_t from = s->at, count = s->calls.count;
	bool line = s->fresh || split_before(s) == '\n';
	s->at = split_close(t, s->at, &s->open);
	if (s->at == from && t->state == SCAN_GOOD) {
		const struct call_way *open = s->open;
		s->at = split_read_calls(s, t, s->at, line, &open);
		s->open = s->calls.count > count ? open : s->open;
	}
	if (s->calls.count > count)
		split_begin_part(s);
	else if (s->at == from && t->state == SCAN_GOOD)
		s->at = split_silent(s, t, s->at);
	return s->at > from;
}

static void split_in_content(struct split *s, struct split_scan *t)
{
	int c = scan_at(t, s->at);
	if (t->state != SCAN_GOOD)
		return;
	if (s->begins[c] && (split_take_marks(s, t) || t->state != SCAN_GOOD))
		return;
	if (scan_is_space(c)) {
		text_out_add(&s->held, t->bytes + s->at++, 1);
		return;
	}
	if (s->after_call) {
		s->held.n = 0;
		if (s->content.n > 0)
			text_out_string(&s->held, "\n");
	}
	text_out_add(&s->content, s->held.bytes, s->held.n);
	text_out_add(&s->content, t->bytes + s->at++, 1);
	s->held.n = 0;
	s->after_call = s->fresh = false;
	s->open = NULL;
}

/* ---- the interface ---- */

void split_set_form(struct split *s, const struct split_form *form)
{
	s->form = form;
	memset(s->begins, 0, sizeof s->begins);
	for (size_t i = 0; i < FORM_WAYS_MAX && form->ways[i].begin; i++) {
		const struct call_way *w = &form->ways[i];
		s->begins[(unsigned char)w->begin[0]] = true;
		s->begins[(unsigned char)(w->open ? w->open : w->begin)[0]] = true;
		s->begins[(unsigned char)(w->close ? w->close : w->begin)[0]] = true;
	}
	for (size_t i = 0; i < FORM_WORDS_MAX && form->silent[i]; i++)
		s->begins[(unsigned char)form->silent[i][0]] = true;
	s->begins['<'] |= form->channels;
}

struct split *split_new(const struct json *tools, enum split_thinking thinking)
{
	struct split *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->tools = json_count(tools) > 0 ? tools : NULL;
	s->thinking = thinking;
	s->fresh = true;
	split_set_form(s, split_form_named(NULL));
	return s;
}

void split_free(struct split *s)
{
	if (!s)
		return;
	text_out_free(&s->text);
	text_out_free(&s->held);
	text_out_free(&s->thoughts);
	text_out_free(&s->content);
	calls_free(&s->calls);
	free(s);
}

/* ---- the machine ---- */

static int split_run(struct split *s, bool whole, struct err *e)
{
	static void (*const states[])(struct split *, struct split_scan *) = {
		[AT_START] = split_at_start,
		[IN_THOUGHTS] = split_in_thoughts,
		[BEHIND_THOUGHTS] = split_behind_thoughts,
		[IN_HEAD] = split_in_head,
		[IN_CONTENT] = split_in_content,
	};
	struct split_scan t = {.bytes = s->text.bytes, .n = s->text.n, .whole = whole};
	while (t.state == SCAN_GOOD && (s->at < t.n || s->where < IN_HEAD)) {
		if (s->where == IN_THOUGHTS && s->at == t.n)
			break;
		states[s->where](s, &t);
	}
	/* A long undecided text is scanned again only when it has grown by a fraction: that keeps
	 * the total time almost linear. */
	s->again = s->text.n + (s->text.n - s->at) / 1024;
	bool failed = s->text.failed || s->held.failed || s->thoughts.failed || s->content.failed ||
		      s->calls.failed;
	return failed ? err_set(e, ENOMEM, "out of memory for the answer") : 0;
}

int split_feed(struct split *s, const char *bytes, size_t n, struct err *e)
{
	text_out_add(&s->text, bytes, n);
	return n == 0 || (s->text.n < s->again && !s->text.failed) ? 0 : split_run(s, false, e);
}

int split_finish(struct split *s, struct err *e)
{
	int rc = split_run(s, true, e);
	if (s->where == IN_CONTENT && !s->after_call) {
		text_out_add(&s->content, s->held.bytes, s->held.n);
		s->held.n = 0;
	}
	s->thought = true;
	return rc;
}

struct split_result split_result(const struct split *s)
{
	bool may_think = s->where < BEHIND_THOUGHTS || (s->form->channels && !s->thought);
	bool space = s->where == IN_CONTENT && !s->after_call && s->held.n;
	return (struct split_result){.thoughts = s->thoughts.n ? s->thoughts.bytes : "",
				     .content = s->content.n ? s->content.bytes : "",
				     .thoughts_n = s->thoughts.n,
				     .content_n = s->content.n,
				     .calls = &s->calls,
				     .thinking = may_think,
				     .space = space ? s->held.bytes : "",
				     .space_n = space ? s->held.n : 0};
}

/* Whether the undecided end of the text is a call that has begun: its whole mark is there, or a
 * head that names a function. */
static bool split_is_in_call(const struct split *s)
{
	struct split_scan t = {.bytes = s->text.bytes, .n = s->text.n};
	struct channel_head head;
	if (!s->tools || s->at == s->text.n)
		return false;
	if (s->where == IN_HEAD) {
		(void)split_channel_head(&t, s->at, &head);
		return t.state == SCAN_GOOD && head.recipient;
	}
	for (size_t k = 0; k < FORM_WAYS_MAX && s->form->ways[k].begin; k++) {
		struct split_scan own = t;
		size_t i = s->at;
		if (split_begins_way(&s->form->ways[k], s->open, &own, &i) &&
		    own.state == SCAN_GOOD)
			return true;
	}
	return false;
}

enum split_place split_place(const struct split *s)
{
	if (split_is_in_call(s))
		return SPLIT_IN_CALL;
	return s->where == IN_THOUGHTS ? SPLIT_IN_THOUGHTS : SPLIT_ELSEWHERE;
}

/* Leaves out the undecided end of a text that was cut off, except for complete calls. */
static void split_leave_out(struct split *s)
{
	struct split_scan t = {.bytes = s->text.bytes, .n = s->text.n, .whole = true, .cut = true};
	size_t calls = s->calls.count;
	bool line = s->fresh || s->text.bytes[s->at - 1] == '\n';
	if (s->where == IN_HEAD)
		split_in_head(s, &t);
	else if (s->where == IN_CONTENT && !s->form->channels)
		(void)split_calls_to_the_end(s, &t, s->at, line);
	if (s->calls.count > calls)
		split_begin_part(s);
	s->at = s->text.n;
	s->held.n = 0;
}

int split_cut(struct split *s, struct err *e)
{
	s->cut = true;
	int rc = split_run(s, false, e);
	if (s->at < s->text.n && !split_is_plain(s))
		split_leave_out(s);
	s->cut = false;
	return rc < 0 ? rc : split_finish(s, e);
}

enum split_thinking split_thinking_of(const char *rendered, size_t n)
{
	const struct split_form *form;
	while (n > 0 && scan_is_space(rendered[n - 1]))
		n--;
	for (size_t i = 0; (form = split_form_at(i)); i++) {
		size_t mark = strlen(form->think_begin);
		if (n >= mark && memcmp(rendered + n - mark, form->think_begin, mark) == 0)
			return THINKING_OPEN;
	}
	return THINKING_AUTO;
}
