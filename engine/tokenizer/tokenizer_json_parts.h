/* The parts of a tokenizer.json around its model: what a text goes through before and after. */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKENIZER_JSON_PARTS_H
#define MOEFS_ENGINE_TOKENIZER_TOKENIZER_JSON_PARTS_H

#include "engine/tokenizer/tokenizer_build.h"

struct json_reader {
	struct tokenizer *t;
	const char *name; /* of the file */
	struct added_entries added;
	const char *bos; /* what its template puts before a text; NULL: nothing. Borrowed. */
	/* Which kinds of part were met. */
	bool byte_level;       /* ByteLevel among the pre-tokenizers */
	bool marks;	       /* spaces become U+2581 … */
	bool byte_decoder;     /* … ByteLevel among the decoders */
	bool mark_decoder;     /* … and U+2581 spaces again */
	bool fallback_decoder; /* <0x0A> becomes a byte */
	struct err *e;
};

/* A document, or a part of it, may have no keys but these, up to KEYS_MAX or a NULL, and "type". */
enum { KEYS_MAX = 10 };
int json_reader_check_keys(struct json_reader *r, const struct json *object, const char *what,
			   const char *const keys[KEYS_MAX]);
/* Reads normalizer, pre_tokenizer, post_processor and decoder, and checks that they belong
 * together. */
int json_reader_parts(struct json_reader *r, const struct json *root);

#endif
