/* A model's own files: info/ and config.json; and the names of the models. */
#include "fs/files/files.h"
#include "fs/models/models.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <string.h>

static uint64_t model_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	const struct mount *m = folder->mount;
	while (after < m->model_count && !m->models[after])
		after++;
	if (after >= m->model_count)
		return 0;
	memcpy(name, m->models[after]->name, NAME_SIZE);
	return after + 1;
}

static uint64_t model_find(const struct node *folder, const char *name)
{
	const struct mounted *model = models_named(folder->mount, name, strlen(name));
	return model ? (uint64_t)model->index + 1 : 0;
}

static void model_bind(struct node *child, uint64_t member)
{
	child->model = child->mount->models[member - 1];
}

const struct row_family model_family = {model_next, model_find, model_bind};

void fact_render(const struct node *n, struct text *out)
{
	char fact[4096 + 16];
	enum model_fact which = (enum model_fact)n->row->fact;
	if (which == FACT_PROGRESS)
		models_progress_words(n->model->model, fact, sizeof fact);
	else if (model_fact(n->model->model, which, fact, sizeof fact))
		return;
	text_format(out, "%s\n", fact);
	if (which == FACT_DEFAULTS)
		models_params_given(n->mount, out);
}

static ssize_t config_read(struct handle *h, struct file_call *c, char *buffer)
{
	return handle_read_slice(c, buffer, h->node.model->config, h->node.model->config_length);
}

static uint64_t config_size(const struct node *n)
{
	return n->model->config_length;
}

const struct file_ops config_ops = {
	.read = config_read,
	.size = config_size,
};
