/* What the subcommands of moefs-bench share: options, measuring, and reports.
 *
 * Measurements are noisy: a figure is measured in several rounds and given as median, minimum and
 * maximum; a share of a ceiling is the median of shares, each from two measurements in direct
 * succession. Nothing here depends on the measured thing. */
#ifndef MOEFS_TESTS_BENCH_BENCH_H
#define MOEFS_TESTS_BENCH_BENCH_H

#include "cache/err.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- subcommands: argv[0] is the subcommand's name; 0, or a negative errno in words ---- */

int machine_command(int argc, char **argv, struct err *e);
int kernels_command(int argc, char **argv, struct err *e);
int run_command(int argc, char **argv, struct err *e);
int make_command(int argc, char **argv, struct err *e);
int pager_command(int argc, char **argv, struct err *e);
int perplexity_command(int argc, char **argv, struct err *e);
int recipe_command(int argc, char **argv, struct err *e);
int quality_command(int argc, char **argv, struct err *e);
int company_command(int argc, char **argv, struct err *e);
int first_command(int argc, char **argv, struct err *e);
int page_command(int argc, char **argv, struct err *e);
int grammar_command(int argc, char **argv, struct err *e);
int files_command(int argc, char **argv, struct err *e);
int http_command(int argc, char **argv, struct err *e);

/* ---- options.c ---- */

enum option_kind { OPTION_NUMBER, OPTION_SECONDS, OPTION_TEXT, OPTION_FLAG, OPTION_LIST };

enum { LIST_MOST = 32 };
struct number_list {
	uint32_t count, value[LIST_MOST];
};

struct bench_option {
	const char *name; /* without the dashes */
	enum option_kind kind;
	/* uint64_t (NUMBER, which accepts K, M and G), double, const char *, bool, or struct
	 * number_list, with the default in it */
	void *to;
	uint64_t least, most; /* of a NUMBER and of the numbers of a LIST */
	const char *help;
};

struct command_line {
	const char *usage; /* "run MODEL" */
	const struct bench_option *options;
	size_t option_count;
	const char **operands; /* [operand_count], all required */
	size_t operand_count;
};

/* 0; 1: --help was printed; -EINVAL with a sentence. */
int command_line_parse(const struct command_line *c, int argc, char **argv, struct err *e);
/* Whether `name` is one of the comma-separated names of a list; NULL lists all. */
bool name_listed(const char *list, const char *name);

/* Options of every measuring subcommand. */
struct effort {
	uint64_t rounds, threads;
	double seconds; /* of one measurement */
	bool json;
};
struct effort effort_default(void); /* threads: as many as the engine takes by itself */
#define EFFORT_OPTIONS(e)                                                                    \
	{"rounds", OPTION_NUMBER, &(e)->rounds, 1, 99, "rounds of each measurement"},        \
		{"threads", OPTION_NUMBER, &(e)->threads, 1, 1024, "all threads"},           \
		{"own-time", OPTION_FLAG,                                                    \
		 &own_time,  0,                                                              \
		 0,	     "by the processors' time for this, where others use them too"}, \
	{                                                                                    \
		"json", OPTION_FLAG, &(e)->json, 0, 0, "one JSON object instead of tables"   \
	}

/* ---- measure.c ---- */

enum { ROUNDS_MOST = 99 };

struct summary {
	double median, least, most;
};
struct summary summarise(const double *values, size_t n); /* n in 1 … ROUNDS_MOST */

double seconds_now(void);
/* With --own-time crews use the CPU time of their threads, and the second function returns the CPU
 * time of all threads divided by `threads`; otherwise both use the clock. */
extern bool own_time;
double seconds_spent(uint64_t threads); /* CLOCK_MONOTONIC */

/* `threads` threads call work(ctx, thread) repeatedly for `seconds`, starting together. Each call
 * does a piece of work (well below a millisecond if possible) and returns its amount in any unit.
 * *rate is the sum of the threads' units per second. */
typedef double piece_fn(void *ctx, uint32_t thread);
int crew_rate(double *rate, uint32_t threads, double seconds, piece_fn *work, void *ctx,
	      struct err *e);

/* SplitMix64 (Steele, Lea and Flood 2014). */
static inline uint64_t random_u64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}
void random_bytes(void *to, size_t bytes, uint64_t seed); /* bytes is a multiple of 8 */

/* Anonymous memory, in huge pages if the kernel has them, all touched; NULL with an error in e.
 * Freed by buffer_free. */
void *buffer_allocate(size_t bytes, struct err *e);
void buffer_free(void *memory, size_t bytes); /* NULL is fine */

/* ---- report.c: tables for people as they are filled, or one JSON object at the end ---- */

struct report {
	bool json;
	bool failed;   /* out of memory somewhere; report_end says so */
	bool markdown; /* tables as a page has them; set after report_begin */
	struct json_object *root;
};
void report_begin(struct report *r, const char *command, bool json);
/* A fact: "label  value". key is its name in JSON. */
void report_text(struct report *r, const char *key, const char *label, const char *value);
void report_number(struct report *r, const char *key, const char *label, double value,
		   int decimals);
/* Prints the JSON object if requested, and frees. */
int report_end(struct report *r, struct err *e);

struct column {
	const char *key, *head;
	int decimals; /* of a number; -1: a text */
};
struct table {
	struct report *report;
	const struct column *columns;
	size_t column_count;
	struct json_object *rows, *row;
	char **cells; /* as printed, row by row */
	size_t count;
};
/* An array `key` of objects. Cells are given from left to right, row after row; a row that has
 * all its cells is complete. */
void table_begin(struct table *t, struct report *r, const char *key, const char *title,
		 const struct column *columns, size_t column_count);
void table_text(struct table *t, const char *text);
void table_number(struct table *t, double number);
void table_summary(struct table *t, const struct summary *s); /* median (least-most) */
void table_none(struct table *t);			      /* not measured */
void table_end(struct table *t);			      /* prints and frees */

#endif
