/* Encoding and decoding for the tree (model.h): needs the model's tokenizer, but not its weights.
 */
#include "engine/session/answer.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/model/load.h"
#include "engine/tokenizer/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An answer's text is put together in pieces of this size. */
enum { PIECE = 64 << 10, ID_SIZE = 16 };

struct piece {
	struct answer *to;
	size_t n;
	bool failed; /* out of memory */
	char bytes[PIECE];
};

static void token_flush(struct piece *p)
{
	p->failed |= answer_append(p->to, p->bytes, p->n) < 0;
	p->n = 0;
}

static void token_put(struct piece *p, const char *bytes, size_t n)
{
	for (size_t part; n && !p->failed; n -= part, bytes += part) {
		if (p->n == PIECE)
			token_flush(p);
		part = n < PIECE - p->n ? n : PIECE - p->n;
		memcpy(p->bytes + p->n, bytes, part);
		p->n += part;
	}
}

static int token_encode(const struct model *m, const char *text, size_t length,
			const _Atomic bool *stop, struct piece *out, struct err *e)
{
	struct token_list ids = {0};
	char line[ID_SIZE];
	if (length && text[length - 1] == '\n')
		length--;
	int failed = tokenizer_encode(m->loaded.tokenizer, text, length, stop, &ids, e);
	for (size_t i = 0; i < ids.count && !failed && !token_stop_asked(stop); i++)
		token_put(out, line, (size_t)snprintf(line, sizeof line, "%u\n", ids.ids[i]));
	token_list_free(&ids);
	return failed;
}

static bool token_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The id at text[*at], which moves on behind it. */
static int token_read_id(const struct tokenizer *t, const char *text, size_t length, size_t *at,
			 uint32_t *id, struct err *e)
{
	enum { QUOTED = 40 };
	size_t from = *at, n = 0;
	uint64_t number = 0;
	bool digits = true;
	for (; from + n < length && !token_is_space(text[from + n]); n++) {
		char c = text[from + n];
		digits &= c >= '0' && c <= '9';
		number = number < UINT32_MAX ? 10 * number + (uint64_t)(c - '0') : UINT32_MAX;
	}
	int quoted = n < QUOTED ? (int)n : QUOTED;
	*at = from + n;
	*id = (uint32_t)number;
	if (!digits)
		return err_set(e, EINVAL, "decode: \"%.*s\" is not a token id", quoted,
			       text + from);
	if (number >= UINT32_MAX || !tokenizer_has(t, *id))
		return err_set(e, ERANGE,
			       "decode: the tokenizer has no token %.*s; its largest is %u", quoted,
			       text + from, tokenizer_size(t) - 1);
	return 0;
}

static int token_decode(const struct model *m, const char *text, size_t length,
			const _Atomic bool *stop, struct piece *out, struct err *e)
{
	const struct tokenizer *t = m->loaded.tokenizer;
	bool first = true;
	size_t n;
	for (size_t at = 0; at < length && !token_stop_asked(stop);) {
		uint32_t id;
		if (token_is_space(text[at])) {
			at++;
			continue;
		}
		int failed = token_read_id(t, text, length, &at, &id, e);
		if (failed)
			return failed;
		const char *bytes = tokenizer_bytes(t, id, true, &n);
		bool lead = first && n && *bytes == ' ' && tokenizer_leads_with_space(t);
		token_put(out, bytes + lead, n - lead);
		first = false;
	}
	if (!first)
		token_put(out, "\n", 1);
	return 0;
}

typedef int convert_fn(const struct model *m, const char *text, size_t length,
		       const _Atomic bool *stop, struct piece *out, struct err *e);

static struct answer *token_convert(struct model *m, convert_fn *how, const char *text,
				    size_t length, const _Atomic bool *stop, struct err *e)
{
	struct piece *out = malloc(sizeof *out);
	struct answer *a = answer_create_lines(true);
	if (!out || !a) {
		err_set(e, ENOMEM, "out of memory for the results of tokenizing");
		answer_unref(a);
		free(out);
		return NULL;
	}
	out->to = a;
	out->n = 0;
	out->failed = false;
	int failed = load_tokenizer_once(m, e);
	if (!failed)
		failed = how(m, text, length, stop, out, e);
	if (!failed && token_stop_asked(stop))
		failed = token_stop_error(e);
	token_flush(out);
	if (!failed && out->failed)
		failed = err_set(e, ENOMEM, "out of memory for tokenizing %zu bytes", length);
	answer_finish(a, failed);
	free(out);
	return a;
}

struct answer *model_encode(struct model *m, const char *text, size_t length,
			    const _Atomic bool *stop, struct err *e)
{
	return token_convert(m, token_encode, text, length, stop, e);
}

struct answer *model_decode(struct model *m, const char *text, size_t length,
			    const _Atomic bool *stop, struct err *e)
{
	return token_convert(m, token_decode, text, length, stop, e);
}
