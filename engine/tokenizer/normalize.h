/* Normalisation of a text before it is split: Unicode form C, and spaces. */
#ifndef MOEFS_ENGINE_TOKENIZER_NORMALIZE_H
#define MOEFS_ENGINE_TOKENIZER_NORMALIZE_H

#include "cache/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NFC of valid UTF-8 that may hold NULs; the caller frees *out. Linear time for any order of
 * combining marks. */
int normalize_nfc(const char *text, size_t n, const _Atomic bool *stop, char **out, size_t *out_n,
		  struct err *e);

/* Replaces each U+2581, SentencePiece's space, by a space, in place. Returns the remaining
 * bytes. */
size_t normalize_spaces(char *text, size_t n);

/* The steps that a tokenizer file asks for, in Hugging Face's order. */
struct normalizer {
	bool nfc;
	bool prepend; /* a space before any text (SentencePiece's dummy prefix) */
	bool marks;   /* U+2581 is a space */
};
/* *out, freed by the caller, is NULL if the text does not change; then *out_n is n. */
int normalize_text(const struct normalizer *z, const char *text, size_t n, const _Atomic bool *stop,
		   char **out, size_t *out_n, struct err *e);

/* A normalised text and the rights of its bytes (see tokenizer_encode_rights). */
struct normal_text {
	const char *text;
	const uint8_t *rights; /* per byte; NULL: none were given */
	size_t n;
	char *owned_text; /* NULL: the text did not change */
	uint8_t *owned_rights;
};
void normalize_free(struct normal_text *t);
/* Normalises each part with one right by itself, so that the right of each byte is known. */
int normalize_with_rights(const struct normalizer *z, const char *text, const uint8_t *rights,
			  size_t n, const _Atomic bool *stop, struct normal_text *out,
			  struct err *e);

#endif
