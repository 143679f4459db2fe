#include "engine/answer/split_channels.h"

#include <string.h>

const char *scan_channel_end(struct scan *s, size_t i)
{
	static const char *const ENDS[] = {CHANNEL_END, CHANNEL_RETURN, CHANNEL_CALL,
					   CHANNEL_START};
	for (size_t k = 0; k < sizeof ENDS / sizeof *ENDS; k++)
		if (scan_word(s, i, ENDS[k]))
			return ENDS[k];
	return NULL;
}

/* Behind the word at i: up to a space or a mark. */
static size_t scan_head_word(struct scan *s, size_t i)
{
	for (int c; (c = scan_at(s, i)) > ' ' && c != '<';)
		i++;
	return i;
}

static bool is_word(const char *text, size_t n, const char *word)
{
	return n == strlen(word) && memcmp(text, word, n) == 0;
}

/* What a word of the head says. */
static void read_head_word(const char *text, size_t n, bool names_channel,
			   struct channel_head *head)
{
	static const char TO[] = "to=";
	size_t to = sizeof TO - 1;
	if (names_channel)
		head->channel = is_word(text, n, "analysis") ? CHANNEL_ANALYSIS
				: is_word(text, n, "final")  ? CHANNEL_FINAL
							     : CHANNEL_OTHER;
	else if (n > to && memcmp(text, TO, to) == 0) {
		head->recipient = text + to;
		head->recipient_n = n - to;
	}
}

size_t scan_channel_head(struct scan *s, size_t i, struct channel_head *head)
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
		if (!name && !constrain)
			i = scan_head_word(s, i);
		if (i == word || scan_at(s, i) < 0)
			scan_fail(s);
		if (s->state == SCAN_GOOD && !name && !constrain)
			read_head_word(s->bytes + word, i - word, names_channel, head);
		any |= name || head->recipient;
		names_channel = name;
	}
	return i;
}

size_t scan_channel_call(struct scan *s, size_t i, const struct channel_head *head,
			 struct calls *calls)
{
	static const char KIND[] = "functions.";
	size_t kind = sizeof KIND - 1, from = i = scan_space(s, i);
	if (scan_at(s, i) != '{')
		scan_fail(s);
	size_t to = scan_json(s, i);
	i = scan_space(s, to);
	const char *end = scan_channel_end(s, i);
	if (!end && scan_at(s, i) >= 0)
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	const char *text = head->recipient;
	size_t n = head->recipient_n;
	if (n > kind && memcmp(text, KIND, kind) == 0) {
		text += kind;
		n -= kind;
	}
	struct text_out name = {0}, arguments = {0};
	struct json *parsed;
	struct err ignored = {0};
	if (memchr(text, '\0', n) ||
	    json_parse_text(&parsed, s->bytes + from, to - from, "arguments", &ignored) < 0) {
		scan_fail(s);
		return i;
	}
	text_out_add(&name, text, n);
	text_out_json(&arguments, parsed);
	json_free(parsed);
	if (!calls_append(calls, &name, &arguments))
		scan_fail(s);
	return end && strcmp(end, CHANNEL_START) != 0 ? i + strlen(end) : i;
}
