#include "engine/session/bias.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double most = 100;
static const char between[] = " \t", after[] = " \t\n";

/* How many bytes of the input an error quotes. */
static int bias_quoted(size_t length)
{
	return (int)(length < 40 ? length : 40);
}

/* Reads one entry and moves past it. */
static int bias_read_line(const char **at, uint32_t vocabulary, struct token_bias *to,
			  struct err *e)
{
	char *end;
	const char *line = *at;
	uint64_t id = strtoull(line, &end, 10);
	const char *number = end + strspn(end, between);
	/* strtod also accepts words and hexadecimal numbers. */
	size_t digits = strspn(number, "0123456789.eE+-");
	double bias = strtod(number, &end);
	if (*line < '0' || *line > '9' || end == number || end != number + digits ||
	    (*end && !strchr(after, *end)))
		return err_set(e, EINVAL,
			       "params/logit_bias: \"%.*s\" is not a token id and a number "
			       "(tokenizer/encode shows ids)",
			       bias_quoted(strcspn(line, "\n")), line);
	if (!(fabs(bias) <= most))
		return err_set(e, ERANGE,
			       "params/logit_bias: \"%.*s\" is not from -100 (never) to 100",
			       bias_quoted(digits), number);
	if (id >= vocabulary)
		return err_set(e, ERANGE,
			       "params/logit_bias: the model has tokens 0 to %" PRIu32
			       ", but none with the id %.*s",
			       vocabulary - 1, bias_quoted(strspn(line, "0123456789")), line);
	*to = (struct token_bias){(uint32_t)id, bias == -most ? -INFINITY : bias};
	*at = end + strspn(end, after);
	return 0;
}

static bool bias_has(const struct token_bias *of, size_t count, uint32_t id)
{
	for (size_t i = 0; i < count; i++)
		if (of[i].id == id)
			return true;
	return false;
}

static size_t bias_count_banned(const struct token_bias *of, size_t count)
{
	size_t n = 0;
	for (size_t i = 0; i < count; i++)
		n += isinf(of[i].bias) != 0;
	return n;
}

static int bias_read(struct bias *b, const char *text, uint32_t vocabulary, struct err *e)
{
	for (text += strspn(text, after); *text; b->count++) {
		if (b->count == BIASES_MAX)
			return err_set(e, ERANGE,
				       "params/logit_bias: at most %d tokens are allowed",
				       BIASES_MAX);
		struct token_bias *one = &b->of[b->count];
		int failed = bias_read_line(&text, vocabulary, one, e);
		if (failed)
			return failed;
		if (bias_has(b->of, b->count, one->id))
			return err_set(e, EINVAL,
				       "params/logit_bias: token %" PRIu32 " is there twice",
				       one->id);
	}
	if (b->count && bias_count_banned(b->of, b->count) == vocabulary)
		return err_set(e, EINVAL, "params/logit_bias: it bans every token");
	return 0;
}

int bias_set(struct bias *b, const char *text, uint32_t vocabulary, struct err *e)
{
	struct bias read = {.of = calloc(BIASES_MAX, sizeof *read.of)};
	if (!read.of)
		return err_set(e, ENOMEM, "params/logit_bias: out of memory");
	struct bias fitting;
	int failed = bias_read(&read, text, vocabulary, e);
	if (!failed && !bias_copy(&fitting, &read))
		failed = err_set(e, ENOMEM, "params/logit_bias: out of memory");
	bias_free(&read);
	if (failed)
		return failed;
	bias_free(b);
	*b = fitting;
	return 0;
}

/* Prints a line, with the shortest text that reads back as the same number. */
static int bias_print_line(char *text, size_t size, const struct token_bias *b)
{
	double number = isinf(b->bias) ? -most : b->bias;
	int n = 0;
	for (int digits = 3; digits <= 17; digits++) {
		n = snprintf(text, size, "%" PRIu32 " %.*g", b->id, digits, number);
		if (strtod(strchr(text, ' '), NULL) == number)
			break;
	}
	return n;
}

char *bias_text(const struct bias *b)
{
	enum { LINE = 48 };
	char *text = malloc(b->count * LINE + 1);
	size_t n = 0;
	if (!text)
		return NULL;
	for (size_t i = 0; i < b->count; i++) {
		if (i)
			text[n++] = '\n';
		n += (size_t)bias_print_line(text + n, LINE - 1, &b->of[i]);
	}
	text[n] = 0;
	return text;
}

bool bias_copy(struct bias *to, const struct bias *from)
{
	size_t bytes = from->count * sizeof *from->of;
	*to = (struct bias){.of = bytes ? malloc(bytes) : NULL};
	if (!bytes)
		return true;
	if (!to->of)
		return false;
	memcpy(to->of, from->of, bytes);
	to->count = from->count;
	return true;
}

void bias_free(struct bias *b)
{
	free(b->of);
	*b = (struct bias){0};
}
