/* Recipes: which tensor is stored in which weight format.
 *
 * `-o quant=` names one. bf16 has every matrix in the checkpoint's own 16-bit (or 32-bit) type, and
 * computes exactly. The others store each class of tensors as the table in recipe.c says, and
 * compute exactly if they are asked to: what is in codes is then taken out of them on its way into
 * memory.
 */
#ifndef MOEFS_ENGINE_FAMILY_RECIPE_H
#define MOEFS_ENGINE_FAMILY_RECIPE_H

#include "cache/err.h"
#include "engine/family/role.h"
#include "kernels/format.h"

#include <stdbool.h>
#include <stddef.h>

/* How expert records are kept on disk; the weights are the same ones either way. */
enum recipe_codec {
	CODEC_NONE,
	CODEC_ZSTD, /* as cache/codec.h makes them; for records in 16 bits */
	CODEC_AUTO, /* whichever is faster: asked for only, and decided when a store is made */
};

struct config;
struct published;

struct recipe {
	const char *quant;					    /* its name in the table */
	enum format of[CLASS_MATRICES], of_hybrids[CLASS_MATRICES]; /* those have delta nets */
	bool exact;	   /* all of memory in floats: weights, activations, key-value cache */
	bool as_published; /* what is in a format that is kept stays in it: published.h */

	/* Facts of the checkpoint that the stored layout depends on; found while converting and
	 * written into the store's key, so that a mount need not read the checkpoint's headers. */
	enum format kept;     /* of what is not quantised: the checkpoint's type */
	enum norm_type norms; /* of TQ groups: F16 unless one would over- or underflow */
	bool draft;	      /* there is a draft layer */
	/* Rounded by what is known of the inputs: from so many tokens; which, as a number that
	 * others are unlikely to have. 0: to the nearest. */
	uint32_t refined;
	uint16_t refined_by;
	/* The formats that are kept; the caller's, for as long as a plan is made of the recipe.
	 * NULL: none is. Not in texts: it is found in the checkpoint's headers each time. */
	const struct published *published;
	enum recipe_codec codec; /* of an engine: what was asked for; of a store: what it has */
};

/* EINVAL, listing the names, if there is no such recipe. NULL is the default of models with
 * experts. kept and norms are left at their usual values, codec at CODEC_NONE, without a draft. */
int recipe_find(struct recipe *r, const char *quant, struct err *e);
/* What a model of numbers gets where nobody asks for a recipe; the rest as recipe_find. */
void recipe_find_default(struct recipe *r, const struct config *c);
/* Whether it is that one; and what was that before. Stores by the former default are used as long
 * as nobody asks for another recipe. */
bool recipe_is_default(const struct recipe *r, const struct config *c);
void recipe_make_former(struct recipe *r);
/* Asks for a codec by its name; NULL is auto. EINVAL: there is none of this name, or it is of no
 * use to this recipe's records. */
int recipe_ask_codec(struct recipe *r, const char *codec, struct err *e);
const char *recipe_codec_name(enum recipe_codec codec);
/* Whether the experts' records are in 16 bits, the only ones that a codec shrinks. */
bool recipe_can_code(const struct recipe *r);
/* The recipe that computes exactly with what this one stores; of `auto`, with what is published. */
void recipe_make_exact(struct recipe *r);
/* Whether it stores numbers alone, and those of codes: bf16. */
bool recipe_is_plain(const struct recipe *r);
/* What a recipe that keeps formats comes to for a model that has none to keep; the codec stays. */
void recipe_keep_none(struct recipe *r, const struct config *c);
/* The same recipe with these facts of the checkpoint. */
void recipe_keep(struct recipe *r, enum format kept, enum norm_type norms);

/* The recipe as the text of a store's key, and back (false: not one of this version's texts). How
 * it is computed with is no part of it. */
void recipe_to_text(const struct recipe *r, char *text, size_t size);
bool recipe_from_text(struct recipe *r, const char *text);

/* The stored format of such a model's tensor with that role: what its class becomes by this recipe.
 * Vectors are F32: tiny, and exact for every source. */
enum format recipe_format(const struct recipe *r, const struct config *c, enum tensor_role role);

#endif
