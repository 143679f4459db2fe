/* Checksums of the small files that are read once per mount: vocabulary, template, default params.
 * Tokenizer and template stay open when a model is unloaded, so a later load checks that the files
 * have the same contents. load_look checks config.json. */
#include "engine/model/model_state.h"
#include "engine/model/load.h"
#include "engine/source/source_file.h"
#include "engine/source/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

static const struct {
	const char *name;
	enum load_text_of of;
} files[] = {
	{"generation_config.json", LOAD_DEFAULTS},
	{"tokenizer.json", LOAD_TOKENIZER},
	{"tokenizer_config.json", LOAD_TOKENIZER},
	{"tiktoken.model", LOAD_TOKENIZER},
	{"vocab.json", LOAD_TOKENIZER},
	{"merges.txt", LOAD_TOKENIZER},
	{"added_tokens.json", LOAD_TOKENIZER},
	{"special_tokens_map.json", LOAD_TOKENIZER},
	{"chat_template.jinja", LOAD_TEMPLATE},
};
_Static_assert(sizeof files / sizeof *files == LOAD_TEXTS, "a sum for each");

static int load_sum_file(const struct model *m, size_t i, uint64_t *sum, struct err *e)
{
	enum { MOST = 512 << 20 }; /* the readers of the files have lower limits */
	char *text, *path = source_file_path(m->id.directory, files[i].name, NULL);
	size_t length;
	int failed = path ? json_read_file(&text, &length, path, MOST, e)
			  : err_set(e, ENOMEM, "out of memory for the name of a file");
	free(path);
	*sum = 0; /* no such file */
	if (failed)
		return failed == -ENOENT ? 0 : failed;
	*sum = XXH3_64bits(text, length) | 1;
	free(text);
	return 0;
}

/* For a GGUF file: the checksum of its header, which has all these data. */
static int load_sum_gguf(const struct model *m, uint64_t *sum, struct err *e)
{
	struct gguf *g;
	int failed = gguf_open(&g, m->id.directory, 0, e);
	if (failed)
		return failed;
	*sum = XXH3_64bits(g->header, g->header_bytes) | 1;
	gguf_close(g);
	return 0;
}

int load_sum_texts(struct model *m, unsigned of, struct err *e)
{
	struct load_texts *t = &m->loaded.texts;
	int failed = 0;
	t->known |= of;
	if (source_is_file(m->id.directory))
		return of & LOAD_TOKENIZER ? load_sum_gguf(m, &t->sums[0], e) : 0;
	for (size_t i = 0; i < LOAD_TEXTS && !failed; i++)
		if (files[i].of & of)
			failed = load_sum_file(m, i, &t->sums[i], e);
	return failed;
}

static int load_refuse_changed(const struct model *m, const char *name, struct err *e)
{
	return err_set(e, EINVAL,
		       "%s%s%s: was changed since it was mounted; unmount it, then mount it again",
		       m->id.directory, name ? "/" : "", name ? name : "");
}

int load_check_texts(const struct model *m, struct err *e)
{
	const struct load_texts *t = &m->loaded.texts;
	uint64_t now;
	int failed = 0;
	if (source_is_file(m->id.directory)) {
		failed = t->known & LOAD_TOKENIZER ? load_sum_gguf(m, &now, e) : 0;
		if (!failed && t->known & LOAD_TOKENIZER && now != t->sums[0])
			failed = load_refuse_changed(m, NULL, e);
		return failed;
	}
	for (size_t i = 0; i < LOAD_TEXTS && !failed; i++) {
		if (!(files[i].of & t->known))
			continue;
		failed = load_sum_file(m, i, &now, e);
		if (!failed && now != t->sums[i])
			failed = load_refuse_changed(m, files[i].name, e);
	}
	return failed;
}
