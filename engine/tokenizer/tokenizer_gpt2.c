/* Reads GPT-2's files: vocab.json, merges.txt, and tokenizer_config.json, which has the added
 * tokens and the class, which determines the split pattern and the normaliser. Older checkpoints
 * have the added tokens in added_tokens.json, and the names of the special ones in
 * special_tokens_map.json. */
#include "engine/tokenizer/tokenizer_build.h"

#include "engine/tokenizer/pretokenize.h"
#include "cache/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The meaning of transformers' tokenizer_class. */
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
/* Special by default in all these classes, if it has an id. */
static const char END_OF_TEXT[] = "<|endoftext|>";

/* The directory's documents; NULL: there is none. */
struct gpt2_layout {
	const char *directory;
	struct json *vocab, *config, *added, *special_map;
	char *merges;
	size_t merges_length;
};

static int gpt2_path(const struct gpt2_layout *l, const char *file, char **path, struct err *e)
{
	if (asprintf(path, "%s/%s", l->directory, file) < 0)
		return err_set(e, ENOMEM, "%s: out of memory for a path", l->directory);
	return 0;
}

static int gpt2_read_layout(struct gpt2_layout *l, struct err *e)
{
	const char *folder = l->directory;
	int rc = json_parse_object_in(&l->vocab, folder, "vocab.json", TOKENIZER_FILE_MAX, e);
	if (rc == 0 && !l->vocab)
		return err_set(e, ENOENT,
			       "%s: has no tokenizer.json and no vocab.json; copy the tokenizer's "
			       "files beside the weights",
			       l->directory);
	if (rc == 0)
		rc = json_parse_object_in(&l->config, folder, "tokenizer_config.json",
					  CONFIG_FILE_MAX, e);
	if (rc == 0 && !l->config)
		return err_set(e, ENOENT,
			       "%s: has a vocab.json but no tokenizer_config.json, whose "
			       "\"tokenizer_class\" says how text is split",
			       l->directory);
	if (rc == 0)
		rc = json_parse_object_in(&l->added, folder, "added_tokens.json", CONFIG_FILE_MAX,
					  e);
	if (rc == 0)
		rc = json_parse_object_in(&l->special_map, folder, "special_tokens_map.json",
					  CONFIG_FILE_MAX, e);
	char *path = NULL;
	if (rc == 0)
		rc = gpt2_path(l, "merges.txt", &path, e);
	if (rc < 0)
		return rc;
	rc = json_read_file(&l->merges, &l->merges_length, path, TOKENIZER_FILE_MAX, e);
	free(path);
	return rc;
}

/* --- the class --- */

static int gpt2_read_class(struct tokenizer *t, const struct gpt2_layout *l, const char *name,
			   struct err *e)
{
	const char *class_name;
	bool prefix_space = false;
	int rc = json_get_string(l->config, "tokenizer_class", name, &class_name, e);
	if (rc == 0)
		rc = json_get_bool_or(l->config, "add_prefix_space", name, false, &prefix_space, e);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++) {
		if (strcmp(class_name, CLASSES[i].name) != 0)
			continue;
		t->normalizer.nfc = CLASSES[i].nfc;
		rc = pretokenize_add(&t->splitter, CLASSES[i].pattern, false, name, e);
		return rc < 0 ? rc : pretokenize_add(&t->splitter, NULL, prefix_space, name, e);
	}
	return err_set(e, ENOTSUP,
		       "%s: moefs does not support \"tokenizer_class\": \"%s\"; add the model's "
		       "tokenizer.json, which says how text is split",
		       name, class_name);
}

/* --- added tokens --- */

/* A text that a document names as a special token. */
struct gpt2_special {
	const char *content;	  /* borrowed */
	const struct json *flags; /* an object; NULL: given as a string */
	const struct json *id;	  /* NULL: none was found */
	size_t order;		  /* of being noted */
};
struct gpt2_specials {
	struct gpt2_special *items;
	size_t count, capacity;
};

static int gpt2_append_special(struct gpt2_specials *s, const char *content,
			       const struct json *flags, struct err *e)
{
	if (s->count == s->capacity) {
		size_t capacity = 2 * s->capacity + 16;
		struct gpt2_special *items = reallocarray(s->items, capacity, sizeof *items);
		if (!items)
			return err_set(e, ENOMEM, "out of memory for %zu special tokens", capacity);
		s->items = items;
		s->capacity = capacity;
	}
	s->items[s->count] =
		(struct gpt2_special){.content = content, .flags = flags, .order = s->count};
	s->count++;
	return 0;
}

/* Notes one special token, given as a string or as an object with "content" and flags. */
static int gpt2_note_special(struct gpt2_specials *s, const struct json *value, const char *key,
			     const char *name, struct err *e)
{
	bool is_object = json_kind(value) == JSON_OBJECT;
	const char *content;
	int rc = is_object ? json_get_string(value, "content", name, &content, e)
			   : json_as_string(value, key, name, &content, e);
	return rc < 0 ? rc : gpt2_append_special(s, content, is_object ? value : NULL, e);
}

/* Notes all special tokens that a document names. */
static int gpt2_note_specials(struct gpt2_specials *s, const struct json *document,
			      const char *name, struct err *e)
{
	static const char *const KEYS[] = {"bos_token", "eos_token", "unk_token", "pad_token",
					   "sep_token", "cls_token", "mask_token"};
	static const char MORE[] = "additional_special_tokens";
	if (!document)
		return 0;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < sizeof KEYS / sizeof *KEYS; i++)
		if (json_has(document, KEYS[i]))
			rc = gpt2_note_special(s, json_find(document, KEYS[i]), KEYS[i], name, e);
	const struct json *more = NULL;
	if (rc == 0)
		rc = json_get_list_or_null(document, MORE, name, &more, e);
	for (const struct json *v = NULL; rc == 0 && (v = json_next(more, v));)
		rc = gpt2_note_special(s, v, MORE, name, e);
	return rc;
}

static int gpt2_by_content(const void *a, const void *b)
{
	return strcmp(((const struct gpt2_special *)a)->content,
		      ((const struct gpt2_special *)b)->content);
}

static int gpt2_by_content_and_order(const void *a, const void *b)
{
	const struct gpt2_special *x = a, *y = b;
	int order = gpt2_by_content(x, y);
	return order ? order : (x->order > y->order) - (x->order < y->order);
}

/* Sorts the list and keeps each token once, with its first flags. */
static void gpt2_sort_specials(struct gpt2_specials *s)
{
	size_t kept = 0;
	qsort(s->items, s->count, sizeof *s->items, gpt2_by_content_and_order);
	for (size_t i = 0; i < s->count; i++) {
		struct gpt2_special *last = kept ? &s->items[kept - 1] : NULL;
		if (!last || gpt2_by_content(last, &s->items[i]) != 0)
			s->items[kept++] = s->items[i];
		else if (!last->flags)
			last->flags = s->items[i].flags;
	}
	s->count = kept;
}

static struct gpt2_special *gpt2_find_special(const struct gpt2_specials *s, const char *content)
{
	struct gpt2_special key = {.content = content};
	return bsearch(&key, s->items, s->count, sizeof key, gpt2_by_content);
}

/* Sets the ids, from an object {text: id}. */
static void gpt2_find_special_ids(const struct gpt2_specials *s, const struct json *ids)
{
	for (const struct json *v = NULL; (v = json_next(ids, v));) {
		struct gpt2_special *special = gpt2_find_special(s, json_key(v));
		if (special)
			special->id = v;
	}
}

static int gpt2_list_token(struct added_entries *list, const char *content, const struct json *id,
			   const struct json *flags, bool special, const char *name, struct err *e)
{
	struct added_entry entry = {.normalized = !special};
	uint64_t number = 0;
	int rc = json_as_uint(id, content, name, 0, TOKEN_ID_MAX, &number, e);
	if (rc == 0 && flags)
		rc = tokenizer_read_entry(&entry, flags, name, e);
	if (rc < 0)
		return rc;
	if (flags && special && !json_has(flags, "normalized"))
		entry.normalized = false;
	entry.content = content;
	entry.length = strlen(content);
	entry.special = special;
	entry.id = (uint32_t)number;
	return tokenizer_append_entry(list, &entry, e);
}

/* Lists the other tokens of added_tokens.json. */
static int gpt2_list_ordinary(struct added_entries *list, const struct gpt2_layout *l,
			      const struct gpt2_specials *s, struct err *e)
{
	char *path = NULL;
	int rc = gpt2_path(l, "added_tokens.json", &path, e);
	if (rc < 0)
		return rc;
	for (const struct json *v = NULL; rc == 0 && (v = json_next(l->added, v));)
		if (!gpt2_find_special(s, json_key(v)))
			rc = gpt2_list_token(list, json_key(v), v, NULL, false, path, e);
	free(path);
	return rc;
}

/* The layout before tokenizer_config.json listed added tokens. */
static int gpt2_list_older(struct added_entries *list, const struct gpt2_layout *l,
			   const char *name, struct err *e)
{
	struct gpt2_specials s = {0};
	int rc = gpt2_append_special(&s, END_OF_TEXT, NULL, e);
	if (rc == 0)
		rc = gpt2_note_specials(&s, l->special_map, name, e);
	if (rc == 0)
		rc = gpt2_note_specials(&s, l->config, name, e);
	if (rc == 0) {
		gpt2_sort_specials(&s);
		gpt2_find_special_ids(&s, l->vocab);
		gpt2_find_special_ids(&s, l->added); /* overrides the vocabulary */
	}
	for (size_t i = 0; rc == 0 && i < s.count; i++)
		if (s.items[i].id || strcmp(s.items[i].content, END_OF_TEXT) != 0)
			rc = gpt2_list_token(list, s.items[i].content, s.items[i].id,
					     s.items[i].flags, true, name, e);
	if (rc == 0)
		rc = gpt2_list_ordinary(list, l, &s, e);
	free(s.items);
	return rc;
}

/* --- merges.txt --- */

/* Reads one merge per line, in order of rank, after a line that begins with #version. */
static int gpt2_read_merges(struct tokenizer *t, const struct gpt2_layout *l, const char *name,
			    struct err *e)
{
	const char *text = l->merges, *end = text + l->merges_length;
	size_t valid = utf8_valid_length(text, l->merges_length);
	if (valid != l->merges_length)
		return err_set(e, EINVAL, "%s: invalid UTF-8 at byte %zu", name, valid);
	uint32_t rank = 0;
	int rc = 0;
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

static int gpt2_build(struct tokenizer *t, const struct gpt2_layout *l, struct err *e)
{
	char *config = NULL, *vocab = NULL, *merges = NULL;
	struct added_entries added = {0};
	const struct json *decoder = NULL;
	int rc = gpt2_path(l, "tokenizer_config.json", &config, e);
	if (rc == 0)
		rc = gpt2_path(l, "vocab.json", &vocab, e);
	if (rc == 0)
		rc = gpt2_path(l, "merges.txt", &merges, e);
	if (rc == 0)
		rc = gpt2_read_class(t, l, config, e);
	if (rc == 0)
		rc = json_get_object_or_null(l->config, "added_tokens_decoder", config, &decoder,
					     e);
	if (rc == 0)
		rc = decoder ? tokenizer_list_decoder(&added, decoder, config, e)
			     : gpt2_list_older(&added, l, config, e);
	if (rc == 0)
		rc = tokenizer_add_vocabulary(t, l->vocab, &added, vocab, e);
	if (rc == 0)
		rc = gpt2_read_merges(t, l, merges, e);
	if (rc == 0)
		rc = tokenizer_add_tokens(t, &added, config, e);
	if (rc == 0)
		rc = tokenizer_config_take(t, l->config, config, e);
	free(added.items);
	free(config);
	free(vocab);
	free(merges);
	return rc;
}

int gpt2_read(struct tokenizer *t, const char *directory, struct err *e)
{
	struct gpt2_layout l = {.directory = directory};
	int rc = gpt2_read_layout(&l, e);
	if (rc == 0)
		rc = gpt2_build(t, &l, e);
	json_free(l.vocab);
	json_free(l.config);
	json_free(l.added);
	json_free(l.special_map);
	free(l.merges);
	return rc;
}
