/* Any bytes as a JSON schema or a regular expression, and then as a text that must match it: no
 * crash, bounded work, and masks that agree with single tokens.
 *
 * The first byte says the form and how the answer begins; the source ends at the first NUL, the
 * text follows. */
#include "engine/grammar/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A small vocabulary: tokens of JSON and regexes, and invalid UTF-8. */
static const char *const pieces[] = {
	"{",   "}",   "[",  "]",    "\"",   "\":",	"\",",	"\": \"", ",",
	":",   " ",   "\n", "a",    "b",    "ab",	"abc",	"0",	  "1",
	"12",  "-",   ".",  "e",    "t",    "true",	"nu",	"null",	  "\\",
	"\\n", "\\u", "00", "\303", "\251", "\303\251", "\377", "  ",	  "aaaaaaaa",
};
enum { PIECES = sizeof pieces / sizeof *pieces, STEPS = 24 };

static struct tokenizer *vocabulary(void)
{
	static char text[8192] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{";
	struct tokenizer *t;
	struct err e = {0};
	for (int i = 0; i < PIECES; i++) { /* spelled as GPT-2 does: each byte a character */
		char *at = text + strlen(text);
		at += sprintf(at, "%s\"", i ? "," : "");
		for (const uint8_t *c = (const uint8_t *)pieces[i]; *c; c++) {
			uint32_t shown = *c > 32 && *c < 127 ? *c
					 : *c == ' '	     ? 0x120
					 : *c == '\n'	     ? 0x10a
							     : *c;
			at += sprintf(at, shown == '"' || shown == '\\' ? "\\%c" : "\\u%04x",
				      shown);
		}
		(void)sprintf(at, "\":%d", i);
	}
	strcat(text,
	       "},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
	       "false,\"use_regex\":false},\"decoder\":{\"type\":\"ByteLevel\"}}");
	if (tokenizer_open_text(&t, text, strlen(text), "fuzz", &e)) {
		(void)fprintf(stderr, "%s\n", e.text);
		abort();
	}
	return t;
}

/* Each token by itself. */
static void compare(struct grammar *g, const struct tokenizer *v, const struct grammar_tokens *t,
		    const struct spots *p, const uint64_t *mask)
{
	for (uint32_t i = 0; i < t->text_count && !grammar_failed(g, NULL); i++) {
		char bytes[GRAMMAR_MAX_TOKEN + 1];
		struct spots to = *p;
		size_t n = grammar_token_bytes(v, NULL, t->order[i], bytes);
		bool may = grammar_read(g, &to, bytes, n), said = mask[i / 64] >> i % 64 & 1;
		if (may != said && !grammar_failed(g, NULL))
			abort();
	}
}

static void hold(struct grammar *g, const struct tokenizer *v, const struct grammar_tokens *t,
		 const uint8_t *text, size_t n)
{
	uint64_t mask[PIECES / 64 + 2];
	uint32_t allowed;
	struct spots p;
	grammar_begin(g, &p);
	for (size_t i = 0; i < n && i < STEPS; i++) {
		char bytes[GRAMMAR_MAX_TOKEN + 1];
		if (grammar_mask(g, t, &p, mask, &allowed, NULL))
			return;
		compare(g, v, t, &p, mask);
		size_t length = grammar_token_bytes(v, NULL, text[i] % PIECES, bytes);
		if (!grammar_read(g, &p, bytes, length))
			return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct tokenizer *v;
	static struct grammar_tokens *t;
	struct err e = {0};
	struct grammar *g;
	if (!v)
		v = vocabulary();
	if (!t && grammar_tokens_new(&t, v, NULL, tokenizer_size(v), NULL, 0, &e))
		abort();
	if (size == 0)
		return 0;
	const uint8_t *end = memchr(data + 1, 0, size - 1);
	size_t n = end ? (size_t)(end - data) - 1 : size - 1;
	struct grammar_request r = {
		.form = data[0] & 1 ? FORM_REGEX : FORM_SCHEMA,
		.source = (const char *)data + 1,
		.source_n = n,
		.thinking = data[0] & 2 ? THINKING_OPEN : THINKING_OFF,
		.space = data[0] & 4,
	};
	if (grammar_new(&g, &r, &e)) {
		if (!*e.text)
			abort();
		return 0;
	}
	if (!(data[0] & 8) || !grammar_prepare(g, t, &e))
		hold(g, v, t, data + 1 + n, size - 1 - n);
	grammar_free(g);
	return 0;
}
