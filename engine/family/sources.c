#include "engine/family/sources.h"

#include <errno.h>
#include <stdlib.h>

const struct checkpoint_tensor *sources_find(const struct sources *s, struct tensor_id id,
					     char *name, size_t size, struct err *e)
{
	if (!architecture_tensor_name(s->config->architecture, id, name, size)) {
		err_set(e, ENAMETOOLONG, "a tensor's name is too long");
		return NULL;
	}
	const struct checkpoint_tensor *t = checkpoint_find(s->checkpoint, name);
	if (!t && id.role == TENSOR_HEAD && s->config->tied_head)
		return sources_find(s, (struct tensor_id){.role = TENSOR_EMBEDDING}, name, size, e);
	if (!t)
		err_set(e, ENOENT,
			"the checkpoint has no tensor %s, which a %s model needs; is the download "
			"complete?",
			name, s->config->architecture->model_type);
	return t;
}

static int check_shape(const struct sources *s, const struct checkpoint_tensor *t,
		       enum tensor_role role, struct err *e)
{
	uint32_t rows, cols;
	config_tensor_shape(s->config, role, &rows, &cols);
	bool right = cols ? t->dims == 2 && t->shape[0] == rows && t->shape[1] == cols
			  : t->dims == 1 && t->shape[0] == rows;
	if (!right && cols)
		return err_set(
			e, EINVAL,
			"tensor %s has shape [%llu, %llu%s, but config.json makes it [%u, %u]",
			t->name, (unsigned long long)(t->dims ? t->shape[0] : 0),
			(unsigned long long)(t->dims > 1 ? t->shape[1] : 0),
			t->dims > 2 ? ", …]" : "]", rows, cols);
	if (!right)
		return err_set(e, EINVAL,
			       "tensor %s has shape [%llu%s, but config.json makes it [%u]",
			       t->name, (unsigned long long)(t->dims ? t->shape[0] : 0),
			       t->dims > 1 ? ", …]" : "]", rows);
	if (!t->known_type)
		return err_set(
			e, ENOTSUP,
			"tensor %s is of type %s; checkpoints in BF16, F16 or F32 can be mounted",
			t->name, t->type);
	return 0;
}

static int check_tensor(struct sources *s, struct tensor_id id, struct err *e)
{
	char name[256];
	const struct checkpoint_tensor *t = sources_find(s, id, name, sizeof name, e);
	if (!t)
		return -ENOENT;
	s->used[t - checkpoint_tensor(s->checkpoint, 0)] = true;
	return check_shape(s, t, id.role, e);
}

static int check_all(struct sources *s, const struct plan *p, struct err *e)
{
	for (uint32_t i = 0; i < p->dense_count; i++) {
		int failed = check_tensor(s, p->dense[i].id, e);
		if (failed)
			return failed;
	}
	for (uint32_t layer = 0; layer < p->routed_layers; layer++)
		for (uint32_t x = 0; x < p->experts; x++)
			for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
				struct tensor_id id = {plan_part_role(part), p->layer_of[layer], x};
				int failed = check_tensor(s, id, e);
				if (failed)
					return failed;
			}
	for (size_t i = 0; i < checkpoint_count(s->checkpoint); i++)
		if (!s->used[i])
			return err_set(
				e, EINVAL,
				"the checkpoint has a tensor %s that a %s model does not know; "
				"leaving it out would be a different model",
				checkpoint_tensor(s->checkpoint, i)->name,
				s->config->architecture->model_type);
	return 0;
}

enum format sources_kept_format(const struct sources *s)
{
	enum format kept = FORMAT_COUNT;
	for (size_t i = 0; i < checkpoint_count(s->checkpoint); i++) {
		const struct checkpoint_tensor *t = checkpoint_tensor(s->checkpoint, i);
		if (t->dims < 2 || !t->known_type)
			continue;
		if (kept != FORMAT_COUNT && t->format != kept)
			return FORMAT_F32;
		kept = t->format;
	}
	return kept == FORMAT_COUNT ? FORMAT_F32 : kept;
}

int sources_open(struct sources *s, const char *directory, const struct config *c,
		 const struct plan *p, struct err *e)
{
	*s = (struct sources){.config = c};
	int failed = checkpoint_open(&s->checkpoint, directory, e);
	if (failed)
		return failed;
	s->used = calloc(checkpoint_count(s->checkpoint) + 1, sizeof *s->used);
	failed = s->used ? check_all(s, p, e)
			 : err_set(e, ENOMEM, "out of memory for the list of tensors");
	if (failed)
		sources_close(s);
	return failed;
}

void sources_close(struct sources *s)
{
	free(s->used);
	checkpoint_close(s->checkpoint);
	*s = (struct sources){0};
}
