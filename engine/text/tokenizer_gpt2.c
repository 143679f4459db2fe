/* Reading GPT-2's layout: vocab.json, merges.txt, and tokenizer_config.json for what those two do
 * not say: the class, which stands for a split pattern and a normaliser, and the added tokens.
 * Where the configuration does not list added tokens, older checkpoints have them in
 * added_tokens.json, and which of them are special in special_tokens_map.json. They are brought
 * into the form that tokenizer.json gives them, so that one builder takes both. */
#include "engine/text/tokenizer_internal.h"

#include "engine/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_FILE_MAX = 16 << 20 };

/* What a tokenizer_class of transformers means. */
static const struct tokenizer_class {
	const char *name;
	const char *pattern;
	bool nfc;
} CLASSES[] = {
	{"GPT2Tokenizer", GPT2_PATTERN, false},
	{"GPT2TokenizerFast", GPT2_PATTERN, false},
	{"Qwen2Tokenizer", QWEN2_PATTERN, true},
	{"Qwen2TokenizerFast", QWEN2_PATTERN, true},
};
/* Special by default in all of these classes, where it has an id. */
static const char END_OF_TEXT[] = "<|endoftext|>";

/* The directory's documents; NULL for one that is not there. */
struct layout {
	const char *directory;
	struct json_object *vocab, *config, *added, *special_map;
	char *merges;
	size_t merges_length;
};

static int layout_path(const struct layout *l, const char *file, char **path, struct err *e)
{
	if (asprintf(path, "%s/%s", l->directory, file) < 0)
		return err_set(e, ENOMEM, "%s: no memory for a path", l->directory);
	return 0;
}

/* Reads an object; one that is not there stays NULL. */
static int read_object(const struct layout *l, const char *file, size_t max,
		       struct json_object **out, struct err *e)
{
	char *path = NULL;
	struct err own = {0};
	int rc = layout_path(l, file, &path, e);
	if (rc < 0)
		return rc;
	rc = json_parse_file(out, path, max, &own);
	if (rc == -ENOENT)
		rc = 0;
	else if (rc < 0)
		rc = err_set(e, own.code, "%s", own.text);
	else if (rc == 0 && !json_object_is_type(*out, json_type_object))
		rc = err_set(e, EINVAL, "%s: must be a JSON object", path);
	free(path);
	return rc;
}

static int read_layout(struct layout *l, struct err *e)
{
	int rc = read_object(l, "vocab.json", TOKENIZER_FILE_MAX, &l->vocab, e);
	if (rc == 0 && !l->vocab)
		return err_set(
			e, ENOENT,
			"%s: no tokenizer.json and no vocab.json; copy the tokenizer's files "
			"beside the weights",
			l->directory);
	if (rc == 0)
		rc = read_object(l, "tokenizer_config.json", CONFIG_FILE_MAX, &l->config, e);
	if (rc == 0 && !l->config)
		return err_set(e, ENOENT,
			       "%s: vocab.json without a tokenizer_config.json, whose "
			       "\"tokenizer_class\" says how text is split",
			       l->directory);
	if (rc == 0)
		rc = read_object(l, "added_tokens.json", CONFIG_FILE_MAX, &l->added, e);
	if (rc == 0)
		rc = read_object(l, "special_tokens_map.json", CONFIG_FILE_MAX, &l->special_map, e);
	char *path = NULL;
	if (rc == 0)
		rc = layout_path(l, "merges.txt", &path, e);
	if (rc < 0)
		return rc;
	rc = read_whole_file(&l->merges, &l->merges_length, path, TOKENIZER_FILE_MAX, e);
	free(path);
	return rc;
}

static void free_layout(struct layout *l)
{
	json_object_put(l->vocab);
	json_object_put(l->config);
	json_object_put(l->added);
	json_object_put(l->special_map);
	free(l->merges);
}

/* --- the class --- */

static int read_class(struct tokenizer *t, const struct layout *l, const char *name, struct err *e)
{
	const char *class_name;
	bool prefix_space = false, add_bos = false;
	int rc = json_get_string(l->config, "tokenizer_class", name, &class_name, e);
	if (rc == 0)
		rc = json_get_bool_or(l->config, "add_prefix_space", name, false, &prefix_space, e);
	if (rc == 0)
		rc = json_get_bool_or(l->config, "add_bos_token", name, false, &add_bos, e);
	if (rc < 0)
		return rc;
	if (add_bos)
		return err_set(e, ENOTSUP,
			       "%s: \"add_bos_token\" puts a token before every text, which this "
			       "reader does not do",
			       name);
	for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++) {
		if (strcmp(class_name, CLASSES[i].name) != 0)
			continue;
		t->nfc = CLASSES[i].nfc;
		rc = splitter_add(&t->splitter, CLASSES[i].pattern, false, name, e);
		return rc < 0 ? rc : splitter_add(&t->splitter, NULL, prefix_space, name, e);
	}
	return err_set(e, ENOTSUP,
		       "%s: \"tokenizer_class\" %s is not known to this reader; a tokenizer.json "
		       "beside it would say what it does",
		       name, class_name);
}

/* --- added tokens --- */

/* Appends {"id", "content", flags}; `flags` is an object to copy them from, or NULL for none set
 * but what `special` says. */
static int append_token(struct json_object *list, uint64_t id, const char *content, bool special,
			struct json_object *flags, struct err *e)
{
	static const char *const FLAGS[] = {"single_word", "lstrip", "rstrip", "normalized"};
	struct json_object *token = json_object_new_object();
	int failed = !token || json_object_array_add(list, token) < 0;
	if (failed) {
		json_object_put(token);
		return err_set(e, ENOMEM, "no memory for added tokens");
	}
	failed |= json_object_object_add(token, "id", json_object_new_uint64(id));
	failed |= json_object_object_add(token, "content", json_object_new_string(content));
	failed |= json_object_object_add(token, "special", json_object_new_boolean(special));
	for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++) {
		struct json_object *flag = json_object_object_get(flags, FLAGS[i]);
		if (flag)
			failed |= json_object_object_add(token, FLAGS[i], json_object_get(flag));
	}
	return failed ? err_set(e, ENOMEM, "no memory for added tokens") : 0;
}

/* "added_tokens_decoder": an object {"ID": {"content", flags}}. */
static int list_decoder(struct json_object *list, struct json_object *decoder, const char *name,
			struct err *e)
{
	json_object_object_foreach(decoder, key, token)
	{
		/* Eight digits hold every id there may be. */
		size_t digits = strspn(key, "0123456789");
		const char *content;
		bool special;
		if (digits == 0 || digits > 8 || key[digits])
			return err_set(e, EINVAL,
				       "%s: \"added_tokens_decoder\" has \"%s\" for an id", name,
				       key);
		int rc = json_get_string(token, "content", name, &content, e);
		if (rc == 0)
			rc = json_get_bool_or(token, "special", name, false, &special, e);
		if (rc == 0)
			rc = append_token(list, strtoul(key, NULL, 10), content, special, token, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Notes one special token in `special` {content: flags or null}. It is given as a text or as an
 * object with "content" and flags. */
static int note_special(struct json_object *special, struct json_object *value, const char *key,
			const char *name, struct err *e)
{
	bool is_object = json_object_is_type(value, json_type_object);
	const char *content;
	int rc = is_object ? json_get_string(value, "content", name, &content, e)
			   : json_as_string(value, key, name, &content, e);
	if (rc < 0 || json_object_object_get(special, content))
		return rc;
	if (json_object_object_add(special, content, is_object ? json_object_get(value) : NULL) < 0)
		return err_set(e, ENOMEM, "%s: no memory for its special tokens", name);
	return 0;
}

/* Notes all the special tokens that a document names. */
static int note_specials(struct json_object *special, struct json_object *document,
			 const char *name, struct err *e)
{
	static const char *const KEYS[] = {"bos_token", "eos_token", "unk_token", "pad_token",
					   "sep_token", "cls_token", "mask_token"};
	static const char MORE[] = "additional_special_tokens";
	if (!document)
		return 0;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < sizeof KEYS / sizeof *KEYS; i++) {
		struct json_object *value = json_object_object_get(document, KEYS[i]);
		if (value)
			rc = note_special(special, value, KEYS[i], name, e);
	}
	struct json_object *more = NULL;
	if (rc == 0)
		rc = json_get_array_or_null(document, MORE, name, &more, e);
	for (size_t i = 0; rc == 0 && more && i < json_object_array_length(more); i++)
		rc = note_special(special, json_object_array_get_idx(more, i), MORE, name, e);
	return rc;
}

/* Special tokens wherever they have their ids: added_tokens.json or the vocabulary itself. */
static int list_specials(struct json_object *list, const struct layout *l,
			 struct json_object *special, const char *name, struct err *e)
{
	json_object_object_foreach(special, content, flags)
	{
		struct json_object *id = json_object_object_get(l->added, content);
		if (!id)
			id = json_object_object_get(l->vocab, content);
		if (!id && strcmp(content, END_OF_TEXT) == 0)
			continue;
		uint64_t number;
		int rc = json_as_uint(id, content, name, 0, TOKEN_ID_MAX, &number, e);
		if (rc == 0)
			rc = append_token(list, number, content, true, flags, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* What added_tokens.json has beside the special tokens. */
static int list_ordinary(struct json_object *list, const struct layout *l,
			 struct json_object *special, struct err *e)
{
	char *path = NULL;
	int rc = layout_path(l, "added_tokens.json", &path, e);
	if (rc < 0)
		return rc;
	json_object_object_foreach(l->added, content, id)
	{
		uint64_t number;
		rc = json_as_uint(id, content, path, 0, TOKEN_ID_MAX, &number, e);
		if (rc == 0 && !json_object_object_get_ex(special, content, NULL))
			rc = append_token(list, number, content, false, NULL, e);
		if (rc < 0)
			break;
	}
	free(path);
	return rc;
}

/* Lists the added tokens as tokenizer.json would. */
static int list_added(struct json_object *list, const struct layout *l, const char *name,
		      struct err *e)
{
	struct json_object *decoder;
	int rc = json_get_object_or_null(l->config, "added_tokens_decoder", name, &decoder, e);
	if (rc < 0)
		return rc;
	if (decoder)
		return list_decoder(list, decoder, name, e);
	struct json_object *special = json_object_new_object();
	if (!special || json_object_object_add(special, END_OF_TEXT, NULL) < 0)
		rc = err_set(e, ENOMEM, "%s: no memory for its special tokens", name);
	if (rc == 0)
		rc = note_specials(special, l->special_map, name, e);
	if (rc == 0)
		rc = note_specials(special, l->config, name, e);
	if (rc == 0)
		rc = list_specials(list, l, special, name, e);
	if (rc == 0 && l->added)
		rc = list_ordinary(list, l, special, e);
	json_object_put(special);
	return rc;
}

/* --- merges.txt --- */

/* One merge a line, in order of rank, after a line that begins with #version. */
static int read_merge_lines(struct tokenizer *t, const struct layout *l, const char *name,
			    struct err *e)
{
	const char *text = l->merges, *end = text + l->merges_length;
	size_t valid = utf8_valid_length(text, l->merges_length);
	if (valid != l->merges_length)
		return err_set(e, EINVAL, "%s: invalid UTF-8 at byte %zu", name, valid);
	size_t lines = 1;
	for (const char *c = text; c < end; c++)
		lines += *c == '\n';
	int rc = merges_init(&t->merges, lines, t->vocabulary.seed, e);
	uint32_t rank = 0;
	for (const char *line = text, *next; rc == 0 && line < end; line = next) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		next = stop ? stop + 1 : end;
		size_t n = (size_t)((stop ? stop : end) - line);
		if (n > 0 && line[n - 1] == '\r')
			n--;
		if (n == 0 || (line == text && strncmp(line, "#version", 8) == 0))
			continue;
		rc = tokenizer_add_merge_line(t, line, n, rank++, name, e);
	}
	return rc;
}

/* --- the whole --- */

static int build(struct tokenizer *t, const struct layout *l, struct err *e)
{
	char *config = NULL, *vocab = NULL, *merges = NULL;
	struct json_object *added = json_object_new_array();
	int rc = added ? 0 : err_set(e, ENOMEM, "%s: no memory for added tokens", l->directory);
	if (rc == 0)
		rc = layout_path(l, "tokenizer_config.json", &config, e);
	if (rc == 0)
		rc = layout_path(l, "vocab.json", &vocab, e);
	if (rc == 0)
		rc = layout_path(l, "merges.txt", &merges, e);
	if (rc == 0)
		rc = read_class(t, l, config, e);
	if (rc == 0)
		rc = list_added(added, l, config, e);
	if (rc == 0)
		rc = tokenizer_add_vocabulary(t, l->vocab, added, vocab, e);
	if (rc == 0)
		rc = read_merge_lines(t, l, merges, e);
	if (rc == 0)
		rc = tokenizer_add_tokens(t, added, config, e);
	json_object_put(added);
	free(config);
	free(vocab);
	free(merges);
	return rc;
}

int tokenizer_read_gpt2(struct tokenizer *t, const char *directory, struct err *e)
{
	struct layout l = {.directory = directory};
	int rc = read_layout(&l, e);
	if (rc == 0)
		rc = build(t, &l, e);
	free_layout(&l);
	return rc;
}
