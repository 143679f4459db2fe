/* What is done to a text before it is split: Unicode's normal form, spaces. */
#ifndef MOEFS_ENGINE_TOKENIZER_NORMALIZE_H
#define MOEFS_ENGINE_TOKENIZER_NORMALIZE_H

#include "cache/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NFC of valid UTF-8 that may hold NULs, into memory that the caller frees. Linear, whatever the
 * order of combining marks. */
int normalize_nfc(const char *text, size_t n, const _Atomic bool *stop, char **out, size_t *out_n,
		  struct err *e);

/* SentencePiece writes a space as U+2581. Here it stays a space, and so each of these becomes one,
 * in place; returns how many bytes are left. */
size_t normalize_spaces(char *text, size_t n);

/* The steps that a tokenizer's file asks for, in Hugging Face's order. */
struct normalizer {
	bool nfc;
	bool prepend; /* a space before any text (SentencePiece's dummy prefix) */
	bool marks;   /* U+2581 is a space */
};
/* *out, freed by the caller, is NULL where the text stays as it is: then *out_n is n. */
int normalize_text(const struct normalizer *z, const char *text, size_t n, const _Atomic bool *stop,
		   char **out, size_t *out_n, struct err *e);

/* A normalised text, whose bytes have rights as tokenizer_encode_rights takes them. */
struct normal_text {
	const char *text;
	const uint8_t *rights; /* NULL: none were given */
	size_t n;
	char *owned_text; /* NULL: it is the text as it was given */
	uint8_t *owned_rights;
};
void normalize_free(struct normal_text *t);
/* Parts with different rights are normalised each by itself, so that each byte's is known. */
int normalize_with_rights(const struct normalizer *z, const char *text, const uint8_t *rights,
			  size_t n, const _Atomic bool *stop, struct normal_text *out,
			  struct err *e);

#endif
