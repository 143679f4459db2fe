/* Reading tokenizer.json, the format of Hugging Face's tokenizers. Every part of it that changes
 * ids is either understood or refused by name; a key that is not known might be such a part. Left
 * aside are `truncation` and `padding`, which transformers resets before it encodes, and what only
 * concerns offsets. */
#include "engine/tokenizer/tokenizer_json.h"

#include "engine/tokenizer/tokenizer_json_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
static int check_options(struct json_reader *r, const struct json *model)
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
	bool fallback = false, pieces = r->t->vocabulary.spelling == SPELLED_PIECES;
	int rc = json_get_double_or(model, "dropout", r->name, 0, 1, 0, &dropout, r->e);
	if (rc == 0)
		rc = json_get_bool_or(model, "byte_fallback", r->name, false, &fallback, r->e);
	if (rc == 0 && dropout > 0)
		rc = err_set(r->e, ENOTSUP, "%s: \"dropout\" is not known to this reader", r->name);
	if (rc == 0 && (fallback != pieces || r->fallback_decoder != pieces))
		rc = err_set(r->e, ENOTSUP,
			     "%s: \"byte_fallback\" and a decoder for it must both be there with "
			     "pieces, and with bytes neither",
			     r->name);
	return rc;
}

/* An unknown token stands for bytes without a token of their own: fine where there are none. */
static int check_unknown(struct json_reader *r, const struct json *model)
{
	const struct vocabulary *v = &r->t->vocabulary;
	bool pieces = v->spelling == SPELLED_PIECES;
	if (!json_has(model, "unk_token") && !pieces)
		return 0;
	for (int byte = 0; byte < 256; byte++) {
		bool in_utf8 = byte != 0xc0 && byte != 0xc1 && byte < 0xf5;
		if (in_utf8 && (pieces ? v->fallback_id : v->byte_id)[byte] < 0)
			return err_set(r->e, ENOTSUP,
				       "%s: \"unk_token\" would stand for byte 0x%02x, which this "
				       "reader does not do",
				       r->name, (unsigned)byte);
	}
	return 0;
}

/* A merge is "LEFT RIGHT" or, in newer files, ["LEFT", "RIGHT"]. */
static int read_merge(struct json_reader *r, const struct json *merge, uint32_t rank)
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

static int read_merges(struct json_reader *r, const struct json *merges)
{
	uint32_t rank = 0;
	int rc = 0;
	for (const struct json *v = NULL; rc == 0 && (v = json_next(merges, v));)
		rc = read_merge(r, v, rank++);
	return rc;
}

static int read_model(struct json_reader *r, const struct json *root)
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
		rc = json_reader_check_keys(r, model, "the model", MODEL_KEYS);
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

static int read_added(struct json_reader *r, const struct json *token)
{
	static const char *const KEYS[KEYS_MAX] = {"id",     "content", "special",   "single_word",
						   "lstrip", "rstrip",	"normalized"};
	struct added_entry entry;
	uint64_t id = 0;
	if (json_kind(token) != JSON_OBJECT)
		return json_wrong(token, "added_tokens", r->name, "a list of objects", r->e);
	int rc = json_reader_check_keys(r, token, "an added token", KEYS);
	if (rc == 0)
		rc = json_get_uint(token, "id", r->name, 0, TOKEN_ID_MAX, &id, r->e);
	if (rc == 0)
		rc = added_entry_read(&entry, token, r->name, r->e);
	if (rc < 0)
		return rc;
	entry.id = (uint32_t)id;
	return added_entries_append(&r->added, &entry, r->e);
}

static int read_all_added(struct json_reader *r, const struct json *root)
{
	const struct json *added = NULL;
	int rc = json_get_list_or_null(root, "added_tokens", r->name, &added, r->e);
	for (const struct json *v = NULL; rc == 0 && (v = json_next(added, v));)
		rc = read_added(r, v);
	return rc;
}

/* What the template puts before a text, which is an added token. */
static int find_bos(struct json_reader *r)
{
	for (size_t i = 0; r->bos && i < r->added.count; i++)
		if (strcmp(r->added.items[i].content, r->bos) == 0)
			r->t->bos = r->added.items[i].id;
	r->t->add_bos = r->bos != NULL;
	if (r->t->add_bos && r->t->bos < 0)
		return err_set(r->e, EINVAL,
			       "%s: its template begins with \"%s\", which is no token", r->name,
			       r->bos);
	return 0;
}

static int read_document(struct json_reader *r, const struct json *root)
{
	static const char *const KEYS[KEYS_MAX] = {"version",	     "truncation", "padding",
						   "added_tokens",   "normalizer", "pre_tokenizer",
						   "post_processor", "decoder",	   "model"};
	int rc = json_kind(root) == JSON_OBJECT
			 ? 0
			 : err_set(r->e, EINVAL, "%s: must be a JSON object", r->name);
	if (rc == 0)
		rc = json_reader_check_keys(r, root, "the file", KEYS);
	if (rc == 0)
		rc = read_all_added(r, root);
	if (rc == 0)
		rc = json_reader_parts(r, root);
	if (rc == 0)
		rc = find_bos(r);
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
	struct json_reader r = {.t = t, .name = name, .e = e};
	rc = read_document(&r, root);
	json_free(root);
	free(r.added.items);
	return rc;
}
