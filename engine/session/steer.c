#include "engine/session/steer.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { LAYER_DIGITS = 2, EXPERT_DIGITS = 3, WORD = 64 };

static const char between[] = " \t", line_end[] = " \t\r\n";

struct steer_line {
	char layer[WORD], expert[WORD]; /* patterns; expert "*": the whole layer */
	float bias;
};

static int steer_bad_line(const char *line, struct err *e)
{
	size_t n = strcspn(line, "\n");
	return err_set(e, EINVAL,
		       "params/experts_bias: \"%.*s\" is not an expert and a number or the word off, "
		       "such as 03/017 -2 or '0[0-3]/* off'",
		       (int)(n < 60 ? n : 60), line);
}

/* ---- a line ---- */

/* Reads the word at *at, and moves *at past it and the white space after it. False: the word is too
 * long. */
static bool steer_take_word(const char **at, char word[2 * WORD])
{
	size_t n = strcspn(*at, line_end);
	if (!n || n >= 2 * (size_t)WORD)
		return false;
	memcpy(word, *at, n);
	word[n] = 0;
	*at += n;
	*at += strspn(*at, between);
	return true;
}

static int steer_read_number(const char *word, const char *line, float *bias, struct err *e)
{
	char *end;
	double number = strtod(word, &end);
	*bias = -INFINITY;
	if (!strcmp(word, "off"))
		return 0;
	/* strtod also accepts words and hexadecimal numbers. */
	if (*end || end == word || word[strspn(word, "0123456789.eE+-")])
		return steer_bad_line(line, e);
	if (!(fabs(number) <= STEER_MOST))
		return err_set(e, ERANGE,
			       "params/experts_bias: %s is not from -%d to %d; off is below all",
			       word, STEER_MOST, STEER_MOST);
	*bias = (float)number;
	return 0;
}

static int steer_read_line(const char **at, struct steer_line *l, struct err *e)
{
	char name[2 * WORD], number[2 * WORD], *slash;
	const char *line = *at, *experts = "experts/";
	if (!steer_take_word(at, name) || !steer_take_word(at, number) ||
	    (**at && !strchr("\r\n", **at)))
		return steer_bad_line(line, e);
	char *from = strncmp(name, experts, strlen(experts)) ? name : name + strlen(experts);
	slash = strchr(from, '/');
	if (slash)
		*slash = 0;
	if (strlen(from) >= WORD || (slash && strlen(slash + 1) >= WORD))
		return steer_bad_line(line, e);
	const char *expert = slash ? slash + 1 : "*";
	memcpy(l->layer, from, strlen(from) + 1);
	memcpy(l->expert, expert, strlen(expert) + 1);
	*at += strspn(*at, line_end);
	return steer_read_number(number, line, &l->bias, e);
}

/* ---- the table ---- */

static bool steer_matches(const char *pattern, int digits, uint32_t number)
{
	char name[16];
	(void)snprintf(name, sizeof name, "%0*" PRIu32, digits, number);
	return fnmatch(pattern, name, 0) == 0;
}

/* Sets the experts that match a line; later lines override earlier ones. -EINVAL: no expert
 * matches. */
static int steer_apply(struct steering *t, const struct config *c, const struct steer_line *l,
		       struct err *e)
{
	bool matches[CONFIG_MAX_EXPERTS], found = false;
	for (uint32_t i = 0; i < t->experts; i++)
		matches[i] = steer_matches(l->expert, EXPERT_DIGITS, i);
	for (uint32_t layer = 0; layer < t->layers; layer++) {
		if (!config_routed(c, layer) || !steer_matches(l->layer, LAYER_DIGITS, layer))
			continue;
		for (uint32_t i = 0; i < t->experts; i++)
			if (matches[i]) {
				t->bias[(size_t)layer * t->experts + i] = l->bias;
				found = true;
			}
	}
	return found ? 0
		     : err_set(e, EINVAL,
			       "params/experts_bias: no expert matches \"%s/%s\"; names are such "
			       "as 00/017 (ls experts/00)",
			       l->layer, l->expert);
}

/* group: -1 if the layer has only one. */
static int steer_refuse_off(uint32_t layer, int group, struct err *e)
{
	char part[32] = "";
	if (group >= 0)
		(void)snprintf(part, sizeof part, "group %d of ", group);
	return err_set(e, EINVAL,
		       "params/experts_bias: all experts of %slayer %02" PRIu32 " are off", part,
		       layer);
}

/* Checks that each group of a layer has an expert that is not off. */
static int steer_check_off(const struct steering *t, const struct config *c, struct err *e)
{
	uint32_t groups = c->router_groups > 1 ? c->router_groups : 1, size = t->experts / groups;
	for (uint32_t layer = 0; layer < t->layers; layer++)
		for (uint32_t g = 0; g < groups; g++) {
			const float *of = t->bias + (size_t)layer * t->experts + (size_t)g * size;
			uint32_t off = 0;
			for (uint32_t i = 0; i < size; i++)
				off += isinf(of[i]) != 0;
			if (off == size)
				return steer_refuse_off(layer, groups > 1 ? (int)g : -1, e);
		}
	return 0;
}

static int steer_read(struct steer *s, const char *text, const struct config *c, struct err *e)
{
	uint32_t lines = 0;
	int failed = 0;
	for (text += strspn(text, line_end); *text && !failed;) {
		struct steer_line l;
		if (lines++ == STEER_LINES)
			return err_set(e, ERANGE,
				       "params/experts_bias: at most %d lines are allowed; use "
				       "patterns",
				       STEER_LINES);
		failed = steer_read_line(&text, &l, e);
		if (!failed)
			failed = steer_apply(&s->table, c, &l, e);
	}
	return failed ? failed : steer_check_off(&s->table, c, e);
}

static size_t steer_bytes(const struct steering *t)
{
	return (size_t)t->layers * t->experts * sizeof *t->bias;
}

static void steer_sum(struct steer *s)
{
	size_t all = (size_t)s->table.layers * s->table.experts;
	for (size_t i = 0; i < all; i++)
		s->count += s->table.bias[i] != 0;
	if (s->count)
		s->sum = XXH3_64bits(s->table.bias, steer_bytes(&s->table)) | 1;
}

int steer_set(struct steer *s, const char *text, const struct config *c, struct err *e)
{
	struct steer read = {0};
	if (!text[strspn(text, line_end)]) {
		steer_free(s);
		return 0;
	}
	if (!c || !c->experts)
		return err_set(e, ERANGE, "params/experts_bias: this model has no experts");
	read.table.layers = c->layers;
	read.table.experts = c->experts;
	read.table.bias = calloc((size_t)c->layers * c->experts, sizeof *read.table.bias);
	read.text = strdup(text);
	int failed = read.table.bias && read.text
			     ? steer_read(&read, text, c, e)
			     : err_set(e, ENOMEM, "params/experts_bias: out of memory");
	if (failed) {
		steer_free(&read);
		return failed;
	}
	steer_sum(&read);
	steer_free(s);
	*s = read;
	return 0;
}

bool steer_copy(struct steer *to, const struct steer *from)
{
	*to = (struct steer){.sum = from->sum, .count = from->count};
	if (!from->text)
		return true;
	to->table = from->table;
	to->table.bias = malloc(steer_bytes(&from->table));
	to->text = strdup(from->text);
	if (!to->table.bias || !to->text) {
		steer_free(to);
		return false;
	}
	memcpy(to->table.bias, from->table.bias, steer_bytes(&from->table));
	return true;
}

void steer_free(struct steer *s)
{
	free(s->text);
	free(s->table.bias);
	*s = (struct steer){0};
}
