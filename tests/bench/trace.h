/* Routing traces: which experts a model picked, token by token.
 *
 * A trace is a text in CSV, plain or compressed by zstd (told by its first bytes). Lines that begin
 * with # are remarks. The first other line names the columns, of which these are read, wherever
 * they stand: turn, phase (0: the prompt, 1: the answer), step (the token), layer, expert. Then
 * each line is one expert that one token used in one layer.
 *
 * What matters to a cache are visits: the experts that a layer needs at once. In the answer that is
 * one token in one layer; in the prompt it is one layer of a chunk, which is as many lines as stand
 * together with the same turn and layer. Each expert is asked for once in a visit, however many of
 * its tokens use it; what their uses count together is the credit that the engine would give.
 */
#ifndef MOEFS_TESTS_BENCH_TRACE_H
#define MOEFS_TESTS_BENCH_TRACE_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>

/* What a trace may not exceed, so that a foreign file cannot ask for any amount of memory. */
enum {
	TRACE_LAYERS_MOST = 4096,
	TRACE_EXPERTS_MOST = 1 << 16,
	TRACE_VISITS_MOST = 1 << 24,
	TRACE_USES_MOST = 1 << 27,
	TRACE_LINE_MOST = 4096,
};
#define TRACE_TEXT_MOST (UINT64_C(16) << 30) /* bytes, decompressed */

enum trace_phase { TRACE_PROMPT, TRACE_ANSWER, TRACE_PHASES };

struct trace_visit {
	enum trace_phase phase;
	uint32_t layer;
	size_t first; /* into trace.expert */
	uint32_t count;
};

struct trace {
	/* layers: those that occur, numbered from 0 in their order (a model's dense layers have no
	 * lines); experts: the largest number plus one. */
	uint32_t layers, experts;
	uint64_t turns, tokens[TRACE_PHASES];
	struct trace_visit *visits; /* in the order of the file */
	size_t visit_count;
	uint32_t *expert; /* each visit's, distinct and ascending, as the engine asks for them */
	/* Of each, as in engine/compute/routing.c: in an answer 1, and in a prompt 0.1 · the sum over
	 * the steps that use it of 2^(-steps before the visit's last / 16). */
	float *credit;
	uint32_t *rank; /* the line of its visit that has it first, from 0; in an answer the router's rank */
	size_t expert_count; /* of these arrays */
};

/* -EINVAL names the line that cannot be understood, -EFBIG what is too large. */
int trace_read(struct trace *t, const char *path, struct err *e);
void trace_free(struct trace *t);

/* ---- trace_lines.c: the lines of a file, plain or compressed ---- */

struct trace_lines;
int trace_lines_open(struct trace_lines **out, const char *path, struct err *e);
/* 1: *line is the next one, without its end, until the next call; 0: there is none; or a negative
 * errno. */
int trace_lines_next(struct trace_lines *l, char **line, struct err *e);
uint64_t trace_lines_number(const struct trace_lines *l); /* of the last line, from 1 */
void trace_lines_close(struct trace_lines *l);		  /* NULL is fine */

#endif
