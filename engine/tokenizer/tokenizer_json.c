/* Reads tokenizer.json, the format of Hugging Face's tokenizers. Every part that changes ids is
 * either understood or refused by name; an unknown key might be such a part. Ignored are
 * `truncation` and `padding`, which transformers resets before it encodes, and options that only
 * concern offsets. */
#include "engine/tokenizer/tokenizer_build.h"

#include "engine/tokenizer/pretokenize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The state of reading one file. */

struct tokenizer_json {
	struct tokenizer *t;
	const char *name; /* of the file */
	struct added_entries added;
	/* The tokens that the template puts before and after a text; NULL: none. Borrowed. */
	const char *bos, *end;
	/* Which kinds of part the file has: */
	bool byte_level;       /* ByteLevel among the pre-tokenizers */
	bool marks;	       /* spaces become U+2581 … */
	bool byte_decoder;     /* … ByteLevel among the decoders */
	bool mark_decoder;     /* … and U+2581 spaces again */
	bool fallback_decoder; /* <0x0A> becomes a byte */
	struct err *e;
};

/* An object may have only these keys, up to KEYS_MAX or a NULL, and "type". */
enum { KEYS_MAX = 10 };

/* The parts around the model. Each is a row of a table with its allowed keys; others are refused
 * by name. The parts make one of two kinds of tokenizer: byte-level (Radford et al. 2019), or
 * pieces in which a space is U+2581 (SentencePiece). */

enum { PARTS_MAX = 8 };

/* One kind of normaliser, pre-tokenizer, … by its "type": its keys, and how to read it. */
struct tokenizer_json_part {
	const char *type;
	const char *keys[KEYS_MAX];
	int (*read)(struct tokenizer_json *r, const struct json *object);
};
struct tokenizer_json_component {
	const char *key;      /* in tokenizer.json */
	const char *sequence; /* the key of the list in its part of type "Sequence" */
	struct tokenizer_json_part parts[PARTS_MAX];
};

static const char MARK[] = "\u2581";

static int tokenizer_json_check_keys(struct tokenizer_json *r, const struct json *object,
				     const char *what, const char *const keys[KEYS_MAX])
{
	for (const struct json *v = NULL; (v = json_next(object, v));) {
		const char *key = json_key(v);
		bool known = strcmp(key, "type") == 0;
		for (int i = 0; i < KEYS_MAX && keys[i] && !known; i++)
			known = strcmp(key, keys[i]) == 0;
		if (!known)
			return err_set(r->e, ENOTSUP,
				       "%s: %s has \"%s\", which moefs does not support", r->name,
				       what, key);
	}
	return 0;
}

/* Reads a part by its type; a "Sequence" is a list of parts. */
static int tokenizer_json_read_part(struct tokenizer_json *r,
				    const struct tokenizer_json_component *c,
				    const struct json *object)
{
	const char *type;
	int rc = json_get_string(object, "type", r->name, &type, r->e);
	if (rc < 0)
		return rc;
	if (strcmp(type, "Sequence") == 0) {
		const char *const keys[KEYS_MAX] = {c->sequence};
		const struct json *list = NULL;
		rc = tokenizer_json_check_keys(r, object, type, keys);
		if (rc == 0)
			rc = json_get_list(object, c->sequence, r->name, &list, r->e);
		for (const struct json *v = NULL; rc == 0 && (v = json_next(list, v));)
			rc = tokenizer_json_read_part(r, c, v);
		return rc;
	}
	for (int i = 0; i < PARTS_MAX && c->parts[i].type; i++) {
		const struct tokenizer_json_part *part = &c->parts[i];
		if (strcmp(type, part->type) != 0)
			continue;
		rc = tokenizer_json_check_keys(r, object, type, part->keys);
		return rc < 0 || !part->read ? rc : part->read(r, object);
	}
	return err_set(r->e, ENOTSUP, "%s: moefs does not support %s of type \"%s\"", r->name,
		       c->key, type);
}

/* Checks that a key has this value; another value means something that this reader does not do. */
static int tokenizer_json_must_be(struct tokenizer_json *r, const struct json *object,
				  const char *part, const char *key, const char *value)
{
	const char *have = NULL;
	int rc = json_get_string(object, key, r->name, &have, r->e);
	if (rc < 0 || strcmp(have, value) == 0)
		return rc;
	return err_set(r->e, ENOTSUP,
		       "%s: moefs does not support %s with \"%s\": \"%s\", only \"%s\"", r->name,
		       part, key, have, value);
}

/* Checks that a Replace replaces `from` by `to`. */
static int tokenizer_json_must_replace(struct tokenizer_json *r, const struct json *object,
				       const char *from, const char *to)
{
	const struct json *pattern = NULL;
	int rc = json_get_object(object, "pattern", r->name, &pattern, r->e);
	if (rc == 0)
		rc = tokenizer_json_must_be(r, pattern, "Replace", "String", from);
	return rc < 0 ? rc : tokenizer_json_must_be(r, object, "Replace", "content", to);
}

/* --- normalizer --- */

static int tokenizer_json_read_nfc(struct tokenizer_json *r, const struct json *object)
{
	(void)object;
	if (r->marks)
		return err_set(r->e, ENOTSUP, "%s: moefs does not support NFC after Replace",
			       r->name);
	r->t->normalizer.nfc = true;
	return 0;
}

static int tokenizer_json_read_prepend(struct tokenizer_json *r, const struct json *object)
{
	r->t->normalizer.prepend = true;
	return tokenizer_json_must_be(r, object, "Prepend", "prepend", MARK);
}

static int tokenizer_json_read_replace(struct tokenizer_json *r, const struct json *object)
{
	r->marks = true;
	return tokenizer_json_must_replace(r, object, " ", MARK);
}

static const struct tokenizer_json_component NORMALIZER = {
	"normalizer",
	"normalizers",
	{{"NFC", {0}, tokenizer_json_read_nfc},
	 {"Prepend", {"prepend"}, tokenizer_json_read_prepend},
	 {"Replace", {"pattern", "content"}, tokenizer_json_read_replace}},
};

/* --- pre_tokenizer --- */

/* Patterns mean something else once a text is spelled in another alphabet. */
static int tokenizer_json_may_split(struct tokenizer_json *r)
{
	if (r->byte_level)
		return err_set(r->e, ENOTSUP,
			       "%s: moefs does not support a pre-tokenizer after ByteLevel",
			       r->name);
	if (r->marks)
		return err_set(r->e, ENOTSUP,
			       "%s: moefs does not support a pre-tokenizer where spaces are U+2581",
			       r->name);
	return 0;
}

static int tokenizer_json_add_stage(struct tokenizer_json *r, const char *pattern,
				    bool prefix_space)
{
	int rc = tokenizer_json_may_split(r);
	return rc < 0 ? rc : pretokenize_add(&r->t->splitter, pattern, prefix_space, r->name, r->e);
}

static int tokenizer_json_read_split(struct tokenizer_json *r, const struct json *object)
{
	const struct json *pattern = NULL;
	const char *regex = NULL, *behavior = NULL;
	bool invert = false;
	int rc = json_get_object(object, "pattern", r->name, &pattern, r->e);
	bool is_text = rc == 0 && json_has(pattern, "String");
	if (rc == 0)
		rc = json_get_string(pattern, is_text ? "String" : "Regex", r->name, &regex, r->e);
	if (rc == 0)
		rc = json_get_string(object, "behavior", r->name, &behavior, r->e);
	if (rc == 0)
		rc = json_get_bool_or(object, "invert", r->name, false, &invert, r->e);
	if (rc < 0)
		return rc;
	if (r->marks && is_text && !invert && strcmp(regex, " ") == 0)
		return 0; /* a text has no spaces any more (Gemma) */
	if (strcmp(behavior, "Isolated") != 0 || invert)
		return err_set(r->e, ENOTSUP,
			       "%s: moefs does not support Split with \"behavior\": \"%s\"%s, only "
			       "\"Isolated\"",
			       r->name, behavior, invert ? " (inverted)" : "");
	if (!is_text)
		return tokenizer_json_add_stage(r, regex, false);
	rc = tokenizer_json_may_split(r);
	return rc < 0 ? rc : pretokenize_add_literal(&r->t->splitter, regex, r->name, r->e);
}

static int tokenizer_json_read_digits(struct tokenizer_json *r, const struct json *object)
{
	bool each = false;
	int rc = json_get_bool_or(object, "individual_digits", r->name, false, &each, r->e);
	return rc < 0 ? rc : tokenizer_json_add_stage(r, each ? "\\p{N}" : "\\p{N}+", false);
}

static int tokenizer_json_read_byte_level(struct tokenizer_json *r, const struct json *object)
{
	bool use_regex = true, prefix_space = true;
	int rc = json_get_bool_or(object, "use_regex", r->name, true, &use_regex, r->e);
	if (rc == 0)
		rc = json_get_bool_or(object, "add_prefix_space", r->name, true, &prefix_space,
				      r->e);
	if (rc == 0)
		rc = tokenizer_json_add_stage(r, use_regex ? GPT2_PATTERN : NULL, prefix_space);
	r->byte_level = true;
	return rc;
}

/* Which texts get a space in front. Files before 2024 only say whether any do. */
static int tokenizer_json_read_scheme(struct tokenizer_json *r, const struct json *object,
				      const char **scheme)
{
	bool prefix = true;
	int rc = json_get_bool_or(object, "add_prefix_space", r->name, true, &prefix, r->e);
	return rc < 0 ? rc
		      : json_get_string_or(object, "prepend_scheme", r->name,
					   prefix ? "always" : "never", scheme, r->e);
}

static int tokenizer_json_read_metaspace(struct tokenizer_json *r, const struct json *object)
{
	static const char *const SCHEMES[] = {
		[LEAD_NEVER] = "never", [LEAD_FIRST] = "first", [LEAD_ALWAYS] = "always"};
	const char *scheme = NULL;
	int rc = tokenizer_json_may_split(r);
	if (rc == 0 && r->t->splitter.count > 0)
		rc = err_set(r->e, ENOTSUP,
			     "%s: moefs does not support Metaspace after another pre-tokenizer",
			     r->name);
	if (rc == 0)
		rc = tokenizer_json_must_be(r, object, "Metaspace", "replacement", MARK);
	if (rc == 0)
		rc = tokenizer_json_read_scheme(r, object, &scheme);
	if (rc == 0)
		rc = json_get_bool_or(object, "split", r->name, true, &r->t->split_spaces, r->e);
	if (rc < 0)
		return rc;
	r->marks = true;
	for (size_t i = 0; i < sizeof SCHEMES / sizeof *SCHEMES; i++) {
		r->t->lead = (int)i;
		if (strcmp(scheme, SCHEMES[i]) == 0)
			return 0;
	}
	return err_set(r->e, ENOTSUP,
		       "%s: moefs does not support Metaspace with \"prepend_scheme\": \"%s\"",
		       r->name, scheme);
}

#define BYTE_LEVEL_KEYS                                         \
	{                                                       \
		"add_prefix_space", "trim_offsets", "use_regex" \
	}
#define METASPACE_KEYS                                                                  \
	{                                                                               \
		"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep" \
	}

static const struct tokenizer_json_component PRE_TOKENIZER = {
	"pre_tokenizer",
	"pretokenizers",
	{{"ByteLevel", BYTE_LEVEL_KEYS, tokenizer_json_read_byte_level},
	 {"Split", {"pattern", "behavior", "invert"}, tokenizer_json_read_split},
	 {"Digits", {"individual_digits"}, tokenizer_json_read_digits},
	 {"Metaspace", METASPACE_KEYS, tokenizer_json_read_metaspace}},
};

/* --- post_processor --- */

/* Accepts a template that puts at most one token before a text, and at most one after it. */
static int tokenizer_json_read_template(struct tokenizer_json *r, const struct json *object)
{
	const struct json *single;
	int rc = json_get_list(object, "single", r->name, &single, r->e);
	bool text = false, more = false;
	if (rc < 0)
		return rc;
	for (const struct json *v = NULL; rc == 0 && (v = json_next(single, v));) {
		const struct json *token = NULL;
		const char **to = text ? &r->end : &r->bos;
		if (json_has(v, "Sequence")) {
			more |= text;
			text = true;
			continue;
		}
		more |= *to != NULL;
		rc = json_get_object(v, "SpecialToken", r->name, &token, r->e);
		if (rc == 0)
			rc = json_get_string(token, "id", r->name, to, r->e);
	}
	if (rc == 0 && (more || !text))
		rc = err_set(r->e, ENOTSUP,
			     "%s: the post_processor adds more special tokens to a text than one "
			     "at its beginning and one at its end, which moefs does not support",
			     r->name);
	return rc;
}

static const struct tokenizer_json_component POST_PROCESSOR = {
	"post_processor",
	"processors",
	{{"ByteLevel", BYTE_LEVEL_KEYS, NULL},
	 {"TemplateProcessing",
	  {"single", "pair", "special_tokens"},
	  tokenizer_json_read_template}},
};

/* --- decoder --- */

static int tokenizer_json_read_byte_decoder(struct tokenizer_json *r, const struct json *object)
{
	(void)object;
	r->byte_decoder = true;
	return 0;
}

static int tokenizer_json_read_replace_decoder(struct tokenizer_json *r, const struct json *object)
{
	r->mark_decoder = true;
	return tokenizer_json_must_replace(r, object, MARK, " ");
}

static int tokenizer_json_read_fallback_decoder(struct tokenizer_json *r, const struct json *object)
{
	(void)object;
	r->fallback_decoder = true;
	return 0;
}

/* Removes the space that was put in front. */
static int tokenizer_json_read_strip(struct tokenizer_json *r, const struct json *object)
{
	uint64_t start = 0, stop = 0;
	int rc = tokenizer_json_must_be(r, object, "Strip", "content", " ");
	if (rc == 0)
		rc = json_get_uint(object, "start", r->name, 0, 1, &start, r->e);
	if (rc == 0)
		rc = json_get_uint(object, "stop", r->name, 0, 0, &stop, r->e);
	r->t->strip_space = start > 0;
	return rc;
}

static int tokenizer_json_read_metaspace_decoder(struct tokenizer_json *r,
						 const struct json *object)
{
	const char *scheme = NULL;
	int rc = tokenizer_json_must_be(r, object, "Metaspace", "replacement", MARK);
	if (rc == 0)
		rc = tokenizer_json_read_scheme(r, object, &scheme);
	r->mark_decoder = true;
	r->t->strip_space = rc == 0 && strcmp(scheme, "never") != 0;
	return rc;
}

static const struct tokenizer_json_component DECODER = {
	"decoder",
	"decoders",
	{{"ByteLevel", BYTE_LEVEL_KEYS, tokenizer_json_read_byte_decoder},
	 {"Replace", {"pattern", "content"}, tokenizer_json_read_replace_decoder},
	 {"ByteFallback", {0}, tokenizer_json_read_fallback_decoder},
	 {"Fuse", {0}, NULL},
	 {"Metaspace", METASPACE_KEYS, tokenizer_json_read_metaspace_decoder},
	 {"Strip", {"content", "start", "stop"}, tokenizer_json_read_strip}},
};

/* --- together --- */

/* Reads normalizer, pre_tokenizer, post_processor and decoder, and checks that they belong
 * together. */
static int tokenizer_json_read_parts(struct tokenizer_json *r, const struct json *root)
{
	static const struct tokenizer_json_component *const COMPONENTS[] = {
		&NORMALIZER, &PRE_TOKENIZER, &POST_PROCESSOR, &DECODER, NULL};
	int rc = 0;
	for (size_t i = 0; rc == 0 && COMPONENTS[i]; i++) {
		const struct json *object = NULL;
		rc = json_get_object_or_null(root, COMPONENTS[i]->key, r->name, &object, r->e);
		if (rc == 0 && object)
			rc = tokenizer_json_read_part(r, COMPONENTS[i], object);
	}
	if (rc < 0)
		return rc;
	/* The decoder must undo what the normalizer and pre-tokenizer do. */
	bool bytes = r->byte_level && r->byte_decoder, pieces = r->marks && r->mark_decoder;
	if (bytes == pieces || r->byte_level != r->byte_decoder || r->marks != r->mark_decoder ||
	    (!pieces && r->t->normalizer.prepend))
		return err_set(
			r->e, ENOTSUP,
			"%s: the decoder does not undo the normalizer and pre-tokenizer; "
			"moefs supports byte-level BPE (ByteLevel in both) and SentencePiece "
			"BPE (spaces to U+2581 and back)",
			r->name);
	r->t->normalizer.marks = r->marks;
	r->t->vocabulary.spelling = r->marks ? SPELLED_PIECES : SPELLED_BYTES;
	return 0;
}

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

/* Checks that options of other kinds of BPE are off. */
static int tokenizer_json_check_options(struct tokenizer_json *r, const struct json *model)
{
	static const char *const AFFIXES[] = {"continuing_subword_prefix", "end_of_word_suffix"};
	for (size_t i = 0; i < sizeof AFFIXES / sizeof *AFFIXES; i++) {
		const char *affix;
		int rc = json_get_string_or(model, AFFIXES[i], r->name, "", &affix, r->e);
		if (rc < 0)
			return rc;
		if (*affix)
			return err_set(r->e, ENOTSUP, "%s: moefs does not support \"%s\": \"%s\"",
				       r->name, AFFIXES[i], affix);
	}
	double dropout = 0;
	bool fallback = false, pieces = r->t->vocabulary.spelling == SPELLED_PIECES;
	int rc = json_get_double_or(model, "dropout", r->name, 0, 1, 0, &dropout, r->e);
	if (rc == 0)
		rc = json_get_bool_or(model, "byte_fallback", r->name, false, &fallback, r->e);
	if (rc == 0 && dropout > 0)
		rc = err_set(r->e, ENOTSUP, "%s: moefs does not support \"dropout\"", r->name);
	if (rc == 0 && (fallback != pieces || r->fallback_decoder != pieces))
		rc = err_set(r->e, ENOTSUP,
			     "%s: SentencePiece BPE needs \"byte_fallback\" and the decoder "
			     "ByteFallback; byte-level BPE must have neither",
			     r->name);
	return rc;
}

/* An unknown token stands for bytes without a token: fine if there are none. */
static int tokenizer_json_check_unknown(struct tokenizer_json *r, const struct json *model)
{
	const struct vocabulary *v = &r->t->vocabulary;
	bool pieces = v->spelling == SPELLED_PIECES;
	if (!json_has(model, "unk_token") && !pieces)
		return 0;
	for (int byte = 0; byte < 256; byte++) {
		bool in_utf8 = byte != 0xc0 && byte != 0xc1 && byte < 0xf5;
		if (in_utf8 && (pieces ? v->fallback_id : v->byte_id)[byte] < 0)
			return err_set(r->e, ENOTSUP,
				       "%s: \"unk_token\" would stand for byte 0x%02x, which moefs "
				       "does not support",
				       r->name, (unsigned)byte);
	}
	return 0;
}

/* A merge is "LEFT RIGHT" or, in newer files, ["LEFT", "RIGHT"]. */
static int tokenizer_json_read_merge(struct tokenizer_json *r, const struct json *merge,
				     uint32_t rank)
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

static int tokenizer_json_read_model(struct tokenizer_json *r, const struct json *root)
{
	const struct json *model = NULL, *vocab = NULL, *merges = NULL;
	const char *type = NULL;
	int rc = json_get_object(root, "model", r->name, &model, r->e);
	if (rc == 0) /* files before 2020 do not say */
		rc = json_get_string_or(model, "type", r->name, "BPE", &type, r->e);
	if (rc == 0 && strcmp(type, "BPE") != 0)
		rc = err_set(r->e, ENOTSUP,
			     "%s: moefs does not support a model of type \"%s\", only BPE", r->name,
			     type);
	if (rc == 0)
		rc = tokenizer_json_check_keys(r, model, "the model", MODEL_KEYS);
	if (rc == 0)
		rc = tokenizer_json_check_options(r, model);
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
		rc = tokenizer_json_check_unknown(r, model);
	uint32_t rank = 0;
	for (const struct json *v = NULL; rc == 0 && (v = json_next(merges, v));)
		rc = tokenizer_json_read_merge(r, v, rank++);
	return rc;
}

/* --- the document --- */

static int tokenizer_json_read_added(struct tokenizer_json *r, const struct json *token)
{
	static const char *const KEYS[KEYS_MAX] = {"id",     "content", "special",   "single_word",
						   "lstrip", "rstrip",	"normalized"};
	struct added_entry entry;
	uint64_t id = 0;
	if (json_kind(token) != JSON_OBJECT)
		return json_wrong(token, "added_tokens", r->name, "a list of objects", r->e);
	int rc = tokenizer_json_check_keys(r, token, "an added token", KEYS);
	if (rc == 0)
		rc = json_get_uint(token, "id", r->name, 0, TOKEN_ID_MAX, &id, r->e);
	if (rc == 0)
		rc = tokenizer_read_entry(&entry, token, r->name, r->e);
	if (rc < 0)
		return rc;
	entry.id = (uint32_t)id;
	return tokenizer_append_entry(&r->added, &entry, r->e);
}

/* Finds an added token that the template puts around a text; -1: there is none. */
static int tokenizer_json_find_around(struct tokenizer_json *r, const char *text, const char *does,
				      int64_t *id)
{
	for (size_t i = 0; text && i < r->added.count; i++)
		if (strcmp(r->added.items[i].content, text) == 0)
			*id = r->added.items[i].id;
	if (text && *id < 0)
		return err_set(r->e, EINVAL,
			       "%s: the post_processor %s a text with \"%s\", which is not a token",
			       r->name, does, text);
	return 0;
}

static int tokenizer_json_find_both(struct tokenizer_json *r)
{
	int rc = tokenizer_json_find_around(r, r->bos, "begins", &r->t->bos);
	r->t->add_bos = r->bos != NULL;
	return rc ? rc : tokenizer_json_find_around(r, r->end, "ends", &r->t->end);
}

static int tokenizer_json_read_document(struct tokenizer_json *r, const struct json *root)
{
	static const char *const KEYS[KEYS_MAX] = {"version",	     "truncation", "padding",
						   "added_tokens",   "normalizer", "pre_tokenizer",
						   "post_processor", "decoder",	   "model"};
	const struct json *added = NULL;
	int rc = json_kind(root) == JSON_OBJECT
			 ? 0
			 : err_set(r->e, EINVAL, "%s: must be a JSON object", r->name);
	if (rc == 0)
		rc = tokenizer_json_check_keys(r, root, "the file", KEYS);
	if (rc == 0)
		rc = json_get_list_or_null(root, "added_tokens", r->name, &added, r->e);
	for (const struct json *v = NULL; rc == 0 && (v = json_next(added, v));)
		rc = tokenizer_json_read_added(r, v);
	if (rc == 0)
		rc = tokenizer_json_read_parts(r, root);
	if (rc == 0)
		rc = tokenizer_json_find_both(r);
	if (rc == 0)
		rc = tokenizer_json_read_model(r, root);
	return rc < 0 ? rc : tokenizer_add_tokens(r->t, &r->added, r->name, r->e);
}

int tokenizer_json_read(struct tokenizer *t, const char *text, size_t n, const char *name,
			struct err *e)
{
	struct json *root;
	int rc = json_parse_text(&root, text, n, name, e);
	if (rc < 0)
		return rc;
	struct tokenizer_json r = {.t = t, .name = name, .e = e};
	rc = tokenizer_json_read_document(&r, root);
	json_free(root);
	free(r.added.items);
	return rc;
}
