/* experts/: a folder for each layer, a file for each expert, and two tables of them all.
 *
 * Looking here loads and promotes nothing: attributes and tables come from atomics
 * (model_expert_inspect), and a file's bytes are read from the store on the disk, by the workers.
 */
#include "fs/files.h"
#include "fs/handle.h"
#include "fs/workers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* Numbers are found by printing them again, so that 7 or 007 is not another name of 07. */
static uint64_t find_number(const char *name, const char *format_name, uint32_t number)
{
	return strcmp(name, format_name) == 0 ? (uint64_t)number + 1 : 0;
}

static bool parse_number(const char *name, uint32_t *number)
{
	char *end;
	if (*name < '0' || *name > '9')
		return false;
	unsigned long value = strtoul(name, &end, 10);
	*number = (uint32_t)value;
	return !*end && value < UINT32_MAX;
}

static uint64_t layer_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	if (after >= model_layers(folder->model->model))
		return 0;
	(void)snprintf(name, NAME_SIZE, "%02" PRIu64, after);
	return after + 1;
}

static uint64_t layer_find(const struct node *folder, const char *name)
{
	char printed[NAME_SIZE];
	uint32_t layer;
	if (!parse_number(name, &layer) || !layer_next(folder, layer, printed))
		return 0;
	return find_number(name, printed, layer);
}

static void layer_bind(struct node *child, uint64_t member)
{
	child->layer = (uint32_t)member - 1;
}

const struct family layer_family = {layer_next, layer_find, layer_bind};

static uint64_t expert_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	if (after >= model_experts(folder->model->model, folder->layer))
		return 0;
	(void)snprintf(name, NAME_SIZE, "%03" PRIu64, after);
	return after + 1;
}

static uint64_t expert_find(const struct node *folder, const char *name)
{
	char printed[NAME_SIZE];
	uint32_t expert;
	if (!parse_number(name, &expert) || !expert_next(folder, expert, printed))
		return 0;
	return find_number(name, printed, expert);
}

static void expert_bind(struct node *child, uint64_t member)
{
	child->item = (uint32_t)member - 1;
}

const struct family expert_family = {expert_next, expert_find, expert_bind};

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
		text_format(out, "%02" PRIu32 " ", l);
		for (uint32_t i = 0; i < model_experts(m, l); i++) {
			model_expert_inspect(m, l, i, &x);
			char mark = map_character(&x, most);
			text_add(out, &mark, 1);
		}
		text_string(out, "\n");
	}
}

void expert_stats_render(const struct node *n, struct text *out)
{
	const struct model *m = n->model->model;
	text_string(out, "layer expert resident pinned hits misses last_token\n");
	for (uint32_t l = 0; l < model_layers(m); l++)
		for (uint32_t i = 0; i < model_experts(m, l); i++) {
			struct pager_expert x;
			model_expert_inspect(m, l, i, &x);
			text_format(out,
				    "%02" PRIu32 " %03" PRIu32 " %d %d %" PRIu64 " %" PRIu64
				    " %" PRIu64 "\n",
				    l, i, x.resident, x.pinned, x.hits, x.misses, x.last_token);
		}
}

/* ---- an expert's bytes ---- */

struct expert_read {
	struct job job;
	struct call *call;
	const struct model *model;
	uint32_t layer, expert;
	char *buffer;
	int64_t result;
	struct err why;
};

static void expert_work(struct job *job)
{
	struct expert_read *r = LINK_OWNER(job, struct expert_read, job);
	r->result = model_expert_read(r->model, r->layer, r->expert, r->call->offset, r->buffer,
				      r->call->size, &r->why);
}

static void expert_finish(struct job *job)
{
	struct expert_read *r = LINK_OWNER(job, struct expert_read, job);
	if (r->result < 0) {
		mount_failure(r->call->mount, &r->why);
		fuse_reply_err(r->call->req, (int)-r->result);
	} else
		fuse_reply_buf(r->call->req, r->buffer, (size_t)r->result);
	call_free(r->call);
	free(r->buffer);
	free(r);
}

static ssize_t expert_read(struct handle *h, struct call *c, char *buffer)
{
	(void)buffer; /* the loop's: a worker needs one of its own */
	struct expert_read *r = calloc(1, sizeof *r);
	if (!r)
		return -ENOMEM;
	r->buffer = malloc(c->size + 1);
	if (!r->buffer) {
		free(r);
		return -ENOMEM;
	}
	r->call = c;
	r->model = h->node.model->model;
	r->layer = h->node.layer;
	r->expert = h->node.item;
	r->job.work = expert_work;
	r->job.finish = expert_finish;
	workers_run(h->node.mount->workers, &r->job);
	return CALL_KEPT;
}

static uint64_t expert_size(const struct node *n)
{
	return model_expert_bytes(n->model->model, n->layer);
}

const struct file_ops expert_ops = {
	.read = expert_read,
	.size = expert_size,
};
