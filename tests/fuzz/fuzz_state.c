/* libFuzzer on a session's state: any bytes are refused with a sentence and leave the session
 * unchanged, or become a session that is saved and restored to the same bytes.
 *
 * An input's first byte says what the rest is:
 *     0  a file
 *     1  a file's texts and context, to which the head and the sums are made
 *     2  changes to a file that a session gave, each an offset of 3 bytes, how (one byte) and a
 *        value
 *     3  and then the sums are made right again
 *     4  a hybrid's context alone (context_save.h)
 *     5  changes to one
 *     6  that of a model with windows
 *     7  changes to one
 *
 * The model is a fixture that is never loaded: MOEFS_FIXTURES is their folder. */
#include "engine/compute/context_save.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"
#include "engine/session/state.h"
#include "tests/fuzz/folder.h"

#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILE_MOST = 1 << 20, POSITIONS = 70, LONG = 200, PIECE = 4096 };

static struct engine *engine;
static struct model *model;
static uint8_t *made; /* what a session gave */
static size_t made_bytes;
static struct made_context {
	struct config config;
	uint8_t *bytes; /* what a context of that gave */
	size_t n;
} hybrid, windowed;

/* ---- what there is to begin with ---- */

static const char *fixture(const char *name)
{
	static char path[512];
	const char *folder = getenv("MOEFS_FIXTURES");
	(void)snprintf(path, sizeof path, "%s/%s", folder ? folder : "tests/data/fixtures", name);
	return path;
}

static void must(int failed, const struct err *e)
{
	if (!failed)
		return;
	(void)fprintf(stderr, "%s\n", e->text);
	abort();
}

static void compute(struct context *x, uint32_t positions)
{
	struct err e = {0};
	must(context_reserve(x, positions, &e), &e);
	for (uint32_t i = (uint32_t)x->tokens.count; i < positions; i++)
		must(token_list_append(&x->tokens, &i, 1, &e), &e);
	for (const struct kv_table *t = x->kv; t < x->kv + KV_KINDS; t++)
		for (uint32_t i = t->from; i < t->count; i++)
			memset((void *)t->blocks[i], 'k', t->used);
}

static uint8_t *read_saved(struct session *s, size_t *n)
{
	struct saved *v;
	struct err e = {0};
	must(session_save(s, &v, &e), &e);
	*n = saved_bytes(v);
	uint8_t *bytes = malloc(*n);
	if (!bytes || saved_read(v, 0, bytes, *n) != *n)
		abort();
	saved_close(v);
	return bytes;
}

static void set(struct session *s, enum session_text what, const char *text)
{
	struct err e = {0};
	must(session_text_set(s, what, text, strlen(text), &e), &e);
}

/* A conversation that waits for the second of two results. */
static const char messages[] =
	"[{\"role\": \"system\", \"content\": \"Be kind.\"}, {\"role\": \"user\", \"content\": "
	"\"Hi\"}, "
	"{\"role\": \"assistant\", \"content\": \"Ho\", \"thinking\": \"hm\", \"tool_calls\": ["
	"{\"id\": \"c00000001\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
	"\"arguments\": {}}}, "
	"{\"id\": \"c00000002\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
	"\"arguments\": {}}}]}]";
static const char tools[] =
	"[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}]";
static const char result[] = "{\"tool_call_id\": \"c00000002\", \"content\": \"x\"}";

static void make_state(void)
{
	struct session *s;
	struct err e = {0};
	bool complete;
	must(session_create(&s, model, NULL, NULL, &e), &e);
	set(s, SESSION_MESSAGES, messages);
	set(s, SESSION_TOOLS, tools);
	set(s, SESSION_VARIABLES, "{\"a\": 1}");
	must(session_tool_result_add(s, result, strlen(result), &complete, &e), &e);
	history_log(s, "> Hi\nHo\n", 8);
	must(history_add_mark(s, &e), &e);
	compute(&s->context, POSITIONS);
	made = read_saved(s, &made_bytes);
	session_end(s);
}

/* Of so many positions, with one to go back to. */
static void make_context(struct made_context *m, const char *name, uint32_t positions)
{
	struct context x;
	struct context_save saved;
	struct err e = {0};
	must(config_read(&m->config, fixture(name), &e), &e);
	context_init(&x, &engine->context_budget, &m->config, KV_F16);
	compute(&x, POSITIONS - 1);
	context_checkpoint(&x, POSITIONS - 1);
	compute(&x, positions);
	must(context_save_open(&saved, &x, &m->config, &e), &e);
	m->n = context_save_bytes(&saved);
	m->bytes = malloc(m->n);
	if (!m->bytes || m->n > FILE_MOST)
		abort();
	context_save_read(&saved, 0, m->bytes, m->n);
	context_save_close(&saved);
	context_free(&x);
}

static void begin(void)
{
	struct err e = {0};
	struct engine_options o = {.budget = 64 << 20,
				   .context_budget = 64 << 20,
				   .threads = 1,
				   .store = folder_path()};
	must(engine_create(&engine, &o, &e), &e);
	must(model_open(&model, engine, fixture("qwen3"), &e), &e);
	make_state();
	make_context(&hybrid, "qwen3_5_moe", POSITIONS);
	make_context(&windowed, "gemma4_moe", LONG);
}

/* ---- an input's file ---- */

static void make_sums_right(uint8_t *file, size_t n)
{
	uint64_t sum = XXH3_64bits(file, offsetof(struct state_head, sum));
	if (n < sizeof(struct state_head) + sizeof sum)
		return;
	memcpy(file + offsetof(struct state_head, sum), &sum, sizeof sum);
	sum = XXH3_64bits(file, n - sizeof sum);
	memcpy(file + n - sizeof sum, &sum, sizeof sum);
}

/* The first two bytes of the input say how long the texts are. */
static size_t make_head(uint8_t *file, const uint8_t *data, size_t size)
{
	struct state_head h;
	size_t texts = size >= 2 ? data[0] | (size_t)data[1] << 8 : 0;
	if (size < 2 || texts > size - 2 || size > FILE_MOST / 2)
		return 0;
	size -= 2;
	state_identify(model, &h);
	h.texts_bytes = texts;
	h.context_bytes = size - texts;
	h.bytes = sizeof h + size + sizeof(uint64_t);
	memcpy(file, &h, sizeof h);
	memcpy(file + sizeof h, data + 2, size);
	make_sums_right(file, h.bytes);
	return h.bytes;
}

static void change(uint8_t *file, size_t n, const uint8_t *data, size_t size)
{
	for (; size >= 5; data += 5, size -= 5) {
		size_t at = (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % n;
		uint64_t number = (uint64_t)(int8_t)data[4];
		if (data[3] % 3 == 0)
			file[at] ^= data[4];
		else if (data[3] % 3 == 1)
			file[at] = data[4];
		else if (n - at >= sizeof number)
			memcpy(file + at, &number, sizeof number);
	}
}

static size_t file_of(uint8_t *file, int kind, const uint8_t *data, size_t size)
{
	if (kind == 1)
		return make_head(file, data, size);
	if (kind == 0) {
		memcpy(file, data, size < FILE_MOST ? size : FILE_MOST);
		return size < FILE_MOST ? size : FILE_MOST;
	}
	memcpy(file, made, made_bytes);
	change(file, made_bytes, data, size);
	if (kind == 3)
		make_sums_right(file, made_bytes);
	return made_bytes;
}

/* ---- what comes of it ---- */

static int restore(struct session *s, const uint8_t *file, size_t n)
{
	struct restored *r;
	struct err e = {0};
	int failed = restored_begin(model, &r, &e);
	must(failed, &e);
	for (size_t at = 0, piece; at < n && !failed; at += piece) {
		piece = n - at < PIECE ? n - at : PIECE;
		failed = restored_feed(r, at, file + at, piece, &e);
	}
	if (!failed)
		failed = session_restore(s, r, &e);
	restored_close(r);
	if (failed && (failed != -e.code || !e.text[0]))
		abort();
	return failed;
}

static void use(struct session *s)
{
	size_t n, again_bytes;
	struct err e = {0};
	uint8_t *bytes = read_saved(s, &n);
	if (restore(s, bytes, n))
		abort();
	uint8_t *again = read_saved(s, &again_bytes);
	if (again_bytes != n || memcmp(bytes, again, n) != 0)
		abort();
	free(bytes);
	free(again);
	bool complete;
	(void)session_tool_result_add(s, "{\"content\": \"y\"}", 16, &complete, &e);
	while (!session_undo(s, &e))
		;
	must(session_reset(s, &e), &e);
}

static void try_state(int kind, const uint8_t *data, size_t size)
{
	static uint8_t file[FILE_MOST];
	struct session *s;
	struct err e = {0};
	size_t n = file_of(file, kind, data, size), kept, length;
	must(session_create(&s, model, NULL, NULL, &e), &e);
	uint8_t *before = read_saved(s, &kept);
	if (!restore(s, file, n)) {
		use(s);
	} else {
		uint8_t *after = read_saved(s, &length);
		if (length != kept || memcmp(before, after, kept) != 0)
			abort();
		free(after);
	}
	free(before);
	session_end(s);
}

/* What the next row would see is there. */
static void see(const struct context *x)
{
	volatile const char *seen;
	for (const struct kv_table *t = x->kv; t < x->kv + KV_KINDS; t++)
		for (uint32_t i = 0; i < t->count; i++)
			if (kv_sees(t->window, x->tokens.count, i)) {
				seen = t->blocks[i];
				(void)*seen;
			}
}

static void try_context(const struct made_context *m, bool changed, const uint8_t *data,
			size_t size)
{
	static uint8_t file[FILE_MOST];
	struct context like;
	struct context_load l;
	struct err e = {0};
	size_t n = changed ? m->n : size < FILE_MOST ? size : FILE_MOST;
	memcpy(file, changed ? m->bytes : data, n);
	if (changed)
		change(file, n, data, size);
	context_init(&like, &engine->context_budget, &m->config, KV_F16);
	context_load_begin(&l, &like, &m->config, 1000, n);
	int failed = context_load_feed(&l, file, n, &e);
	if (failed && (failed != -e.code || !e.text[0]))
		abort();
	if (context_load_done(&l) && !failed) {
		context_load_end(&l);
		see(&l.x);
		context_rollback(&l.x, l.x.tokens.count / 2);
		see(&l.x);
	}
	context_load_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!engine)
		begin();
	uint64_t used = engine_context_used(engine);
	int kind = size ? data[0] % 8 : 0;
	if (size && kind < 4)
		try_state(kind, data + 1, size - 1);
	else if (size)
		try_context(kind < 6 ? &hybrid : &windowed, kind % 2, data + 1, size - 1);
	if (engine_context_used(engine) != used)
		abort();
	return 0;
}
