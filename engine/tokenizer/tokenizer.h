/* BPE tokenizers as published with checkpoints: byte-level ones (Sennrich et al. 2016; Radford et
 * al. 2019), and those of pieces (SentencePiece: Kudo and Richardson 2018).
 *
 * Reads tokenizer.json (Hugging Face tokenizers), or vocab.json + merges.txt (GPT-2's layout) with
 * added_tokens.json or tokenizer_config.json beside them; tokenizer_gguf.h takes what a GGUF file
 * holds. Pipeline: added tokens are cut out of the text; the rest is normalised (NFC where the file
 * says so; a space in front), split by the file's patterns (PCRE2), and each word's bytes or
 * characters are merged in order of rank or score. A part of the file that this reader does not
 * know is an error that names it: a tokenizer that is nearly right is wrong. Files are hostile:
 * every size and id is checked.
 *
 * Opening takes at most 16 times the bytes of the files, the files included, whatever is in them,
 * and 12 bytes for each id up to the largest (2^24), of which only those are touched that have
 * tokens. Published vocabularies take five times their files.
 *
 * A tokenizer is immutable once opened; any number of threads may use one at once.
 */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKENIZER_H
#define MOEFS_ENGINE_TOKENIZER_TOKENIZER_H

#include "cache/err.h"
#include "engine/tokenizer/token.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

/* Opens the tokenizer of a checkpoint's directory: tokenizer.json where there is one, else
 * vocab.json, merges.txt and tokenizer_config.json, whose class says how text is split. -ENOENT: no
 * tokenizer files; -ENOTSUP: one that needs what this reader does not know; -EINVAL: files that are
 * wrong. */
int tokenizer_open(struct tokenizer **out, const char *directory, struct err *e);
/* The same for a tokenizer.json in memory; `name` is for errors. */
int tokenizer_open_text(struct tokenizer **out, const char *text, size_t n, const char *name,
			struct err *e);
void tokenizer_close(struct tokenizer *t);

/* One more than the largest id. */
uint32_t tokenizer_size(const struct tokenizer *t);
/* Id of a token by its text (added tokens included), or -1. The text is what the token stands for:
 * " the", not the vocabulary's "Ġthe". */
int64_t tokenizer_find(const struct tokenizer *t, const char *text);

/* Ids of the tokens that begin and end a text, for who writes them (templates); -1: none. */
int64_t tokenizer_bos(const struct tokenizer *t);
int64_t tokenizer_eos(const struct tokenizer *t);
/* Whether a model that gives this token is done with its text, or with its turn of a conversation.
 */
bool tokenizer_ends(const struct tokenizer *t, uint32_t id, bool turn);
/* Whether texts get a space in front before they are encoded, as answers then have. It is not part
 * of what is said. */
bool tokenizer_leads_with_space(const struct tokenizer *t);

/* What the model expects before a text: appends the token that begins it, where there is one. */
int tokenizer_begin(const struct tokenizer *t, struct token_list *ids, struct err *e);
/* Appends the ids of text[length] (UTF-8, may hold NULs). Added tokens spelled in the text become
 * their ids, as in Hugging Face's encode. Once *stop is true it ends with -ECANCELED, within
 * milliseconds and the time that it takes to normalise a run of combining marks; stop may be NULL.
 * -EILSEQ: invalid UTF-8, naming the byte offset. -ENOTSUP: the file's split pattern needs more
 * work on this text than is allowed for its length (pretokenize.c). */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t length,
		     const _Atomic bool *stop, struct token_list *ids, struct err *e);

/* The same for a text whose bytes did not all come from one hand: rights[i] (enum token_right) says
 * what text[i] may spell, and an added token is one only where all its bytes may. What may not
 * stays text. An accent that stands on a letter of another hand is not composed with it. */
int tokenizer_encode_rights(const struct tokenizer *t, const char *text, const uint8_t *rights,
			    size_t length, const _Atomic bool *stop, struct token_list *ids,
			    struct err *e);

/* The same for a text that stands alone: tokenizer_begin, and not twice where the text spells it.
 */
int tokenizer_encode_alone(const struct tokenizer *t, const char *text, size_t length,
			   const _Atomic bool *stop, struct token_list *ids, struct err *e);

/* Whether there is a token with this id. */
bool tokenizer_has(const struct tokenizer *t, uint32_t id);
/* The bytes of one token, for streaming: pointer into the tokenizer, *length set. Special tokens
 * (those marked special) give length 0 unless `special` is set. An unknown id gives length 0. */
const char *tokenizer_bytes(const struct tokenizer *t, uint32_t id, bool special, size_t *length);

#endif
