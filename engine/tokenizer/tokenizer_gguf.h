/* A tokenizer from the arrays that GGUF files hold; knows nothing of the file format. */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKENIZER_GGUF_H
#define MOEFS_ENGINE_TOKENIZER_TOKENIZER_GGUF_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>

struct tokenizer;

struct tokenizer_gguf_text { /* any bytes, not NUL-terminated */
	const char *bytes;
	size_t length;
};

/* Kinds of tokens, as GGUF files number them. */
enum tokenizer_kind {
	KIND_UNDEFINED,
	KIND_NORMAL,
	KIND_UNKNOWN,
	KIND_CONTROL,
	KIND_USER_DEFINED, /* cut out of a text like KIND_CONTROL, but not special */
	KIND_UNUSED,
	KIND_BYTE, /* <0x0A> */
};
enum { SAID_NO, SAID_YES, NOT_SAID };
enum { MARKED_ENDS = 4 };

/* All borrowed. */
struct tokenizer_gguf {
	const char *name;	 /* of the file, for errors */
	const char *model, *pre; /* kind of vocabulary; how text is split. NULL: not said */
	const struct tokenizer_gguf_text *tokens; /* by id */
	size_t token_count;
	const int32_t *kinds; /* [token_count]; NULL: all are normal */
	const float *scores;  /* [token_count], higher merges earlier; NULL: none */
	const struct tokenizer_gguf_text *merges; /* "LEFT RIGHT", in order */
	size_t merge_count;
	int64_t bos, eos;	   /* ids; -1: not said */
	int64_t ends[MARKED_ENDS]; /* other tokens that end a turn; -1: none */
	int add_bos, add_eos, space_prefix; /* SAID_NO … */
};

/* Models are "gpt2" (bytes, merges, split as `pre` names it), "llama" (pieces by score) and
 * "gemma4" (pieces, merges). -ENOTSUP: another, or a `pre` that is not known, by name; -EINVAL:
 * parts that do not fit together. */
int tokenizer_open_gguf(struct tokenizer **out, const struct tokenizer_gguf *p, struct err *e);

#endif
