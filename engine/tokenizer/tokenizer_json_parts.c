/* The parts of a tokenizer.json around its model. Each is a row of a table with the keys that it
 * may have; what is not there is refused by name. Two kinds of tokenizer come of them: byte-level
 * ones (Radford et al. 2019) and those of pieces, where a space is U+2581 (SentencePiece). */
#include "engine/tokenizer/tokenizer_json_parts.h"

#include "engine/tokenizer/split_names.h"

#include <errno.h>
#include <string.h>

enum { PARTS_MAX = 8 };

/* One kind of normaliser, pre-tokenizer … by its "type": the keys that it may have, and how to read
 * it. */
struct part {
	const char *type;
	const char *keys[KEYS_MAX];
	int (*read)(struct json_reader *r, const struct json *object);
};
struct component {
	const char *key; /* in tokenizer.json */
	struct part parts[PARTS_MAX];
};

static const char MARK[] = "\u2581";

int json_reader_check_keys(struct json_reader *r, const struct json *object, const char *what,
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
static int read_part(struct json_reader *r, const struct component *c, const struct json *object)
{
	const char *type;
	int rc = json_get_string(object, "type", r->name, &type, r->e);
	if (rc < 0)
		return rc;
	for (int i = 0; i < PARTS_MAX && c->parts[i].type; i++) {
		const struct part *part = &c->parts[i];
		if (strcmp(type, part->type) != 0)
			continue;
		rc = json_reader_check_keys(r, object, type, part->keys);
		return rc < 0 || !part->read ? rc : part->read(r, object);
	}
	return err_set(r->e, ENOTSUP, "%s: %s of type \"%s\" is not known to this reader", r->name,
		       c->key, type);
}

/* Reads the parts of a Sequence. */
static int read_list(struct json_reader *r, const struct component *c, const struct json *object,
		     const char *key)
{
	const struct json *list = NULL;
	int rc = json_get_list(object, key, r->name, &list, r->e);
	for (const struct json *v = NULL; rc == 0 && (v = json_next(list, v));)
		rc = read_part(r, c, v);
	return rc;
}

/* Reads a component of the document; null is none of it. */
static int read_component(struct json_reader *r, const struct component *c, const struct json *root)
{
	const struct json *object;
	int rc = json_get_object_or_null(root, c->key, r->name, &object, r->e);
	return rc < 0 || !object ? rc : read_part(r, c, object);
}

/* A part's key, which must have one value: another means what this reader does not do. */
static int must_be(struct json_reader *r, const struct json *object, const char *part,
		   const char *key, const char *value)
{
	const char *have = NULL;
	int rc = json_get_string(object, key, r->name, &have, r->e);
	if (rc < 0 || strcmp(have, value) == 0)
		return rc;
	return err_set(r->e, ENOTSUP,
		       "%s: %s with \"%s\" of \"%s\" is not known to this reader, only \"%s\"",
		       r->name, part, key, have, value);
}

/* Replace of one text by another, for any that it finds. */
static int must_replace(struct json_reader *r, const struct json *object, const char *from,
			const char *to)
{
	const struct json *pattern = NULL;
	int rc = json_get_object(object, "pattern", r->name, &pattern, r->e);
	if (rc == 0)
		rc = must_be(r, pattern, "Replace", "String", from);
	return rc < 0 ? rc : must_be(r, object, "Replace", "content", to);
}

/* --- normalizer --- */

static int read_nfc(struct json_reader *r, const struct json *object)
{
	(void)object;
	if (r->marks)
		return err_set(r->e, ENOTSUP, "%s: NFC after Replace is not known to this reader",
			       r->name);
	r->t->normalizer.nfc = true;
	return 0;
}

static int read_prepend(struct json_reader *r, const struct json *object)
{
	r->t->normalizer.prepend = true;
	return must_be(r, object, "Prepend", "prepend", MARK);
}

static int read_replace(struct json_reader *r, const struct json *object)
{
	r->marks = true;
	return must_replace(r, object, " ", MARK);
}

static int read_normalizers(struct json_reader *r, const struct json *object);

static const struct component NORMALIZER = {
	"normalizer",
	{{"NFC", {0}, read_nfc},
	 {"Prepend", {"prepend"}, read_prepend},
	 {"Replace", {"pattern", "content"}, read_replace},
	 {"Sequence", {"normalizers"}, read_normalizers}},
};

static int read_normalizers(struct json_reader *r, const struct json *object)
{
	return read_list(r, &NORMALIZER, object, "normalizers");
}

/* --- pre_tokenizer --- */

/* Patterns mean other things where a text is spelled in another alphabet. */
static int may_split(struct json_reader *r)
{
	if (r->byte_level)
		return err_set(r->e, ENOTSUP,
			       "%s: a pre-tokenizer after ByteLevel is not known to this reader",
			       r->name);
	if (r->marks)
		return err_set(r->e, ENOTSUP,
			       "%s: a pre-tokenizer where spaces are U+2581 is not known to this "
			       "reader",
			       r->name);
	return 0;
}

static int add_stage(struct json_reader *r, const char *pattern, bool prefix_space)
{
	int rc = may_split(r);
	return rc < 0 ? rc : splitter_add(&r->t->splitter, pattern, prefix_space, r->name, r->e);
}

static int read_split(struct json_reader *r, const struct json *object)
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
		return 0; /* there are none (Gemma) */
	if (strcmp(behavior, "Isolated") != 0 || invert)
		return err_set(r->e, ENOTSUP,
			       "%s: Split with behavior \"%s\"%s is not known to this reader, only "
			       "Isolated",
			       r->name, behavior, invert ? ", inverted," : "");
	if (!is_text)
		return add_stage(r, regex, false);
	rc = may_split(r);
	return rc < 0 ? rc : splitter_add_text(&r->t->splitter, regex, r->name, r->e);
}

static int read_digits(struct json_reader *r, const struct json *object)
{
	bool each = false;
	int rc = json_get_bool_or(object, "individual_digits", r->name, false, &each, r->e);
	return rc < 0 ? rc : add_stage(r, each ? "\\p{N}" : "\\p{N}+", false);
}

static int read_byte_level(struct json_reader *r, const struct json *object)
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

/* Which texts get a space in front. Files before 2024 say only whether any do. */
static int read_scheme(struct json_reader *r, const struct json *object, const char **scheme)
{
	bool prefix = true;
	int rc = json_get_bool_or(object, "add_prefix_space", r->name, true, &prefix, r->e);
	return rc < 0 ? rc
		      : json_get_string_or(object, "prepend_scheme", r->name,
					   prefix ? "always" : "never", scheme, r->e);
}

static int read_metaspace(struct json_reader *r, const struct json *object)
{
	static const char *const SCHEMES[] = {
		[LEAD_NEVER] = "never", [LEAD_FIRST] = "first", [LEAD_ALWAYS] = "always"};
	const char *scheme = NULL;
	int rc = may_split(r);
	if (rc == 0 && r->t->splitter.count > 0)
		rc = err_set(
			r->e, ENOTSUP,
			"%s: Metaspace after another pre-tokenizer is not known to this reader",
			r->name);
	if (rc == 0)
		rc = must_be(r, object, "Metaspace", "replacement", MARK);
	if (rc == 0)
		rc = read_scheme(r, object, &scheme);
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
		       "%s: Metaspace with \"prepend_scheme\" of \"%s\" is not known to this "
		       "reader",
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

static int read_pre_tokenizers(struct json_reader *r, const struct json *object);

static const struct component PRE_TOKENIZER = {
	"pre_tokenizer",
	{{"ByteLevel", BYTE_LEVEL_KEYS, read_byte_level},
	 {"Split", {"pattern", "behavior", "invert"}, read_split},
	 {"Digits", {"individual_digits"}, read_digits},
	 {"Metaspace", METASPACE_KEYS, read_metaspace},
	 {"Sequence", {"pretokenizers"}, read_pre_tokenizers}},
};

static int read_pre_tokenizers(struct json_reader *r, const struct json *object)
{
	return read_list(r, &PRE_TOKENIZER, object, "pretokenizers");
}

/* --- post_processor --- */

/* A template puts special tokens around a text: none, or one that begins it. */
static int read_template(struct json_reader *r, const struct json *object)
{
	const struct json *single;
	int rc = json_get_list(object, "single", r->name, &single, r->e);
	if (rc < 0)
		return rc;
	const struct json *first = json_next(single, NULL), *last = first;
	if (json_count(single) == 2) {
		const struct json *token = NULL;
		last = json_next(single, first);
		if (json_has(first, "SpecialToken"))
			rc = json_get_object(first, "SpecialToken", r->name, &token, r->e);
		if (rc == 0 && token)
			rc = json_get_string(token, "id", r->name, &r->bos, r->e);
		if (rc < 0)
			return rc;
	}
	if (json_count(single) != (r->bos ? 2u : 1u) || !json_has(last, "Sequence"))
		return err_set(r->e, ENOTSUP,
			       "%s: its template adds special tokens around every text other than "
			       "one at the beginning, which this reader does not do",
			       r->name);
	return 0;
}

static int read_processors(struct json_reader *r, const struct json *object);

static const struct component POST_PROCESSOR = {
	"post_processor",
	{{"ByteLevel", BYTE_LEVEL_KEYS, NULL},
	 {"TemplateProcessing", {"single", "pair", "special_tokens"}, read_template},
	 {"Sequence", {"processors"}, read_processors}},
};

static int read_processors(struct json_reader *r, const struct json *object)
{
	return read_list(r, &POST_PROCESSOR, object, "processors");
}

/* --- decoder --- */

static int read_byte_decoder(struct json_reader *r, const struct json *object)
{
	(void)object;
	r->byte_decoder = true;
	return 0;
}

static int read_replace_decoder(struct json_reader *r, const struct json *object)
{
	r->mark_decoder = true;
	return must_replace(r, object, MARK, " ");
}

static int read_fallback_decoder(struct json_reader *r, const struct json *object)
{
	(void)object;
	r->fallback_decoder = true;
	return 0;
}

/* Takes the space away that was put in front. */
static int read_strip(struct json_reader *r, const struct json *object)
{
	uint64_t start = 0, stop = 0;
	int rc = must_be(r, object, "Strip", "content", " ");
	if (rc == 0)
		rc = json_get_uint(object, "start", r->name, 0, 1, &start, r->e);
	if (rc == 0)
		rc = json_get_uint(object, "stop", r->name, 0, 0, &stop, r->e);
	r->t->strip_space = start > 0;
	return rc;
}

static int read_metaspace_decoder(struct json_reader *r, const struct json *object)
{
	const char *scheme = NULL;
	int rc = must_be(r, object, "Metaspace", "replacement", MARK);
	if (rc == 0)
		rc = read_scheme(r, object, &scheme);
	r->mark_decoder = true;
	r->t->strip_space = rc == 0 && strcmp(scheme, "never") != 0;
	return rc;
}

static int read_decoders(struct json_reader *r, const struct json *object);

static const struct component DECODER = {
	"decoder",
	{{"ByteLevel", BYTE_LEVEL_KEYS, read_byte_decoder},
	 {"Replace", {"pattern", "content"}, read_replace_decoder},
	 {"ByteFallback", {0}, read_fallback_decoder},
	 {"Fuse", {0}, NULL},
	 {"Metaspace", METASPACE_KEYS, read_metaspace_decoder},
	 {"Strip", {"content", "start", "stop"}, read_strip},
	 {"Sequence", {"decoders"}, read_decoders}},
};

static int read_decoders(struct json_reader *r, const struct json *object)
{
	return read_list(r, &DECODER, object, "decoders");
}

/* --- together --- */

/* What was taken apart must be put together again the same way. */
static int check_kind(struct json_reader *r)
{
	bool bytes = r->byte_level && r->byte_decoder, pieces = r->marks && r->mark_decoder;
	if (bytes != pieces && r->byte_level == r->byte_decoder && r->marks == r->mark_decoder &&
	    (pieces || !r->t->normalizer.prepend))
		return 0;
	return err_set(
		r->e, ENOTSUP,
		"%s: its decoder is not the other half of its normalizer and pre-tokenizer; this "
		"reader knows byte-level BPE (ByteLevel in both) and BPE of pieces (spaces to "
		"U+2581 and back)",
		r->name);
}

int json_reader_parts(struct json_reader *r, const struct json *root)
{
	static const struct component *const COMPONENTS[] = {&NORMALIZER, &PRE_TOKENIZER,
							     &POST_PROCESSOR, &DECODER, NULL};
	int rc = 0;
	for (size_t i = 0; rc == 0 && COMPONENTS[i]; i++)
		rc = read_component(r, COMPONENTS[i], root);
	if (rc == 0)
		rc = check_kind(r);
	r->t->normalizer.marks = rc == 0 && r->marks;
	r->t->vocabulary.spelling = r->marks ? SPELLED_PIECES : SPELLED_BYTES;
	return rc;
}
