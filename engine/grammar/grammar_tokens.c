#include "engine/grammar/grammar_tokens.h"

#include "cache/utf8.h"

#include "engine/grammar/grammar_expr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- groups of bytes ---- */

/* Groups of bytes: letters, digits and ranges of UTF-8; bytes that mean something in many
 * grammars are groups of their own. */
static const struct {
	uint8_t least, most;
} groups[] = {
	{0, 8},	      {9, 9},	    {10, 10},	  {11, 12},	{13, 13},     {14, 31},
	{' ', ' '},   {'!', '!'},   {'"', '"'},	  {'#', '#'},	{'$', '$'},   {'%', '%'},
	{'&', '&'},   {'\'', '\''}, {'(', '('},	  {')', ')'},	{'*', '*'},   {'+', '+'},
	{',', ','},   {'-', '-'},   {'.', '.'},	  {'/', '/'},	{'0', '0'},   {'1', '9'},
	{':', ':'},   {';', ';'},   {'<', '<'},	  {'=', '='},	{'>', '>'},   {'?', '?'},
	{'@', '@'},   {'A', 'F'},   {'G', 'Z'},	  {'[', '['},	{'\\', '\\'}, {']', ']'},
	{'^', '^'},   {'_', '_'},   {'`', '`'},	  {'a', 'f'},	{'g', 'z'},   {'{', '{'},
	{'|', '|'},   {'}', '}'},   {'~', '~'},	  {127, 127},	{0x80, 0x8f}, {0x90, 0x9f},
	{0xa0, 0xbf}, {0xc0, 0xc1}, {0xc2, 0xdf}, {0xe0, 0xe0}, {0xe1, 0xec}, {0xed, 0xed},
	{0xee, 0xef}, {0xf0, 0xf0}, {0xf1, 0xf3}, {0xf4, 0xf4}, {0xf5, 0xfe}, {0xff, 0xff},
};
_Static_assert(sizeof groups / sizeof *groups <= BYTE_GROUPS, "a group is a bit of 64");
enum { FIRST_BEYOND = 46 }; /* 0x80 to 0x8f */
_Static_assert(GROUPS_ASCII == ((uint64_t)1 << FIRST_BEYOND) - 1, "those before it are ASCII");

uint8_t grammar_byte_group(uint8_t byte)
{
	uint8_t group = 0;
	while (byte > groups[group].most)
		group++;
	return group;
}

/* ---- bytes of tokens ---- */

/* The bytes of a token, and whether it is a mark. A control token is text only if it is a mark
 * of the form. */
static const char *token_bytes(const struct tokenizer *t, const struct split_form *writes,
			       uint32_t id, size_t *n, bool *mark)
{
	const char *bytes = tokenizer_bytes(t, id, false, n);
	*mark = *n && token_needed_right(bytes, *n, false) != MAY_TEXT;
	if (*n && !*mark && memchr(bytes, GRAMMAR_MARK, *n)) {
		*n = 0; /* no text has this byte, and the token would pass for a mark */
		return bytes;
	}
	if (*n || !writes)
		return bytes;
	bytes = tokenizer_bytes(t, id, true, n);
	*mark = *n && split_form_marks(writes, bytes, *n);
	*n = *mark ? *n : 0;
	return bytes;
}

size_t grammar_token_bytes(const struct tokenizer *t, const struct split_form *writes, uint32_t id,
			   char bytes[GRAMMAR_MAX_TOKEN + 1])
{
	size_t n;
	bool mark;
	const char *text = token_bytes(t, writes, id, &n, &mark);
	if (!n || n > GRAMMAR_MAX_TOKEN)
		return 0;
	if (mark)
		bytes[0] = (char)GRAMMAR_MARK;
	memcpy(bytes + mark, text, n);
	return mark + n;
}

bool grammar_is_mark(const struct tokenizer *t, const struct split_form *writes, const char *text)
{
	size_t n;
	bool mark = false;
	int64_t id = tokenizer_find(t, text);
	if (id >= 0)
		token_bytes(t, writes, (uint32_t)id, &n, &mark);
	return mark;
}

/* ---- the tree ---- */

struct token_spelled {
	const char *bytes;
	uint16_t length;
	bool mark;
	uint32_t id;
};

static int token_byte_at(const struct token_spelled *s, size_t i)
{
	if (i >= s->length + (size_t)s->mark)
		return -1;
	return s->mark && !i ? GRAMMAR_MARK : (uint8_t)s->bytes[i - s->mark];
}

static int token_by_bytes(const void *one, const void *other)
{
	const struct token_spelled *a = one, *b = other;
	if (a->mark != b->mark)
		return a->mark ? 1 : -1;
	size_t least = a->length < b->length ? a->length : b->length;
	int differ = memcmp(a->bytes, b->bytes, least);
	if (differ)
		return differ;
	if (a->length != b->length)
		return a->length < b->length ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

struct token_source { /* input of a tree */
	const struct tokenizer *tokenizer;
	const struct split_form *writes;
	const uint32_t *ends;
	uint32_t end_count;
};

/* Lists the tokens that are text; others go to `never`, except those that end an answer. */
static uint32_t tokens_spell(struct grammar_tokens *t, const struct token_source *from,
			     struct token_spelled *list)
{
	uint32_t count = 0;
	for (uint32_t id = 0; id < t->vocabulary; id++) {
		struct token_spelled s = {.id = id};
		size_t n;
		bool ends = false;
		for (uint32_t i = 0; i < from->end_count; i++)
			ends |= from->ends[i] == id;
		if (ends)
			continue;
		s.bytes = token_bytes(from->tokenizer, from->writes, id, &n, &s.mark);
		s.length = (uint16_t)n;
		if (n && n <= GRAMMAR_MAX_TOKEN)
			list[count++] = s;
		else
			t->never[t->never_count++] = id;
	}
	qsort(list, count, sizeof *list, token_by_bytes);
	return count;
}

static bool tokens_add_node(struct grammar_tokens *t, uint32_t *room, uint32_t first, size_t depth,
			    int byte)
{
	struct token_node *nodes = grammar_grown(t->nodes, t->count, room, sizeof *nodes);
	if (!nodes)
		return false;
	t->nodes = nodes;
	t->nodes[t->count++] =
		(struct token_node){.first = first, .depth = (uint8_t)depth, .byte = (uint8_t)byte};
	return true;
}

/* Adds a node for each byte that a token does not share with the token before. */
static bool tokens_plant(struct grammar_tokens *t, const struct token_spelled *list, uint32_t count)
{
	uint32_t room = 0;
	bool done = tokens_add_node(t, &room, 0, 0, 0);
	for (uint32_t i = 0; i < count && done; i++) {
		size_t d = 0;
		while (i && token_byte_at(&list[i], d) >= 0 &&
		       token_byte_at(&list[i], d) == token_byte_at(&list[i - 1], d))
			d++;
		for (; token_byte_at(&list[i], d) >= 0 && done; d++)
			done = tokens_add_node(t, &room, i, d + 1, token_byte_at(&list[i], d));
		t->order[i] = list[i].id;
	}
	return done && tokens_add_node(t, &room, count, 0, 0) && t->count--;
}

struct token_path { /* the path to the last node, by depth */
	uint32_t at[GRAMMAR_MAX_TOKEN + 2];
	uint8_t left[GRAMMAR_MAX_TOKEN + 2], from[GRAMMAR_MAX_TOKEN + 2], to[GRAMMAR_MAX_TOKEN + 2];
	bool good[GRAMMAR_MAX_TOKEN + 2]; /* all bytes read so far are UTF-8 */
	uint32_t depth;
};

/* Completes the last node of the path and updates its parent. */
static void tokens_close_node(struct grammar_tokens *t, struct token_path *p, uint32_t end)
{
	struct token_node *n = &t->nodes[p->at[p->depth]];
	n->end = end;
	n->tokens = t->nodes[end].first - n->first;
	if (!p->depth)
		return;
	struct token_node *above = &t->nodes[p->at[--p->depth]];
	above->groups |= n->groups | (uint64_t)1 << grammar_byte_group(n->byte);
	if (above->height <= n->height)
		above->height = n->height + 1;
	above->well &= p->good[p->depth + 1];
	p->good[p->depth] &= p->good[p->depth + 1];
}

/* Whether a byte continues UTF-8; *left counts the missing bytes of a character, *from and *to
 * bound the next. */
static bool token_utf8_goes_on(uint8_t byte, uint8_t *left, uint8_t *from, uint8_t *to)
{
	uint8_t least = *from, most = *to;
	*from = 0x80;
	*to = 0xbf;
	if (*left) {
		(*left)--;
		return byte >= least && byte <= most;
	}
	*left = byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
	utf8_second_byte(byte, from, to);
	return utf8_promised_length((char)byte) > 0;
}

static void tokens_open_node(struct grammar_tokens *t, struct token_path *p, uint32_t i)
{
	struct token_node *n = &t->nodes[i];
	uint32_t d = ++p->depth;
	p->at[d] = i;
	p->left[d] = p->left[d - 1];
	p->from[d] = p->from[d - 1];
	p->to[d] = p->to[d - 1];
	p->good[d] = token_utf8_goes_on(n->byte, &p->left[d], &p->from[d], &p->to[d]);
	if (p->left[d] == 1 && n->byte == 0x80 && t->nodes[p->at[d - 1]].byte == 0xe2)
		p->to[d] =
			0xa7; /* excludes U+2028 and 2029: line ends are not part of every loop */
	n->well = p->good[d] && !p->left[d];
}

static void tokens_measure(struct grammar_tokens *t)
{
	struct token_path p = {0};
	for (uint32_t i = 1; i < t->count; i++) {
		while (p.depth >= t->nodes[i].depth)
			tokens_close_node(t, &p, i);
		tokens_open_node(t, &p, i);
	}
	while (p.depth)
		tokens_close_node(t, &p, t->count);
	tokens_close_node(t, &p, t->count);
}

static int tokens_plant_all(struct grammar_tokens *t, const struct token_source *from,
			    struct err *e)
{
	size_t room = (size_t)t->vocabulary + from->end_count + 1;
	struct token_spelled *list = malloc(room * sizeof *list);
	t->order = malloc(room * sizeof *t->order);
	t->never = malloc(room * sizeof *t->never);
	bool done = list && t->order && t->never;
	if (done) {
		t->text_count = tokens_spell(t, from, list);
		done = tokens_plant(t, list, t->text_count);
	}
	free(list);
	if (!done)
		return err_set(e, ENOMEM, "out of memory for the vocabulary's tree");
	for (uint32_t i = 0; i < from->end_count; i++)
		if (from->ends[i] < t->vocabulary)
			t->order[t->text_count + t->end_count++] = from->ends[i];
	tokens_measure(t);
	return 0;
}

int grammar_tokens_new(struct grammar_tokens **out, const struct tokenizer *t,
		       const struct split_form *writes, uint32_t vocabulary, const uint32_t *ends,
		       uint32_t end_count, struct err *e)
{
	const struct token_source from = {t, writes, ends, end_count};
	struct grammar_tokens *made = calloc(1, sizeof *made);
	if (!made)
		return err_set(e, ENOMEM, "out of memory for the vocabulary's tree");
	made->vocabulary = vocabulary;
	int failed = tokens_plant_all(made, &from, e);
	if (failed)
		grammar_tokens_free(made);
	else
		*out = made;
	return failed;
}

void grammar_tokens_free(struct grammar_tokens *t)
{
	if (!t)
		return;
	free(t->nodes);
	free(t->order);
	free(t->never);
	free(t);
}
