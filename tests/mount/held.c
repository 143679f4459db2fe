/* The program with turns that stand still, and grammars: what a test of the mount says while a turn goes on, it
 * says of one that stands, and no slowness of the machine or of the test has it be over.
 *
 * The linker puts this around turn_step (Makefile); all else is the program's. While the file that
 * MOEFS_HOLD names is there, no turn goes on whose answer has as many tokens as the number in it
 * says, until that grows, the file is gone or the turn is to stop. A file without a number is being
 * written: nothing goes on. The thread that computes holds no lock meanwhile.
 *
 * Likewise no grammar is checked while the file that MOEFS_HOLD_GRAMMAR names is there; PATH.stands
 * is made once one stands. */
#include "engine/serve/session_state.h"
#include "engine/grammar/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int __real_grammar_check(enum grammar_form form, const char *source, size_t n, struct err *e);
int __wrap_grammar_check(enum grammar_form form, const char *source, size_t n, struct err *e);
bool __real_turn_step(struct session *s);
bool __wrap_turn_step(struct session *s);

/* SIZE_MAX: none is to stand. */
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
	const struct turn *t = &s->turn;
	return t->begun && !t->score.read && !s->background && !atomic_load(&s->stop) &&
	       t->ids.count - t->prompt_ids >= tokens_to_stand_at();
}

bool __wrap_turn_step(struct session *s)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	while (stands(s))
		(void)nanosleep(&moment, NULL);
	return __real_turn_step(s);
}

int __wrap_grammar_check(enum grammar_form form, const char *source, size_t n, struct err *e)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	const char *path = getenv("MOEFS_HOLD_GRAMMAR");
	char stands[512];
	while (path && !access(path, F_OK)) {
		(void)snprintf(stands, sizeof stands, "%s.stands", path);
		FILE *f = fopen(stands, "we");
		if (f)
			(void)fclose(f);
		(void)nanosleep(&moment, NULL);
	}
	return __real_grammar_check(form, source, n, e);
}
