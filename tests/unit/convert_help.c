/* Sets up and runs a conversion; see the header. */
#include "convert_help.h"
#include "engine/source/witness.h"
#include "kernels/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

static void checking(void *ctx, uint64_t bytes)
{
	(void)ctx;
	(void)bytes;
}

static bool went(void *ctx, uint64_t bytes)
{
	(void)bytes;
	return !*((const struct test_conversion *)ctx)->v.stop;
}

/* As a model does before every conversion. */
static int witness(struct test_conversion *t, struct err *e)
{
	const struct witness_watch watch = {checking, went, t};
	struct source_state now;
	int failed = source_look(&now, t->v.directory, e);
	if (!failed)
		failed = witness_begin(&t->v.witness, &now, NULL, t->v.folder, &watch, e);
	if (!failed)
		memcpy(t->v.fingerprint, t->old_name ? t->old_name : witness_name(t->v.witness),
		       sizeof t->v.fingerprint);
	source_forget(&now);
	return failed;
}

int test_convert_begin(struct test_conversion *t, struct converter **c, struct plan *plan,
		       struct err *e)
{
	int failed = witness(t, e);
	return failed ? failed : convert_begin(c, &t->v, plan, e);
}

int test_convert_all(struct test_conversion *t, struct err *e)
{
	struct converter *c;
	struct plan plan;
	int failed = test_convert_begin(t, &c, &plan, e);
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
	if (config_read(&t->config, directory, e) || recipe_find(&t->v.recipe, quant, e))
		fail_msg("%s", e->text);
	if (!quant)
		recipe_find_default(&t->v.recipe, &t->config, 0);
	int failed;
	do
		failed = test_convert_all(t, e);
	while (failed == -ERANGE && recipe_widen(&t->v.recipe)); /* as a model does */
	return failed;
}
