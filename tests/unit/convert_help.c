/* A conversion with everything that it needs around it; see the header. */
#include "convert_help.h"
#include "engine/source/checkpoint.h"
#include "kernels/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

int test_convert_all(struct test_conversion *t, struct err *e)
{
	struct converter *c;
	struct plan plan;
	int failed = convert_begin(&c, &t->v, &plan, e);
	if (failed)
		return failed;
	memcpy(t->codec_words, convert_codec_words(c), sizeof t->codec_words);
	failed = convert_finish(c, e);
	convert_close(c);
	plan_free(&plan);
	return failed;
}

int test_convert(struct test_conversion *t, const char *directory, const char *folder,
		 const char *quant, uint32_t threads, struct err *e)
{
	t->v = (struct conversion){
		.directory = directory,
		.folder = folder,
		.config = &t->config,
		.threads = threads,
		.kernels = kernels_best(),
		.stop = &t->stop,
		.progress = &t->progress,
	};
	*e = (struct err){0};
	if (config_read(&t->config, directory, e) || recipe_find(&t->v.recipe, quant, e) ||
	    checkpoint_fingerprint(directory, t->v.fingerprint, e))
		fail_msg("%s", e->text);
	int failed = test_convert_all(t, e);
	if (failed != -ERANGE)
		return failed;
	t->v.recipe.norms = NORM_F32; /* as a model does */
	return test_convert_all(t, e);
}
