/* The program with turns and grammars that can be paused, so that a test of a working turn does not
 * depend on the speed of the machine.
 *
 * The linker puts this around run_begin_place (Makefile); everything else is the program's. While the
 * file MOEFS_HOLD exists, a turn pauses once its answer has as many tokens as the number in the
 * file, until the number grows, the file is gone or the turn is to stop. A file without a number is
 * being written: every turn pauses. The computing thread holds no lock meanwhile.
 *
 * Likewise no grammar is checked while the file MOEFS_HOLD_GRAMMAR exists. A turn or a grammar that waits
 * creates a file beside it whose name has .stands added. */
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"
#include "engine/grammar/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int __real_grammar_check(enum grammar_form form, const char *source, size_t n, struct err *e);
int __wrap_grammar_check(enum grammar_form form, const char *source, size_t n, struct err *e);
void __real_run_begin_place(struct run_place *p);
void __wrap_run_begin_place(struct run_place *p);

static void tell_that_it_stands(const char *path)
{
	char stands[512];
	(void)snprintf(stands, sizeof stands, "%s.stands", path);
	FILE *f = fopen(stands, "we");
	if (f)
		(void)fclose(f);
}

/* SIZE_MAX: no turn is to pause. */
static size_t tokens_to_stand_at(void)
{
	const char *path = getenv("MOEFS_HOLD");
	FILE *f = path ? fopen(path, "re") : NULL;
	char line[32];
	if (!f)
		return SIZE_MAX;
	size_t tokens = fgets(line, sizeof line, f) ? strtoul(line, NULL, 10) : 0;
	(void)fclose(f);
	return tokens;
}

static bool stands(const struct session *s)
{
	const struct turn_state *t = s->turn;
	return t->admitted && !s->asked.scores && !s->background && !atomic_load(&s->stop) &&
	       t->ids.count - t->prompt_ids >= tokens_to_stand_at();
}

void __wrap_run_begin_place(struct run_place *p)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	while (stands(p->session)) {
		tell_that_it_stands(getenv("MOEFS_HOLD"));
		(void)nanosleep(&moment, NULL);
	}
	__real_run_begin_place(p);
}

int __wrap_grammar_check(enum grammar_form form, const char *source, size_t n, struct err *e)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	const char *path = getenv("MOEFS_HOLD_GRAMMAR");
	while (path && !access(path, F_OK)) {
		tell_that_it_stands(path);
		(void)nanosleep(&moment, NULL);
	}
	return __real_grammar_check(form, source, n, e);
}
