/* A report on a path as a model, without mounting it (model_check): what it is, what it takes, as
 * far as that can be determined, and why it cannot be mounted. */
#include "engine/admin/check.h"
#include "engine/library/library.h"
#include "engine/library/ollama.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/model/load.h"

#include "engine/source/source_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Keeps a name on one line. */
static void report_put(FILE *out, const char *key, const char *value)
{
	(void)fprintf(out, "%s ", key);
	for (const char *c = value; *c; c++)
		(void)fputc((unsigned char)*c < ' ' || *c == 127 ? '?' : *c, out);
	(void)fputc('\n', out);
}

static void report_put_number(FILE *out, const char *key, uint64_t number)
{
	(void)fprintf(out, "%s %" PRIu64 "\n", key, number);
}

/* ---- what it is ---- */

static void report_put_place(FILE *out, const struct model_place *p)
{
	char source[64];
	(void)snprintf(source, sizeof source, "%s%s%s",
		       source_is_file(p->path) ? "GGUF file" : "checkpoint",
		       p->keeper ? " in " : "", p->keeper ? p->keeper : "");
	report_put(out, "name", p->name);
	report_put(out, "path", p->path);
	report_put(out, "source", source);
}

/* What a tensor's numbers are written in: the type, where one word says all. */
static const char *report_encoding_of(const struct package_tensor *t)
{
	bool block = t->format != FORMAT_COUNT && t->parts == 1;
	return block || !t->parts ? t->type : t->encoding->name;
}

/* Those of all matrices, each once. */
static void report_put_encodings(FILE *out, const struct package *p)
{
	char list[256] = "";
	for (size_t i = 0; i < package_count(p); i++) {
		const struct package_tensor *t = package_tensor(p, i);
		const char *word = report_encoding_of(t);
		size_t used = strlen(list), n = strlen(word);
		bool known = false;
		for (const char *at = list; !known && (at = strstr(at, word)); at += n)
			known = (at == list || at[-1] == ' ') && (!at[n] || at[n] == ',');
		if (t->dims > 1 && !known)
			(void)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
				       word);
	}
	report_put(out, "encoding", list);
}

static void report_put_weights(FILE *out, const char *path)
{
	struct package *p;
	struct err ignored; /* model_open says it, in better words */
	uint64_t bytes = 0;
	if (package_open(&p, path, &ignored))
		return;
	const struct files *files = package_files(p);
	for (uint32_t i = 0; i < files_count(files); i++)
		bytes += files_bytes(files, i);
	report_put_encodings(out, p);
	report_put_number(out, "source_files", files_count(files));
	report_put_number(out, "source_bytes", bytes);
	package_close(p);
}

static void report_put_family(FILE *out, const char *path)
{
	struct err ignored; /* as above */
	struct config *c = malloc(sizeof *c);
	if (c && !config_read(c, path, &ignored))
		report_put(out, "architecture", c->model_type);
	free(c);
}

/* ---- what it takes ---- */

static void report_put_facts(FILE *out, const struct model *m)
{
	static const struct {
		const char *key;
		enum model_fact fact;
	} facts[] = {
		{"layers", FACT_LAYERS},
		{"experts", FACT_EXPERTS},
		{"experts_per_token", FACT_EXPERTS_PER_TOKEN},
		{"parameters", FACT_PARAMETERS},
		{"active_parameters", FACT_ACTIVE_PARAMETERS},
		{"recipe", FACT_RECIPE},
		{"context", FACT_CONTEXT},
		{"context_bytes", FACT_CONTEXT_BYTES},
		{"kv", FACT_KV},
		{"store", FACT_STORE},
		{"cpu", FACT_CPU_KERNELS},
		{"gpu_kernels", FACT_GPU_KERNELS},
		{"gpu", FACT_GPU},
	};
	char text[4096];
	model_find_gpu(m);
	for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
		if (!model_fact(m, facts[i].fact, text, sizeof text))
			report_put(out, facts[i].key, text);
}

/* Bytes that are still to be written, and bytes of memory: with all experts, with only those that a
 * token needs of one layer, and the machine's. */
static int report_put_sizes(FILE *out, struct model *m, struct err *e)
{
	struct plan p;
	struct recipe r = m->id.recipe;
	uint64_t store = 0;
	int failed = atomic_load(&m->stored.has_store) ? 0 : check_weights(m, &store, e);
	r.draft = atomic_load(&m->id.drafts);
	if (!failed)
		failed = plan_make(&p, &m->id.config, &r, e);
	if (failed)
		return failed;
	uint64_t experts = plan_slots_bytes(&p, m->id.config.layers, pager_slot_bytes);
	report_put_number(out, "store_bytes", store);
	report_put_number(out, "resident_bytes", m->loaded.need.bytes + experts);
	report_put_number(out, "paged_bytes",
			  m->loaded.need.bytes + (experts ? m->loaded.need.least : 0));
	report_put_number(out, "memory_bytes", engine_memory());
	plan_free(&p);
	return 0;
}

static int report_put_text(FILE *out, struct model *m, struct err *e)
{
	static const char *const files[] = {"tokenizer.json", "tiktoken.model", "vocab.json"};
	const char *from = source_is_file(m->id.directory) ? "GGUF" : NULL;
	char words[sizeof m->loaded.no_chat.text + 64];
	int failed = model_check_tokenizer(m, true, e);
	for (size_t i = 0; i < sizeof files / sizeof *files && !from && !failed; i++) {
		char *path = source_file_path(m->id.directory, files[i], NULL);
		from = path && !access(path, F_OK) ? files[i] : NULL;
		free(path);
	}
	if (failed)
		return failed;
	(void)snprintf(words, sizeof words, "%s, %u tokens", from ? from : "unknown",
		       tokenizer_size(m->loaded.tokenizer));
	report_put(out, "tokenizer", words);
	(void)model_template_words(m, words, sizeof words);
	report_put(out, "template", words);
	return 0;
}

static int report_put_model(FILE *out, struct engine *g, const char *path, struct err *e)
{
	struct model *m;
	int failed = model_open(&m, g, path, e);
	if (failed)
		return failed;
	report_put_facts(out, m);
	failed = report_put_sizes(out, m, e);
	if (!failed)
		failed = report_put_text(out, m, e);
	model_close(m);
	return failed;
}

static void report_put_missing(void *ctx, const char *name)
{
	report_put(ctx, "missing", name);
}

int model_check(struct engine *g, const char *path, char **text, size_t *length, struct err *e)
{
	struct model_place place;
	struct ollama_model *said;
	*text = NULL;
	FILE *out = open_memstream(text, length);
	if (!out)
		return err_set(e, ENOMEM, "%s: out of memory for its report", path);
	int failed = library_find(&place, &said, path, e);
	if (failed) {
		report_put(out, "path", path);
	} else {
		report_put_place(out, &place);
		report_put_family(out, place.path);
		report_put_weights(out, place.path);
		failed = report_put_model(out, g, path, e);
		if (failed)
			check_missing(place.path, report_put_missing, out);
		place_free(&place);
		ollama_close(said);
	}
	report_put(out, "mountable", failed ? "no" : "yes");
	if (fclose(out)) {
		free(*text);
		*text = NULL;
		return err_set(e, ENOMEM, "%s: out of memory for its report", path);
	}
	return failed;
}
