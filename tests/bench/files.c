/* moefs-bench files: the cost of the file interface.
 *
 * A prompt is written and closed, and its answer read, in a mounted tree and in a bare FUSE file
 * system that only echoes, one after the other. Two figures of each: from the open of prompt to
 * the first byte of output, less the engine's own time for that byte; and from each token's
 * creation to its return from the waiting read. Both file systems are separate processes, as in
 * normal use. */
#include "tests/bench/files_asked.h"
#include "cache/clock.h"

#include <errno.h>
#include <stdlib.h>

struct files {
	struct effort effort;
	uint64_t asks, tokens;
	struct mounted at;
	struct measured echo, tree;
};

/* ---- one question ---- */

static int ask(struct files *f, struct measured *m, bool counts, struct err *e)
{
	struct reads *r = malloc(sizeof *r);
	if (!r)
		return err_set(e, ENOMEM, "no memory for an answer");
	notes_clear(f->at.notes);
	uint64_t from = clock_ns();
	int rc = mounted_put(&f->at, "prompt",
			     "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha "
			     "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha\n",
			     e);
	if (rc == 0)
		rc = mounted_read(&f->at, "output", r, e);
	if (rc == 0 && counts)
		measured_add(m, f->at.notes, r, from);
	free(r);
	return rc;
}

/* ---- all of them ---- */

static int prepare_tree(const struct files *f, struct err *e)
{
	int rc = mounted_short(&f->at, f->tokens, e);
	return rc == 0 ? mounted_put(&f->at, "sessions/default/params/chat", "off\n", e) : rc;
}

static int round_of(struct files *f, bool tree, struct err *e)
{
	struct measured *m = tree ? &f->tree : &f->echo;
	int rc = mounted_begin(&f->at, tree, e);
	if (rc == 0 && tree)
		rc = prepare_tree(f, e);
	for (uint64_t i = 0; i <= f->asks && rc == 0; i++) { /* the first one loads the model */
		if (i && tree)
			rc = mounted_put(&f->at, "ctl", "reset\n", e);
		if (rc == 0)
			rc = ask(f, m, i > 0, e);
	}
	mounted_end(&f->at);
	return rc;
}

static void tell(struct files *f, struct report *r)
{
	static const struct column COLUMNS[] = {MEASURED_COLUMNS};
	struct measured *all[] = {&f->echo, &f->tree};
	static const char *const NAMES[] = {"bare echo", "tree"};
	struct table t;
	table_begin(&t, r, "files", "medians (5th-95th of a hundred)", COLUMNS, 4);
	for (size_t i = 0; i < 2; i++)
		measured_tell(all[i], NAMES[i], &t);
	table_end(&t);
}

int files_command(int argc, char **argv, struct err *e)
{
	struct files *f = calloc(1, sizeof *f);
	if (!f)
		return err_set(e, ENOMEM, "no memory to measure with");
	*f = (struct files){.effort = effort_default(), .asks = 20, .tokens = 32};
	struct bench_option options[] = {
		EFFORT_OPTIONS(&f->effort),
		{"asks", OPTION_NUMBER, &f->asks, 1, 99, "questions of each round"},
		{"tokens", OPTION_NUMBER, &f->tokens, 2, 1000, "of an answer, at most"},
		{"store", OPTION_TEXT, &f->at.store, 0, 0, "folder of stores, as moefs -o store="}};
	struct command_line line = {"files MODEL", options, sizeof options / sizeof *options,
				    &f->at.model, 1};
	struct report r;
	int rc = command_line_parse(&line, argc, argv, e);
	if (rc) {
		free(f);
		return rc < 0 ? rc : 0;
	}
	report_begin(&r, "files", f->effort.json);
	rc = mounted_create(&f->at, e);
	if (rc == 0)
		rc = measured_create(&f->echo, e);
	if (rc == 0)
		rc = measured_create(&f->tree, e);
	for (uint64_t i = 0; i < 2 * f->effort.rounds && rc == 0; i++)
		rc = round_of(f, i % 2, e);
	if (rc == 0)
		tell(f, &r);
	mounted_free(&f->at);
	measured_free(&f->echo);
	measured_free(&f->tree);
	free(f);
	int ended = report_end(&r, rc < 0 ? NULL : e);
	return rc < 0 ? rc : ended;
}
