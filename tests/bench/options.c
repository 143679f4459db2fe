/* Command lines: one table of options per subcommand, parsed with getopt_long. */
#include "engine/memory/cpus.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MOST = 24 };

/* ---- values ---- */

/* A whole number, perhaps with K, M or G (powers of 1024); *end is after it. False: none, or too
 * large. */
static bool scan_number(const char *text, uint64_t *value, const char **end)
{
	static const char units[] = "KMG";
	char *after;
	errno = 0;
	*value = strtoull(text, &after, 10);
	if (after == text || errno || *text < '0' || *text > '9')
		return false;
	const char *unit = *after ? strchr(units, *after) : NULL;
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	*end = unit ? after + 1 : after;
	if (*value > UINT64_MAX >> shift)
		return false;
	*value <<= shift;
	return true;
}

static int take_number(const struct bench_option *o, const char *text, struct err *e)
{
	uint64_t value;
	const char *end;
	if (!scan_number(text, &value, &end) || *end || value < o->least || value > o->most)
		return err_set(e, EINVAL, "--%s %s: must be a number from %llu to %llu", o->name,
			       text, (unsigned long long)o->least, (unsigned long long)o->most);
	*(uint64_t *)o->to = value;
	return 0;
}

static int take_list(const struct bench_option *o, const char *text, struct err *e)
{
	struct number_list *list = o->to;
	const char *end = text;
	for (list->count = 0; list->count < LIST_MOST; text = end + 1) {
		uint64_t value;
		if (!scan_number(text, &value, &end) || value < o->least || value > o->most)
			break;
		list->value[list->count++] = (uint32_t)value;
		if (!*end)
			return 0;
		if (*end != ',')
			break;
	}
	return err_set(e, EINVAL,
		       "--%s %s: must be at most %d numbers from %llu to %llu with commas between",
		       o->name, text, LIST_MOST, (unsigned long long)o->least,
		       (unsigned long long)o->most);
}

static int take_seconds(const struct bench_option *o, const char *text, struct err *e)
{
	char *end;
	double value = strtod(text, &end);
	if (end == text || *end || !(value >= 0) || !(value <= 1e6))
		return err_set(e, EINVAL, "--%s %s: must be a number from 0 to 1000000", o->name,
			       text);
	*(double *)o->to = value;
	return 0;
}

static int take(const struct bench_option *o, const char *text, struct err *e)
{
	switch (o->kind) {
	case OPTION_NUMBER:
		return take_number(o, text, e);
	case OPTION_SECONDS:
		return take_seconds(o, text, e);
	case OPTION_LIST:
		return take_list(o, text, e);
	case OPTION_TEXT:
		*(const char **)o->to = text;
		return 0;
	case OPTION_FLAG:
		*(bool *)o->to = true;
		return 0;
	}
	return 0;
}

bool name_listed(const char *list, const char *name)
{
	size_t n = strlen(name);
	if (!list)
		return true;
	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
			return true;
	}
	return false;
}

struct effort effort_default(void)
{
	return (struct effort){.rounds = 5, .seconds = .1, .threads = cpus_own_threads()};
}

/* ---- the line ---- */

static void print_default(const struct bench_option *o)
{
	const struct number_list *list = o->to;
	const uint64_t *number = o->to;
	switch (o->kind) {
	case OPTION_NUMBER: /* a number that could not be asked for stands for none */
		if (*number && *number <= o->most)
			(void)printf(" (%llu)", (unsigned long long)*number);
		break;
	case OPTION_SECONDS:
		(void)printf(" (%g)", *(const double *)o->to);
		break;
	case OPTION_TEXT:
		if (*(const char *const *)o->to)
			(void)printf(" (%s)", *(const char *const *)o->to);
		break;
	case OPTION_LIST:
		for (uint32_t i = 0; i < list->count; i++)
			(void)printf("%s%u", i ? "," : " (", list->value[i]);
		(void)printf(")");
		break;
	case OPTION_FLAG:
		break;
	}
	(void)printf("\n");
}

static void print_help(const struct command_line *c)
{
	static const char *const values[] = {[OPTION_NUMBER] = "N",
					     [OPTION_SECONDS] = "X",
					     [OPTION_TEXT] = "TEXT",
					     [OPTION_FLAG] = "",
					     [OPTION_LIST] = "N,N,…"};
	(void)printf("usage: moefs-bench %s [options]\n", c->usage);
	for (size_t i = 0; i < c->option_count; i++) {
		const struct bench_option *o = &c->options[i];
		(void)printf("    --%-10s %-6s %s", o->name, values[o->kind], o->help);
		print_default(o);
	}
}

int command_line_parse(const struct command_line *c, int argc, char **argv, struct err *e)
{
	struct option table[OPTIONS_MOST + 2] = {{0}};
	for (size_t i = 0; i < c->option_count && i < OPTIONS_MOST; i++)
		table[i] = (struct option){
			.name = c->options[i].name,
			.has_arg =
				c->options[i].kind == OPTION_FLAG ? no_argument : required_argument,
		};
	table[c->option_count] = (struct option){.name = "help", .val = 'h'};
	opterr = 0; /* the sentences are ours */
	optind = 1;
	int index, got;
	while ((got = getopt_long(argc, argv, ":", table, &index)) != -1) {
		if (got == 'h') {
			print_help(c);
			return 1;
		}
		if (got)
			return err_set(
				e, EINVAL, "%s %s; see moefs-bench %s --help", argv[optind - 1],
				got == ':' ? "needs a value" : "is not an option here", argv[0]);
		int failed = take(&c->options[index], optarg, e);
		if (failed)
			return failed;
	}
	if ((size_t)(argc - optind) != c->operand_count)
		return err_set(e, EINVAL, "usage: moefs-bench %s [options]; see --help", c->usage);
	for (size_t i = 0; i < c->operand_count; i++)
		c->operands[i] = argv[optind + (int)i];
	return 0;
}
