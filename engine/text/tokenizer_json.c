/* Reading tokenizer.json, the format of Hugging Face's tokenizers. Every part of it that changes
 * ids is either understood or refused by name; a key that is not known might be such a part. Left
 * aside are `truncation` and `padding`, which transformers resets before it encodes, and what only
 * concerns offsets. */
#include "engine/text/tokenizer_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	struct tokenizer *t;
	const char *name; /* of the file */
	bool byte_level;  /* ByteLevel was among the pre-tokenizers */
	struct added_entries added;
	struct err *e;
};

enum { KEYS_MAX = 10, PARTS_MAX = 3 };

/* One kind of normaliser, pre-tokenizer … by its "type": the keys that it may have, and how to read
 * it. */
struct part {
	const char *type;
	const char *keys[KEYS_MAX];
	int (*read)(struct reader *r, const struct json *object);
};
struct component {
	const char *key; /* in tokenizer.json */
	struct part parts[PARTS_MAX];
};

static int check_keys(struct reader *r, const struct json *object, const char *what,
		      const char *const keys[KEYS_MAX])
{
	for (const struct json *v = NULL; (v = json_next(object, v));) {
		const char *key = json_key(v);
		bool known = strcmp(key, "type") == 0;
		for (int i = 0; i < KEYS_MAX && keys[i] && !known; i++)
			known = strcmp(key, keys[i]) == 0;
		if (!known)
			return err_set(r->e, ENOTSUP,
				       "%s: %s has \"%s\", which this reader does not know",
				       r->name, what, key);
	}
	return 0;
}

/* Reads an object as the kind of part that its type says. */
static int read_part(struct reader *r, const struct component *c, const struct json *object)
{
	const char *type;
	int rc = json_get_string(object, "type", r->name, &type, r->e);
	if (rc < 0)
		return rc;
	for (int i = 0; i < PARTS_MAX && c->parts[i].type; i++) {
		const struct part *part = &c->parts[i];
		if (strcmp(type, part->type) != 0)
			continue;
		rc = check_keys(r, object, type, part->keys);
		return rc < 0 || !part->read ? rc : part->read(r, object);
	}
	return err_set(r->e, ENOTSUP, "%s: %s of type \"%s\" is not known to this reader", r->name,
		       c->key, type);
}

/* Reads the parts of a Sequence. */
static int read_list(struct reader *r, const struct component *c, const struct json *object,
		     const char *key)
{
	const struct json *list = NULL;
	int rc = json_get_list(object, key, r->name, &list, r->e);
	for (const struct json *v = NULL; rc == 0 && (v = json_next(list, v));)
		rc = read_part(r, c, v);
	return rc;
}

/* Reads a component of the document; null is none of it. */
static int read_component(struct reader *r, const struct component *c, const struct json *root)
{
	const struct json *object;
	int rc = json_get_object_or_null(root, c->key, r->name, &object, r->e);
	return rc < 0 || !object ? rc : read_part(r, c, object);
}

/* --- normalizer --- */

static int read_nfc(struct reader *r, const struct json *object)
{
	(void)object;
	r->t->nfc = true;
	return 0;
}

static int read_normalizers(struct reader *r, const struct json *object);

static const struct component NORMALIZER = {
	"normalizer",
	{{"NFC", {0}, read_nfc}, {"Sequence", {"normalizers"}, read_normalizers}},
};

static int read_normalizers(struct reader *r, const struct json *object)
{
	return read_list(r, &NORMALIZER, object, "normalizers");
}

/* --- pre_tokenizer --- */

static int add_stage(struct reader *r, const char *pattern, bool prefix_space)
{
	/* After ByteLevel a text is spelled in another alphabet, where patterns mean other things.
	 */
	if (r->byte_level)
		return err_set(r->e, ENOTSUP,
			       "%s: a pre-tokenizer after ByteLevel is not known to "
			       "this reader",
			       r->name);
	return splitter_add(&r->t->splitter, pattern, prefix_space, r->name, r->e);
}

static int read_split(struct reader *r, const struct json *object)
{
	const struct json *pattern = NULL;
	const char *regex = NULL, *behavior = NULL;
	bool invert = false;
	int rc = json_get_object(object, "pattern", r->name, &pattern, r->e);
	if (rc == 0)
		rc = json_get_string(pattern, "Regex", r->name, &regex, r->e);
	if (rc == 0)
		rc = json_get_string(object, "behavior", r->name, &behavior, r->e);
	if (rc == 0)
		rc = json_get_bool_or(object, "invert", r->name, false, &invert, r->e);
	if (rc < 0)
		return rc;
	if (strcmp(behavior, "Isolated") != 0 || invert)
		return err_set(r->e, ENOTSUP,
			       "%s: Split with behavior \"%s\"%s is not known to this reader, only "
			       "Isolated",
			       r->name, behavior, invert ? ", inverted," : "");
	return add_stage(r, regex, false);
}

static int read_byte_level(struct reader *r, const struct json *object)
{
	bool use_regex = true, prefix_space = true;
	int rc = json_get_bool_or(object, "use_regex", r->name, true, &use_regex, r->e);
	if (rc == 0)
		rc = json_get_bool_or(object, "add_prefix_space", r->name, true, &prefix_space,
				      r->e);
	if (rc == 0)
		rc = add_stage(r, use_regex ? GPT2_PATTERN : NULL, prefix_space);
	r->byte_level = true;
	return rc;
}

static int read_pre_tokenizers(struct reader *r, const struct json *object);

static const struct component PRE_TOKENIZER = {
	"pre_tokenizer",
	{{"ByteLevel", {"add_prefix_space", "trim_offsets", "use_regex"}, read_byte_level},
	 {"Split", {"pattern", "behavior", "invert"}, read_split},
	 {"Sequence", {"pretokenizers"}, read_pre_tokenizers}},
};

static int read_pre_tokenizers(struct reader *r, const struct json *object)
{
	return read_list(r, &PRE_TOKENIZER, object, "pretokenizers");
}

/* --- post_processor and decoder --- */

/* Templates put special tokens around a text. Pieces of conversations are encoded one by one here,
 * so a template that adds any would add them everywhere: refused until the session adds them once.
 */
static int read_template(struct reader *r, const struct json *object)
{
	const struct json *single;
	int rc = json_get_list(object, "single", r->name, &single, r->e);
	if (rc < 0)
		return rc;
	if (json_count(single) != 1 || !json_has(json_next(single, NULL), "Sequence"))
		return err_set(r->e, ENOTSUP,
			       "%s: its template adds special tokens around every text, which this "
			       "reader does not do",
			       r->name);
	return 0;
}

static int read_processors(struct reader *r, const struct json *object);

static const struct component POST_PROCESSOR = {
	"post_processor",
	{{"ByteLevel", {"add_prefix_space", "trim_offsets", "use_regex"}, NULL},
	 {"TemplateProcessing", {"single", "pair", "special_tokens"}, read_template},
	 {"Sequence", {"processors"}, read_processors}},
};

static int read_processors(struct reader *r, const struct json *object)
{
	return read_list(r, &POST_PROCESSOR, object, "processors");
}

static const struct component DECODER = {
	"decoder",
	{{"ByteLevel", {"add_prefix_space", "trim_offsets", "use_regex"}, NULL}},
};

/* --- model --- */

static const char *const MODEL_KEYS[KEYS_MAX] = {"vocab",
						 "merges",
						 "dropout",
						 "unk_token",
						 "continuing_subword_prefix",
						 "end_of_word_suffix",
						 "fuse_unk",
						 "byte_fallback",
						 "ignore_merges"};

/* Options of other kinds of BPE, which must be off. */
static int check_options(struct reader *r, const struct json *model)
{
	static const char *const AFFIXES[] = {"continuing_subword_prefix", "end_of_word_suffix"};
	for (size_t i = 0; i < sizeof AFFIXES / sizeof *AFFIXES; i++) {
		const char *affix;
		int rc = json_get_string_or(model, AFFIXES[i], r->name, "", &affix, r->e);
		if (rc < 0)
			return rc;
		if (*affix)
			return err_set(r->e, ENOTSUP,
				       "%s: \"%s\" is \"%s\"; this reader knows only "
				       "tokens without",
				       r->name, AFFIXES[i], affix);
	}
	double dropout = 0;
	bool byte_fallback = false;
	int rc = json_get_double_or(model, "dropout", r->name, 0, 1, 0, &dropout, r->e);
	if (rc == 0)
		rc = json_get_bool_or(model, "byte_fallback", r->name, false, &byte_fallback, r->e);
	if (rc == 0 && (dropout > 0 || byte_fallback))
		rc = err_set(r->e, ENOTSUP, "%s: \"%s\" is not known to this reader", r->name,
			     byte_fallback ? "byte_fallback" : "dropout");
	return rc;
}

/* An unknown token stands for bytes without a token of their own: fine where there are none. */
static int check_unknown(struct reader *r, const struct json *model)
{
	if (!json_has(model, "unk_token"))
		return 0;
	for (int byte = 0; byte < 256; byte++) {
		bool in_utf8 = byte != 0xc0 && byte != 0xc1 && byte < 0xf5;
		if (in_utf8 && r->t->vocabulary.byte_id[byte] < 0)
			return err_set(r->e, ENOTSUP,
				       "%s: \"unk_token\" would stand for byte 0x%02x, which this "
				       "reader does not do",
				       r->name, (unsigned)byte);
	}
	return 0;
}

/* A merge is "LEFT RIGHT" or, in newer files, ["LEFT", "RIGHT"]. */
static int read_merge(struct reader *r, const struct json *merge, uint32_t rank)
{
	const char *left = NULL, *right = NULL;
	if (json_kind(merge) != JSON_LIST) {
		int rc = json_as_string(merge, "merges", r->name, &left, r->e);
		return rc < 0 ? rc
			      : tokenizer_add_merge_line(r->t, left, strlen(left), rank, r->name,
							 r->e);
	}
	if (json_count(merge) != 2)
		return err_set(r->e, EINVAL, "%s: merge %u must have two parts, not %zu", r->name,
			       rank, json_count(merge));
	const struct json *first = json_next(merge, NULL);
	int rc = json_as_string(first, "merges", r->name, &left, r->e);
	if (rc == 0)
		rc = json_as_string(json_next(merge, first), "merges", r->name, &right, r->e);
	if (rc < 0)
		return rc;
	return tokenizer_add_merge(r->t, left, strlen(left), right, strlen(right), rank, r->name,
				   r->e);
}

static int read_merges(struct reader *r, const struct json *merges)
{
	uint32_t rank = 0;
	int rc = 0;
	for (const struct json *v = NULL; rc == 0 && (v = json_next(merges, v));)
		rc = read_merge(r, v, rank++);
	return rc;
}

static int read_model(struct reader *r, const struct json *root)
{
	const struct json *model = NULL, *vocab = NULL, *merges = NULL;
	const char *type = NULL;
	int rc = json_get_object(root, "model", r->name, &model, r->e);
	if (rc == 0) /* files before 2020 do not say */
		rc = json_get_string_or(model, "type", r->name, "BPE", &type, r->e);
	if (rc == 0 && strcmp(type, "BPE") != 0)
		rc = err_set(r->e, ENOTSUP,
			     "%s: a model of type \"%s\" is not known to this reader", r->name,
			     type);
	if (rc == 0)
		rc = check_keys(r, model, "the model", MODEL_KEYS);
	if (rc == 0)
		rc = check_options(r, model);
	if (rc == 0)
		rc = json_get_bool_or(model, "ignore_merges", r->name, false, &r->t->ignore_merges,
				      r->e);
	if (rc == 0)
		rc = json_get_object(model, "vocab", r->name, &vocab, r->e);
	if (rc == 0)
		rc = json_get_list(model, "merges", r->name, &merges, r->e);
	if (rc == 0)
		rc = tokenizer_add_vocabulary(r->t, vocab, &r->added, r->name, r->e);
	if (rc == 0)
		rc = check_unknown(r, model);
	return rc < 0 ? rc : read_merges(r, merges);
}

/* --- the document --- */

static int read_added(struct reader *r, const struct json *token)
{
	static const char *const KEYS[KEYS_MAX] = {"id",     "content", "special",   "single_word",
						   "lstrip", "rstrip",	"normalized"};
	struct added_entry entry;
	uint64_t id = 0;
	if (json_kind(token) != JSON_OBJECT)
		return json_wrong(token, "added_tokens", r->name, "a list of objects", r->e);
	int rc = check_keys(r, token, "an added token", KEYS);
	if (rc == 0)
		rc = json_get_uint(token, "id", r->name, 0, TOKEN_ID_MAX, &id, r->e);
	if (rc == 0)
		rc = added_entry_read(&entry, token, r->name, r->e);
	if (rc < 0)
		return rc;
	entry.id = (uint32_t)id;
	return added_entries_append(&r->added, &entry, r->e);
}

static int read_all_added(struct reader *r, const struct json *root)
{
	const struct json *added = NULL;
	int rc = json_get_list_or_null(root, "added_tokens", r->name, &added, r->e);
	for (const struct json *v = NULL; rc == 0 && (v = json_next(added, v));)
		rc = read_added(r, v);
	return rc;
}

static int read_document(struct reader *r, const struct json *root)
{
	static const char *const KEYS[KEYS_MAX] = {"version",	     "truncation", "padding",
						   "added_tokens",   "normalizer", "pre_tokenizer",
						   "post_processor", "decoder",	   "model"};
	static const struct component *const COMPONENTS[] = {&NORMALIZER, &PRE_TOKENIZER,
							     &POST_PROCESSOR, &DECODER, NULL};
	int rc = json_kind(root) == JSON_OBJECT
			 ? 0
			 : err_set(r->e, EINVAL, "%s: must be a JSON object", r->name);
	if (rc == 0)
		rc = check_keys(r, root, "the file", KEYS);
	if (rc == 0)
		rc = read_all_added(r, root);
	for (size_t i = 0; rc == 0 && COMPONENTS[i]; i++)
		rc = read_component(r, COMPONENTS[i], root);
	if (rc == 0 && (!r->byte_level || !json_has(root, "decoder")))
		rc = err_set(r->e, ENOTSUP,
			     "%s: no ByteLevel %s; this reader knows only byte-level "
			     "BPE",
			     r->name, r->byte_level ? "decoder" : "pre-tokenizer");
	if (rc == 0)
		rc = read_model(r, root);
	return rc < 0 ? rc : tokenizer_add_tokens(r->t, &r->added, r->name, r->e);
}

int tokenizer_read_json(struct tokenizer *t, const char *text, size_t n, const char *name,
			struct err *e)
{
	struct json *root;
	int rc = json_parse_text(&root, text, n, name, e);
	if (rc < 0)
		return rc;
	struct reader r = {.t = t, .name = name, .e = e};
	rc = read_document(&r, root);
	json_free(root);
	free(r.added.items);
	return rc;
}
