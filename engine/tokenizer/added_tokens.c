/* Added tokens: which of them are control tokens, and finding them in a text.
 *
 * Tokens such as <|im_start|> are looked for before anything else: the leftmost first, and of
 * those that begin at the same place the longest. The flags mean what they mean in Hugging
 * Face's tokenizers.
 *
 * The tokens, sorted by text, are their own search tree: tokens that share the prefix read so
 * far are neighbours, and each further byte narrows the range by binary search. */
#include "engine/tokenizer/added_tokens.h"

#include "cache/utf8.h"
#include "engine/tokenizer/token.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Marks of answers: they begin and end thinking, calls and arguments. By family. */
static const char *const MARKS[] = {
	"<think>",
	"</think>",
	"<tool_call>",
	"</tool_call>",
	"<arg_key>", /* GLM */
	"</arg_key>",
	"<arg_value>",
	"</arg_value>",
	"<minimax:tool_call>",
	"</minimax:tool_call>",
	"<seed:think>",
	"</seed:think>",
	"<seed:tool_call>",
	"</seed:tool_call>",
	"<tool_calls>", /* Jamba */
	"</tool_calls>",
	"<TOOLCALL>", /* Nemotron */
	"</TOOLCALL>",
	"[THINK]", /* Mistral */
	"[/THINK]",
	"[TOOL_CALLS]",
	"[ARGS]",
	"[CALL_ID]",
	"<|tool_call|>", /* Granite, Phi */
	"<|/tool_call|>",
	"<|tool_call>", /* Gemma */
	"<tool_call|>",
	"<|tool_call_start|>", /* LFM */
	"<|tool_call_end|>",
	"<|tool_calls_section_begin|>", /* Kimi */
	"<|tool_calls_section_end|>",
	"<|tool_call_begin|>",
	"<|tool_call_argument_begin|>",
	"<|tool_call_end|>",
	"<\uff5ctool\u2581calls\u2581begin\uff5c>", /* DeepSeek */
	"<\uff5ctool\u2581calls\u2581end\uff5c>",
	"<\uff5ctool\u2581call\u2581begin\uff5c>",
	"<\uff5ctool\u2581call\u2581end\uff5c>",
	"<\uff5ctool\u2581sep\uff5c>",
	"<|START_THINKING|>", /* Command */
	"<|END_THINKING|>",
	"<|START_ACTION|>",
	"<|END_ACTION|>",
	"<|python_tag|>", /* Llama */
	"<|python_start|>",
	"<|python_end|>",
	"<|channel>", /* Gemma */
	"<channel|>",
	"<|\"|>",
	"\uff5cDSML\uff5c", /* DeepSeek */
	"<tool_sep>",	    /* Hunyuan */
	"<|tools_prefix|>", /* Apertus */
	"<|tools_suffix|>",
	"<|inner_prefix|>",
	"<|inner_suffix|>",
	"<|thought_start|>", /* MiniCPM */
	"<|thought_end|>",
	"<function_calls>", /* OLMo */
	"</function_calls>",
};

/* Control tokens of prompts that no file marks as special. */
static const char *const CONTROLS[] = {"<tool_response>", "</tool_response>", "<tools>",
				       "</tools>",	  "[INST]",	      "[/INST]"};

static bool token_is_one_of(const char *const *list, size_t count, const char *text, size_t n)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(list[i]) == n && memcmp(list[i], text, n) == 0)
			return true;
	return false;
}

static bool token_begins_with(const char *text, size_t n, const char *with)
{
	size_t length = strlen(with);
	return n >= length && memcmp(text, with, length) == 0;
}

static bool token_ends_with(const char *text, size_t n, const char *with)
{
	size_t length = strlen(with);
	return n >= length && memcmp(text + n - length, with, length) == 0;
}

enum token_right token_needed_right(const char *text, size_t n, bool special)
{
	if (token_is_one_of(MARKS, sizeof MARKS / sizeof *MARKS, text, n))
		return MAY_MARKS;
	/* <|NAME|>, with any family's bars. */
	bool bars = (token_begins_with(text, n, "<|") && token_ends_with(text, n, ">")) ||
		    (token_begins_with(text, n, "<") && token_ends_with(text, n, "|>")) ||
		    (token_begins_with(text, n, "<\uff5c") && token_ends_with(text, n, "\uff5c>"));
	bool control = special || bars ||
		       token_is_one_of(CONTROLS, sizeof CONTROLS / sizeof *CONTROLS, text, n);
	return control ? MAY_ALL : MAY_TEXT;
}

/* ---- finding them in a text ---- */

int added_tokens_append(struct added_tokens *a, const struct added_token *token, struct err *e)
{
	if (a->count == a->capacity) {
		size_t capacity = 2 * a->capacity + 16;
		struct added_token *items = realloc(a->items, capacity * sizeof *items);
		if (!items)
			return err_set(e, ENOMEM, "out of memory for added tokens");
		a->items = items;
		a->capacity = capacity;
	}
	char *text = malloc((size_t)token->length + 1);
	if (!text)
		return err_set(e, ENOMEM, "out of memory for added tokens");
	memcpy(text, token->text, token->length);
	text[token->length] = '\0';
	a->items[a->count] = *token;
	a->items[a->count++].text = text;
	return 0;
}

static int added_compare_texts(const char *a, size_t a_n, const char *b, size_t b_n)
{
	int order = memcmp(a, b, a_n < b_n ? a_n : b_n);
	return order ? order : (a_n > b_n) - (a_n < b_n);
}

static int added_compare_tokens(const void *a, const void *b)
{
	const struct added_token *x = a, *y = b;
	int order = added_compare_texts(x->text, x->length, y->text, y->length);
	return order ? order : (x->id > y->id) - (x->id < y->id);
}

static bool added_same_text(const struct added_token *x, const struct added_token *y)
{
	return added_compare_texts(x->text, x->length, y->text, y->length) == 0;
}

int added_tokens_finish(struct added_tokens *a, const char *name, struct err *e)
{
	if (a->count == 0)
		return 0;
	qsort(a->items, a->count, sizeof *a->items, added_compare_tokens);
	for (size_t i = 1; i < a->count; i++) {
		const struct added_token *t = &a->items[i], *last = t - 1;
		if (added_same_text(t, last) && (!t->normalized || t->id == last->id))
			return err_set(e, EINVAL, "%s: the added token \"%s\" occurs twice", name,
				       t->text);
	}
	size_t kept = 1;
	for (size_t i = 1; i < a->count; i++) {
		if (added_same_text(&a->items[i], &a->items[kept - 1]))
			free(a->items[i].text);
		else
			a->items[kept++] = a->items[i];
	}
	a->count = kept;
	for (size_t i = 0; i < kept; i++)
		a->first[(uint8_t)a->items[i].text[0]] = true;
	return 0;
}

void added_tokens_free(struct added_tokens *a)
{
	for (size_t i = 0; i < a->count; i++)
		free(a->items[i].text);
	free(a->items);
	*a = (struct added_tokens){0};
}

int64_t added_tokens_find(const struct added_tokens *a, const char *text, size_t n)
{
	size_t low = 0, high = a->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct added_token *t = &a->items[middle];
		int order = added_compare_texts(t->text, t->length, text, n);
		if (order == 0)
			return t->id;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return -1;
}

/* The first token in [low, high) whose byte at `at` is not less than `byte`. All tokens in the
 * range share the bytes before `at`; a token that ends there sorts first. */
static size_t added_lower_bound(const struct added_tokens *a, size_t low, size_t high, size_t at,
				unsigned byte)
{
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct added_token *t = &a->items[middle];
		if (t->length <= at || (uint8_t)t->text[at] < byte)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The longest token that text[n] begins with and whose bytes all have the right it needs; NULL
 * if there is none. */
static const struct added_token *added_longest_at(const struct added_tokens *a, const char *text,
						  size_t n, const uint8_t *rights)
{
	const struct added_token *best = NULL;
	size_t low = 0, high = a->count;
	uint8_t right = MAY_ALL;
	for (size_t at = 0; at < n && low < high; at++) {
		unsigned byte = (uint8_t)text[at];
		right = rights && rights[at] < right ? rights[at] : right;
		low = added_lower_bound(a, low, high, at, byte);
		high = added_lower_bound(a, low, high, at, byte + 1);
		/* The shortest of a range is its first: the prefix itself, if it is a token. */
		if (low < high && a->items[low].length == at + 1 && a->items[low].wants <= right)
			best = &a->items[low];
	}
	return best;
}

/* White_Space and \w as defined by Unicode and by Rust's regex, which Hugging Face uses here. */
static bool added_is_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || c == 0x85 ||
	       (utf8proc_category((utf8proc_int32_t)c) >= UTF8PROC_CATEGORY_ZS &&
		utf8proc_category((utf8proc_int32_t)c) <= UTF8PROC_CATEGORY_ZP);
}

static bool added_is_word_char(uint32_t c)
{
	switch (utf8proc_category((utf8proc_int32_t)c)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO:
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_MC:
	case UTF8PROC_CATEGORY_ME:
	case UTF8PROC_CATEGORY_ND:
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_PC:
		return true;
	case UTF8PROC_CATEGORY_SO: /* circled and squared letters are alphabetic */
		return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
		       (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
	default:
		return c == 0x200c || c == 0x200d; /* joiners */
	}
}

/* Whether text[start .. end) is not part of a longer word. */
static bool added_stands_alone(const char *text, size_t n, size_t start, size_t end)
{
	size_t step;
	if (start > 0 && added_is_word_char(utf8_decode(text + utf8_begin(text, start - 1), &step)))
		return false;
	return end == n || !added_is_word_char(utf8_decode(text + end, &step));
}

bool added_tokens_next(const struct added_tokens *a, const char *text, size_t n,
		       struct added_scan *scan, struct added_hit *hit)
{
	const struct added_token *t = NULL;
	size_t start, end = scan->next, step;
	for (start = scan->next; start < n && !token_stop_asked(scan->stop); start = end) {
		t = a->first[(uint8_t)text[start]]
			    ? added_longest_at(a, text + start, n - start,
					       scan->rights ? scan->rights + start : NULL)
			    : NULL;
		end = start + (t ? t->length : 1);
		if (t && (!t->single_word || added_stands_alone(text, n, start, end)))
			break;
		t = NULL;
	}
	scan->next = end;
	hit->gap = scan->from;
	if (!t) {
		hit->gap_length = n - scan->from;
		hit->id = -1;
		scan->from = n;
		return hit->gap_length > 0;
	}
	if (t->lstrip)
		while (start > scan->from &&
		       added_is_space(utf8_decode(text + utf8_begin(text, start - 1), &step)))
			start = utf8_begin(text, start - 1);
	/* What the token before took with it is white space up to scan->from: not passed again. */
	if (t->rstrip && end < scan->from)
		end = scan->from;
	if (t->rstrip)
		for (; end < n && added_is_space(utf8_decode(text + end, &step)); end += step)
			;
	hit->gap_length = start > scan->from ? start - scan->from : 0;
	hit->id = t->id;
	scan->from = end;
	return true;
}
