/* Tensors as NumPy files (model.h). */
#include "cache/store_in_place.h"
#include "engine/model/load.h"
#include "engine/model/model_state.h"
#include "engine/model/npy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

int model_tensors_open(struct model *m, struct err *e)
{
	struct tensors_of of = {
		.directory = m->id.directory,
		.config = &m->id.config,
		.recipe = m->id.recipe,
		.kernels = m->engine->kernels,
	};
	struct tensors *list;
	int failed = 0;
	pthread_mutex_lock(&m->tensors.opening);
	load_widen(m, &of.recipe);
	if (!atomic_load(&m->tensors.list) && !(failed = tensors_open(&list, &of, e)))
		atomic_store(&m->tensors.list, list);
	pthread_mutex_unlock(&m->tensors.opening);
	return failed;
}

bool model_tensors_are_open(const struct model *m)
{
	return atomic_load(&m->tensors.list) != NULL;
}

size_t model_tensors(const struct model *m)
{
	const struct tensors *list = atomic_load(&m->tensors.list);
	return list ? tensors_count(list) : 0;
}

const char *model_tensor_name(const struct model *m, size_t i)
{
	return tensors_facts(atomic_load(&m->tensors.list), i)->name;
}

bool model_tensor_find(const struct model *m, const char *name, size_t *i)
{
	const struct tensors *list = atomic_load(&m->tensors.list);
	return list && tensors_find(list, name, i);
}

/* ---- its file ---- */

uint64_t model_tensor_bytes(const struct model *m, size_t i)
{
	char head[NPY_HEAD_MOST];
	if (i >= model_tensors(m))
		return 0;
	const struct tensor_facts *f = tensors_facts(atomic_load(&m->tensors.list), i);
	return npy_head(head, f->shape, f->dims) + f->numbers * sizeof(float);
}

/* Reads bytes [offset, offset + bytes) of a tensor's data: reads the numbers that contain them, and
 * copies the bytes. */
static int model_read_tensor(const struct model *m, size_t i, uint64_t offset, uint8_t *to,
			     size_t bytes, struct err *e)
{
	struct model_store *s = (struct model_store *)&m->stored; /* nothing is changed */
	const struct tensors *list = atomic_load(&m->tensors.list);
	uint64_t first = offset / sizeof(float), end = (offset + bytes + 3) / sizeof(float);
	float *numbers = malloc((end - first) * sizeof *numbers);
	if (!numbers)
		return err_set(e, ENOMEM, "out of memory for %zu bytes of a tensor", bytes);
	bool held = model_hold_store(s); /* else the generation thread may change it */
	const struct tensors_store own = {held ? s->store : NULL, &s->plan};
	bool has_own = held && !store_is_in_place(own.store);
	int failed = tensors_read(list, i, has_own ? &own : NULL, first, end - first, numbers, e);
	if (held)
		model_release_store(s);
	if (!failed)
		memcpy(to, (uint8_t *)numbers + offset % sizeof(float), bytes);
	free(numbers);
	return failed;
}

int64_t model_tensor_read(const struct model *m, size_t i, uint64_t offset, void *buffer,
			  size_t bytes, struct err *e)
{
	char head[NPY_HEAD_MOST];
	struct err cause;
	uint64_t size = model_tensor_bytes(m, i);
	if (offset >= size)
		return 0;
	const struct tensor_facts *f = tensors_facts(atomic_load(&m->tensors.list), i);
	size_t in_head = npy_head(head, f->shape, f->dims), n = 0;
	bytes = size - offset < bytes ? (size_t)(size - offset) : bytes;
	if (offset < in_head) {
		n = in_head - offset < bytes ? in_head - (size_t)offset : bytes;
		memcpy(buffer, head + offset, n);
	}
	int failed = n < bytes ? model_read_tensor(m, i, offset + n - in_head,
						   (uint8_t *)buffer + n, bytes - n, &cause)
			       : 0;
	if (failed)
		return err_set(e, -failed, "tensors/%s.npy cannot be read: %s", f->name,
			       cause.text);
	return (int64_t)bytes;
}
