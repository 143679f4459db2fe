/* BPE tokenizers as published with checkpoints: byte-level ones (Sennrich et al. 2016; Radford
 * et al. 2019), and SentencePiece ones (Kudo and Richardson 2018).
 *
 * Reads tokenizer.json (Hugging Face), or vocab.json + merges.txt (GPT-2) with added_tokens.json
 * or tokenizer_config.json; tokenizer_gguf.h builds one from a GGUF file. Added tokens are cut
 * out of the text; the rest is normalised (NFC if the file says so; a space in front), split by
 * the file's patterns (PCRE2), and the bytes or characters of each word are merged by rank or
 * score. A part of a file that this reader does not know is an error that names it: a tokenizer
 * that is nearly right is wrong. Files are hostile: every size and id is checked.
 *
 * Opening takes at most 16 times the bytes of the files, the files included, and 12 bytes for
 * each id up to the largest (2^24), of which only those with tokens are touched. Published
 * vocabularies take five times their files.
 *
 * An open tokenizer is immutable; any number of threads may use it at once. */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKENIZER_H
#define MOEFS_ENGINE_TOKENIZER_TOKENIZER_H

#include "cache/err.h"
#include "engine/json/text_out.h"
#include "engine/tokenizer/token.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

/* Opens the tokenizer of a checkpoint's directory: tokenizer.json, else tiktoken.model, else
 * vocab.json and merges.txt, both with tokenizer_config.json, whose class says how text is split. -ENOENT: no tokenizer files;
 * -ENOTSUP: a file needs something that this reader does not know; -EINVAL: a file is wrong. */
int tokenizer_open(struct tokenizer **out, const char *directory, struct err *e);
/* Opens a tokenizer.json in memory; `name` is for errors. */
int tokenizer_open_text(struct tokenizer **out, const char *text, size_t n, const char *name,
			struct err *e);
void tokenizer_close(struct tokenizer *t);

/* One more than the largest id. */
uint32_t tokenizer_size(const struct tokenizer *t);
/* Id of a token by its text (added tokens included), or -1. The text is the one that the token
 * stands for: " the", not the vocabulary's "Ġthe". */
int64_t tokenizer_find(const struct tokenizer *t, const char *text);

/* Ids of the tokens that begin and end a text, for templates; -1: none. */
int64_t tokenizer_bos(const struct tokenizer *t);
int64_t tokenizer_eos(const struct tokenizer *t);
/* Whether this token ends a text or, if `turn`, a turn of a conversation. */
bool tokenizer_ends(const struct tokenizer *t, uint32_t id, bool turn);
/* Whether encoding puts a space in front of a text. Answers then begin with a space that is not
 * part of the text. */
bool tokenizer_leads_with_space(const struct tokenizer *t);

/* Appends the token that begins a text, if the model expects one. */
int tokenizer_begin(const struct tokenizer *t, struct token_list *ids, struct err *e);
/* Appends the token that ends a whole text, if the tokenizer says so: embeddings are made of such
 * texts. A text that goes on has none. */
int tokenizer_end(const struct tokenizer *t, struct token_list *ids, struct err *e);
/* Appends the ids of text[length] (UTF-8, may hold NULs). Added tokens spelled in the text
 * become their ids, as in Hugging Face's encode. Once *stop is true the call ends with
 * -ECANCELED, within milliseconds plus the time to normalise a run of combining marks; `stop`
 * may be NULL. On an error no ids are appended. -EILSEQ: invalid UTF-8, naming the byte offset;
 * -ENOTSUP: the file's split pattern needs more work on this text than its length allows
 * (pretokenize.c). */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t length,
		     const _Atomic bool *stop, struct token_list *ids, struct err *e);

/* tokenizer_encode for a text from several authors: rights[i] (enum token_right) says what
 * text[i] may spell. An added token is recognised only if all its bytes have the right it needs;
 * otherwise it stays text. An accent is not composed with a letter of another right. */
int tokenizer_encode_rights(const struct tokenizer *t, const char *text, const uint8_t *rights,
			    size_t length, const _Atomic bool *stop, struct token_list *ids,
			    struct err *e);

/* tokenizer_encode for a text that stands alone: with the token that begins a text, once, even
 * if the text spells it. */
int tokenizer_encode_alone(const struct tokenizer *t, const char *text, size_t length,
			   const _Atomic bool *stop, struct token_list *ids, struct err *e);

/* Whether there is a token with this id. */
bool tokenizer_has(const struct tokenizer *t, uint32_t id);
/* The bytes of one token: a pointer into the tokenizer, *length set. Tokens marked special have
 * length 0 unless `special`. An unknown id has length 0. */
const char *tokenizer_bytes(const struct tokenizer *t, uint32_t id, bool special, size_t *length);
/* Appends the text of ids, special tokens spelled out. */
void tokenizer_spell(const struct tokenizer *t, const uint32_t *ids, size_t count,
		     struct text_out *out);

#endif
