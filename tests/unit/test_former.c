/* Stores by the recipes of earlier versions: they open as they are, and before a new default is
 * made. */
#include "checkpoint_help.h"
#include "convert_help.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "golden.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static const char first_table[] = "4bit kept bf16 norms f16",
		  default_words[] = "8bit, the default for dense models of up to 1 billion weights";

static char parent[32], source[64], base[64];
static struct test_checkpoint c;
static struct test_conversion conversion;
static struct err e;

static int setup(void **state)
{
	(void)state;
	test_folder_make(parent);
	(void)snprintf(source, sizeof source, "%s/source", parent);
	(void)snprintf(base, sizeof base, "%s/base", parent);
	test_checkpoint_read(&c, "qwen3");
	test_checkpoint_make(&c, "qwen3", source);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_checkpoint_free(&c);
	test_folder_remove(parent);
	return 0;
}

struct opened {
	char recipe[128], store[512];
	char key[64];	  /* of the store that is there; "": none is */
	enum format down; /* of its first layer */
};

static void open_by(const char *quant, struct opened *o)
{
	const struct engine_options options = {.store = base, .quant = quant, .threads = 1};
	struct engine *engine;
	struct model *m = NULL;
	if (engine_create(&engine, &options, &e) || model_open(&m, engine, source, &e))
		fail_msg("%s", e.text);
	*o = (struct opened){.down = FORMAT_COUNT};
	assert_int_equal(model_fact(m, FACT_RECIPE, o->recipe, sizeof o->recipe), 0);
	assert_int_equal(model_fact(m, FACT_STORE, o->store, sizeof o->store), 0);
	if (atomic_load(&m->stored.has_store)) {
		const struct plan *p = &m->stored.plan;
		(void)snprintf(o->key, sizeof o->key, "%s",
			       store_info(m->stored.store)->key.recipe);
		for (uint32_t i = 0; i < p->dense_count && o->down == FORMAT_COUNT; i++)
			if (p->dense[i].id.role == TENSOR_DOWN)
				o->down = p->dense[i].shape.format;
	}
	model_close(m);
	engine_destroy(engine);
}

/* Makes the store of a text where a mount with quant=4bit looks for it. */
static void make_store(const char *text)
{
	struct opened o;
	open_by("4bit", &o);
	assert_int_equal(config_read(&conversion.config, source, &e), 0);
	conversion.v = (struct conversion){
		.directory = source,
		.folder = o.store,
		.config = &conversion.config,
		.threads = 2,
		.kernels = kernels_best(),
		.stop = &conversion.stop,
		.progress = &conversion.progress,
	};
	assert_true(recipe_from_text(&conversion.v.recipe, text));
	char *slash = strrchr(o.store, '/');
	*slash = 0;
	(void)mkdir(base, 0700);
	(void)mkdir(o.store, 0700);
	*slash = '/';
	if (test_convert_all(&conversion, &e))
		fail_msg("%s", e.text);
}

static void a_store_of_the_former_default_goes_before_the_new_one(void **state)
{
	(void)state;
	struct opened o;
	open_by(NULL, &o);
	assert_string_equal(o.recipe, default_words);
	assert_string_equal(o.key, "");
	make_store(first_table);
	open_by(NULL, &o);
	assert_string_equal(o.recipe, "4bit");
	assert_string_equal(o.key, first_table);
	assert_int_equal(o.down, FORMAT_TC4);
	open_by("auto", &o);
	assert_string_equal(o.key, first_table);
}

static void a_recipe_that_is_asked_for_opens_the_store_of_an_older_table(void **state)
{
	(void)state;
	struct opened o;
	make_store(first_table);
	open_by("4bit", &o);
	assert_string_equal(o.key, first_table);
	assert_int_equal(o.down, FORMAT_TC4);
	open_by("8bit", &o);
	assert_string_equal(o.key, "");
}

/* Somebody asked for that; a mount where no recipe is named has the default. */
static void a_store_of_the_new_table_is_not_taken_for_a_former_default(void **state)
{
	(void)state;
	struct opened o;
	make_store("4bit.2 kept bf16 norms f16");
	open_by(NULL, &o);
	assert_string_equal(o.recipe, default_words);
	assert_string_equal(o.key, "");
	open_by("4bit", &o);
	assert_string_equal(o.key, "4bit.2 kept bf16 norms f16");
	assert_true(format_is_block(o.down));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_store_of_the_former_default_goes_before_the_new_one),
		TEST(a_recipe_that_is_asked_for_opens_the_store_of_an_older_table),
		TEST(a_store_of_the_new_table_is_not_taken_for_a_former_default),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
