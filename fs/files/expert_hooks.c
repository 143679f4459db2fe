/* What experts and their layers' folders have besides names and bytes: attributes that show what is
 * in memory, when it was used and what is pinned; chmod, which pins; extended attributes.
 *
 * All of it is read from atomics, so that looking waits for nobody; a pin is a mark that the cache
 * acts on behind. */
#include "fs/files/files.h"
#include "fs/mount/node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static void inspect(const struct node *n, struct pager_expert *x)
{
	model_expert_inspect(n->model->model, n->layer, n->item, x);
}

static void inspect_layer(const struct node *n, struct model_layer *l)
{
	model_layer_inspect(n->model->model, n->layer, l);
}

/* ---- attributes ---- */

/* 0: never used, which leaves the time as it is. */
static void set_atime(struct stat *st, uint64_t last_used)
{
	if (last_used)
		st->st_atim = (struct timespec){(time_t)(last_used / 1000000000U),
						(long)(last_used % 1000000000U)};
}

static void expert_attr(const struct node *n, struct stat *st)
{
	struct pager_expert x;
	inspect(n, &x);
	st->st_blocks = (blkcnt_t)((x.bytes + 511) / 512);
	st->st_mode |= x.pinned ? S_ISVTX : 0;
	set_atime(st, x.last_used);
}

static void layer_attr(const struct node *n, struct stat *st)
{
	struct model_layer l;
	inspect_layer(n, &l);
	st->st_mode |= l.experts && l.pinned == l.experts ? S_ISVTX : 0;
	set_atime(st, l.last_used);
}

/* ---- chmod ---- */

/* Nothing but the sticky bit may change, and that is whether all of these are pinned. */
static int set_sticky(const struct node *n, mode_t mode, mode_t changed, uint32_t first,
		      uint32_t count, struct err *e)
{
	if (changed != S_ISVTX)
		return err_set(e, EPERM,
			       "of an expert and of a layer's folder chmod changes the sticky bit "
			       "alone: +t pins, -t unpins");
	if (count == 0)
		return err_set(e, EPERM,
			       "experts/%02" PRIu32 ": a dense layer has no experts to pin",
			       n->layer);
	struct pager_id *ids = calloc(count, sizeof *ids);
	if (!ids)
		return err_set(e, ENOMEM, "no memory for a list of %" PRIu32 " experts", count);
	for (uint32_t i = 0; i < count; i++)
		ids[i] = (struct pager_id){n->layer, first + i};
	int code = mode & S_ISVTX ? model_experts_pin(n->model->model, ids, count, e)
				  : model_experts_unpin(n->model->model, ids, count, e);
	free(ids);
	return code;
}

static int expert_chmod(const struct node *n, mode_t mode, mode_t changed, struct err *e)
{
	return set_sticky(n, mode, changed, n->item, 1, e);
}

static int layer_chmod(const struct node *n, mode_t mode, mode_t changed, struct err *e)
{
	return set_sticky(n, mode, changed, 0, model_experts(n->model->model, n->layer), e);
}

/* ---- extended attributes ---- */

#define NUMBER(function, of, looks, field)                           \
	static void function(const struct node *n, struct text *out) \
	{                                                            \
		struct of x;                                         \
		looks(n, &x);                                        \
		text_format(out, "%" PRIu64, (uint64_t)x.field);     \
	}
NUMBER(expert_resident, pager_expert, inspect, resident)
NUMBER(expert_pinned, pager_expert, inspect, pinned)
NUMBER(expert_bytes, pager_expert, inspect, bytes)
NUMBER(expert_hits, pager_expert, inspect, hits)
NUMBER(expert_misses, pager_expert, inspect, misses)
NUMBER(expert_last_token, pager_expert, inspect, last_token)
NUMBER(layer_experts, model_layer, inspect_layer, experts)
NUMBER(layer_resident, model_layer, inspect_layer, resident)
NUMBER(layer_pinned, model_layer, inspect_layer, pinned)
NUMBER(layer_bytes, model_layer, inspect_layer, bytes)
NUMBER(layer_hits, model_layer, inspect_layer, hits)
NUMBER(layer_misses, model_layer, inspect_layer, misses)

static void inspect_model(const struct node *n, struct pager_stats *s)
{
	model_cache_stats(n->model->model, s);
}
NUMBER(model_resident, pager_stats, inspect_model, experts_resident)
NUMBER(model_pinned_bytes, pager_stats, inspect_model, pinned)
NUMBER(model_bytes, pager_stats, inspect_model, used)
NUMBER(model_hits, pager_stats, inspect_model, hits)
NUMBER(model_misses, pager_stats, inspect_model, misses)

static void fact(const struct node *n, enum model_fact number, struct text *out)
{
	char text[256];
	(void)model_fact(n->model->model, number, text, sizeof text); /* cut, if it is longer */
	text_string(out, text);
}

static void expert_format(const struct node *n, struct text *out)
{
	fact(n, FACT_RECIPE, out);
}

static void model_state_name(const struct node *n, struct text *out)
{
	fact(n, FACT_STATE, out);
}

static const struct xattr expert_xattrs[] = {
	{"resident", expert_resident}, {"pinned", expert_pinned},
	{"bytes", expert_bytes},       {"hits", expert_hits},
	{"misses", expert_misses},     {"last_token", expert_last_token},
	{"format", expert_format},     {0},
};
static const struct xattr layer_xattrs[] = {
	{"experts", layer_experts},
	{"resident", layer_resident},
	{"pinned", layer_pinned},
	{"bytes", layer_bytes},
	{"hits", layer_hits},
	{"misses", layer_misses},
	{0},
};
static const struct xattr model_xattrs[] = {
	{"state", model_state_name},  {"format", expert_format},
	{"resident", model_resident}, {"pinned_bytes", model_pinned_bytes},
	{"bytes", model_bytes},	      {"hits", model_hits},
	{"misses", model_misses},     {0},
};

const struct row_hooks expert_hooks = {expert_attr, expert_chmod, expert_xattrs};
const struct row_hooks layer_hooks = {layer_attr, layer_chmod, layer_xattrs};
const struct row_hooks model_hooks = {.xattrs = model_xattrs};
