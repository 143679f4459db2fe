/* The writer that makes a config.json from a GGUF file's keys (gguf_config.c), for families that
 * add their own members. Only for engine/family. */
#ifndef MOEFS_ENGINE_FAMILY_GGUF_WRITER_H
#define MOEFS_ENGINE_FAMILY_GGUF_WRITER_H

#include "engine/family/gguf_family.h"

#include <stdio.h>

/* Keeps its first error. After an error, values that are read are 0 or the fallback, and the output
 * is discarded. */
struct gguf_writer {
	const struct gguf *g;
	const struct package *package;
	const struct family *family;
	const char *architecture, *name; /* of the file, for messages */
	FILE *out;
	struct err *e;
	int failed; /* the first error: a negative errno, as in e; 0: none so far */
};

enum { GGUF_KEY_BYTES = 256 };

/* Sets the error "FILE: …" with this errno. */
__attribute__((format(printf, 3, 4))) void gguf_writer_refuse(struct gguf_writer *w, int code,
							      const char *format, ...);

/* ARCHITECTURE.suffix; GGUF_KEY_BYTES is enough for all supported architectures. */
const char *gguf_full_key(const struct gguf_writer *w, const char *suffix,
			  char key[GGUF_KEY_BYTES]);
bool gguf_writer_has(const struct gguf_writer *w, const char *suffix);
uint64_t gguf_writer_uint(struct gguf_writer *w, const char *suffix);
uint64_t gguf_writer_uint_or(struct gguf_writer *w, const char *suffix, uint64_t fallback);
double gguf_writer_real(struct gguf_writer *w, const char *suffix);
/* Element `layer` of an array of integers, or the single number for all layers. */
uint64_t gguf_writer_uint_of(struct gguf_writer *w, const char *suffix, uint64_t layer);

/* Whether the element of this layer in an array is true or not 0; fallback: if the key is missing.
 */
bool gguf_writer_flag_of(struct gguf_writer *w, const char *suffix, uint64_t layer, bool fallback);
/* The tensor blk.LAYER.REST, or NULL. */
const struct package_tensor *gguf_writer_tensor(const struct gguf_writer *w, uint64_t layer,
						const char *rest);
/* Whether any of the model's own layers has such a tensor. */
bool gguf_writer_any_tensor(struct gguf_writer *w, const char *rest);
/* The number of layers without draft layers, at most CONFIG_MAX_LAYERS; 0 after an error. */
uint64_t gguf_writer_layers(struct gguf_writer *w);

void gguf_put_uint(const struct gguf_writer *w, const char *name, uint64_t value);
void gguf_put_bool(const struct gguf_writer *w, const char *name, bool value);
void gguf_put_real(const struct gguf_writer *w, const char *name, double value);

/* Writes a list of strings: the result of `kind` for each layer. */
void gguf_put_kinds(struct gguf_writer *w, const char *name,
		    const char *(*kind)(struct gguf_writer *w, uint64_t layer));
/* Writes swiglu_limit: one limit for the gated units of all layers (swiglu_clamp_exp and _shexp). */
void gguf_put_limit(struct gguf_writer *w);
/* ssm.inner_size / ssm.time_step_rank, the size of a head; 0 after an error. */
uint64_t gguf_writer_inner_dim(struct gguf_writer *w);

/* Reads a tensor of at most ROPE_FACTORS_MOST finite F32 numbers. Returns how many; 0 after an
 * error. */
uint32_t gguf_read_factors(struct gguf_writer *w, const struct package_tensor *t,
			   float factor[ROPE_FACTORS_MOST]);

#endif
