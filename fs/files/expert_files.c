/* experts/: a folder for each layer, a file for each expert, and two tables of them all.
 *
 * Looking here loads and promotes nothing: attributes and tables come from atomics
 * (model_expert_inspect), and a file's bytes are read from the store on the disk, by the workers.
 */
#include "fs/files/facts.h"
#include "fs/files/files.h"
#include "fs/mount/handle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* Numbers are found by printing them again, so that 7 or 007 is not another name of 07. */
bool expert_number(const char *name, int digits, uint32_t below, uint32_t *number)
{
	char printed[16];
	unsigned long value = strtoul(name, NULL, 10);
	*number = (uint32_t)value;
	(void)snprintf(printed, sizeof printed, "%0*" PRIu32, digits, *number);
	return value < below && strcmp(name, printed) == 0;
}

static uint64_t layer_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	if (after >= model_layers(folder->model->model))
		return 0;
	(void)snprintf(name, NAME_SIZE, "%0*" PRIu64, LAYER_DIGITS, after);
	return after + 1;
}

static uint64_t layer_find(const struct node *folder, const char *name)
{
	uint32_t layer;
	return expert_number(name, LAYER_DIGITS, model_layers(folder->model->model), &layer)
		       ? (uint64_t)layer + 1
		       : 0;
}

static void layer_bind(struct node *child, uint64_t member)
{
	child->layer = (uint32_t)member - 1;
}

const struct row_family layer_family = {layer_next, layer_find, layer_bind};

static uint64_t expert_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	if (after >= model_experts(folder->model->model, folder->layer))
		return 0;
	(void)snprintf(name, NAME_SIZE, "%0*" PRIu64, EXPERT_DIGITS, after);
	return after + 1;
}

static uint64_t expert_find(const struct node *folder, const char *name)
{
	uint32_t expert, count = model_experts(folder->model->model, folder->layer);
	return expert_number(name, EXPERT_DIGITS, count, &expert) ? (uint64_t)expert + 1 : 0;
}

static void expert_bind(struct node *child, uint64_t member)
{
	child->item = (uint32_t)member - 1;
}

const struct row_family expert_family = {expert_next, expert_find, expert_bind};

/* ---- tables ---- */

static uint64_t uses(const struct pager_expert *x)
{
	return x->hits + x->misses;
}

/* 9 for the most used expert of the model, one less for each halving, 0 at least. */
static unsigned heat(uint64_t used, uint64_t most)
{
	unsigned step = 0;
	while (step < 9 && used < most) {
		used = used > UINT64_MAX / 2 ? UINT64_MAX : 2 * used;
		step++;
	}
	return 9 - step;
}

static char map_character(const struct pager_expert *x, uint64_t most)
{
	if (x->resident)
		return (char)('0' + heat(uses(x), most));
	return uses(x) ? (char)('a' + heat(uses(x), most)) : '.';
}

void expert_map_render(const struct node *n, struct text *out)
{
	const struct model *m = n->model->model;
	struct pager_expert x;
	uint64_t most = 1;
	for (uint32_t l = 0; l < model_layers(m); l++)
		for (uint32_t i = 0; i < model_experts(m, l); i++) {
			model_expert_inspect(m, l, i, &x);
			most = uses(&x) > most ? uses(&x) : most;
		}
	for (uint32_t l = 0; l < model_layers(m); l++) {
		text_format(out, "%0*" PRIu32 " ", LAYER_DIGITS, l);
		for (uint32_t i = 0; i < model_experts(m, l); i++) {
			model_expert_inspect(m, l, i, &x);
			char mark = map_character(&x, most);
			text_add(out, &mark, 1);
		}
		text_string(out, "\n");
	}
}

void expert_stats_list(const struct node *n, struct facts *f)
{
	static const struct fact_column columns[] = {
		{"layer", 2}, {"expert", 3}, {"resident", 1},	{"pinned", 1},
		{"hits", 1},  {"misses", 1}, {"last_token", 1},
	};
	enum { COLUMNS = sizeof columns / sizeof *columns };
	const struct model *m = n->model->model;
	facts_table(f, columns, COLUMNS);
	for (uint32_t l = 0; l < model_layers(m); l++)
		for (uint32_t i = 0; i < model_experts(m, l); i++) {
			struct pager_expert x;
			model_expert_inspect(m, l, i, &x);
			const uint64_t row[COLUMNS] = {l,      i,	 x.resident,  x.pinned,
						       x.hits, x.misses, x.last_token};
			facts_row(f, columns, COLUMNS, row);
		}
}

/* ---- an expert's bytes ---- */

static int64_t expert_read(const struct handle *h, uint64_t offset, void *buffer, size_t bytes,
			   struct err *e)
{
	const struct node *n = &h->node;
	return model_expert_read(n->model->model, n->layer, n->item, offset, buffer, bytes, e);
}

static uint64_t expert_size(const struct node *n)
{
	return model_expert_bytes(n->model->model, n->layer);
}

const struct file_ops expert_ops = {
	.read_in_worker = expert_read,
	.size = expert_size,
};
