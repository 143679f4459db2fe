/* Sets up and runs a conversion. */
#ifndef MOEFS_TESTS_UNIT_CONVERT_HELP_H
#define MOEFS_TESTS_UNIT_CONVERT_HELP_H

#include "engine/convert/convert.h"

struct test_conversion {
	struct config config;
	struct convert_progress progress;
	_Atomic bool stop;
	struct conversion v;
	const uint64_t *old_name;      /* what to name the source in the store's key, if not NULL */
	char codec_words[CODEC_WORDS]; /* result: what was measured */
};

/* Converts the checkpoint in `directory` into the store `folder`. quant may be NULL. Fails the test
 * only if the directory cannot be read at all. */
int test_convert(struct test_conversion *t, const char *directory, const char *folder,
		 const char *quant, uint32_t threads, struct err *e);

/* Begins the conversion t->v, as a model does. */
int test_convert_begin(struct test_conversion *t, struct converter **c, struct plan *plan,
		       struct err *e);
/* Runs the conversion t->v from beginning to end, as a mount does in several steps. */
int test_convert_all(struct test_conversion *t, struct err *e);

#endif
