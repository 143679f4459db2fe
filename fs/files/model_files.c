/* A model's own files: info/, config.json and tensors/; and the names of the models. Its experts
 * are in expert_files.c, its sessions in session_files.c. */
#include "fs/base/workers.h"
#include "fs/files/files.h"
#include "fs/files/tensor_names.h"
#include "fs/models/models.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <stdlib.h>
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

void model_fact_render(const struct node *n, struct text *out)
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

/* ---- info/kernels: looking for a GPU takes long, once, so a worker does it ---- */

static int64_t model_kernels_read(const struct handle *h, uint64_t offset, void *buffer,
				  size_t bytes, struct err *e)
{
	struct text t = {0};
	int64_t n = 0;
	model_find_gpu(h->node.model->model);
	model_fact_render(&h->node, &t);
	if (t.failed)
		n = err_set(e, ENOMEM, "kernels: no memory for its text");
	else if (offset < t.length) {
		n = (int64_t)(bytes < t.length - offset ? bytes : t.length - offset);
		memcpy(buffer, t.data + offset, (size_t)n);
	}
	text_free(&t);
	return n;
}

struct kernels_size {
	struct job job;
	fuse_req_t req;
	struct node node;
	size_fn *tell;
};

static void model_kernels_work(struct job *job)
{
	const struct kernels_size *s = LINK_OWNER(job, struct kernels_size, job);
	model_find_gpu(s->node.model->model);
}

static void model_kernels_finish(struct job *job)
{
	struct kernels_size *s = LINK_OWNER(job, struct kernels_size, job);
	struct text t = {0};
	model_fact_render(&s->node, &t);
	s->tell(s->req, &s->node, t.length);
	text_free(&t);
	free(s);
}

/* tar compares the size before a read with that after it. */
static int model_kernels_size_later(const struct node *n, fuse_req_t req, size_fn *tell)
{
	struct kernels_size *s = calloc(1, sizeof *s);
	if (!s)
		return -ENOMEM;
	s->job = (struct job){
		.slow = true, .work = model_kernels_work, .finish = model_kernels_finish};
	s->req = req;
	s->node = *n;
	s->tell = tell;
	workers_run(n->mount->workers, &s->job);
	return 0;
}

const struct file_ops kernels_ops = {
	.read_in_worker = model_kernels_read,
	.size_later = model_kernels_size_later,
};

void model_params_render(const struct node *n, struct text *out)
{
	char *list = session_params_json(n->model->model);
	if (list)
		text_string(out, list);
	else
		out->failed = true;
	free(list);
}

void model_examples_render(const struct node *n, struct text *out)
{
	text_string(out, n->model->examples);
}

static ssize_t model_config_read(struct handle *h, struct file_call *c, char *buffer)
{
	return handle_read_slice(c, buffer, h->node.model->config, h->node.model->config_length);
}

static uint64_t model_config_size(const struct node *n)
{
	return n->model->config_length;
}

const struct file_ops config_ops = {
	.read = model_config_read,
	.size = model_config_size,
};

/* ---- tensors/: a NumPy file NAME.npy for each tensor of the checkpoint ----
 *
 * A worker lists the tensors when the folder is first opened or a name in it is looked up, and
 * reads the files' bytes. Looking loads nothing. */

static uint64_t model_tensor_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	if (after >= model_tensors(folder->model->model))
		return 0;
	tensor_file_name(model_tensor_name(folder->model->model, after), name);
	return after + 1;
}

static bool model_tensor_is_called(const struct model *m, size_t i, const char *file)
{
	char printed[NAME_SIZE];
	tensor_file_name(model_tensor_name(m, i), printed);
	return strcmp(printed, file) == 0;
}

/* Makes the found tensor's name again and compares, so that no tensor has two names. */
static uint64_t model_tensor_find_file(const struct node *folder, const char *file)
{
	const struct model *m = folder->model->model;
	char name[NAME_SIZE];
	size_t i;
	if (!tensor_name_read(file, name))
		return 0;
	if (model_tensor_find(m, name, &i))
		return model_tensor_is_called(m, i, file) ? i + 1 : 0;
	for (i = 0; tensor_name_is_cut(file) && i < model_tensors(m); i++)
		if (model_tensor_is_called(m, i, file))
			return i + 1;
	return 0;
}

static void model_tensor_bind(struct node *child, uint64_t member)
{
	child->item = (uint32_t)member - 1;
}

const struct row_family tensor_family = {model_tensor_next, model_tensor_find_file,
					 model_tensor_bind};

bool model_tensors_are_listed(const struct node *folder)
{
	return model_tensors_are_open(folder->model->model);
}

int model_tensors_list(const struct node *folder, struct err *e)
{
	return model_tensors_open(folder->model->model, e);
}

static int64_t model_tensor_file_read(const struct handle *h, uint64_t offset, void *buffer,
				      size_t bytes, struct err *e)
{
	return model_tensor_read(h->node.model->model, h->node.item, offset, buffer, bytes, e);
}

static uint64_t model_tensor_size(const struct node *n)
{
	return model_tensor_bytes(n->model->model, n->item);
}

/* The file is made while it is read, and takes no disk space. */
static void model_tensor_attr(const struct node *n, struct stat *st)
{
	(void)n;
	st->st_blocks = 0;
}

const struct row_hooks tensor_hooks = {.attr = model_tensor_attr};
const struct file_ops tensor_ops = {
	.read_in_worker = model_tensor_file_read,
	.size = model_tensor_size,
};
