/* The kept prefixes of a model as people see them (model.h): engine/prefixes, and which sessions
 * share them. */
#include "engine/json/text_out.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <errno.h>

static uint32_t prefixes_sessions(const struct model *m, uint64_t id)
{
	uint32_t n = 0;
	pthread_mutex_lock(&m->run->lock);
	for (const struct session *s = m->run->all; s; s = s->all_next)
		n += !s->ended && atomic_load(&s->prefix) == id;
	pthread_mutex_unlock(&m->run->lock);
	return n;
}

bool model_prefix_next(const struct model *m, uint64_t id, struct model_prefix *out)
{
	bool found = prefixes_next(&m->run->prefixes, id, out);
	if (found)
		out->sessions = prefixes_sessions(m, out->id);
	return found;
}

bool model_prefix_named(const struct model *m, const char *name, struct model_prefix *out)
{
	bool found = prefixes_named(&m->run->prefixes, name, out);
	if (found)
		out->sessions = prefixes_sessions(m, out->id);
	return found;
}

int model_prefix_text(const struct model *m, uint64_t id, char **text, size_t *length,
		      struct err *e)
{
	struct token_list ids = {0};
	struct text_out out = {0};
	int failed = prefixes_ids(&m->run->prefixes, id, &ids, e);
	if (!failed)
		tokenizer_spell(m->loaded.tokenizer, ids.ids, ids.count, &out);
	token_list_free(&ids);
	text_out_add(&out, "", 0);
	if (!failed && out.failed)
		failed = err_set(e, ENOMEM, "out of memory for the text of a prefix");
	if (failed)
		text_out_free(&out);
	*text = out.bytes;
	*length = out.n;
	return failed;
}

int model_prefix_remove(struct model *m, uint64_t id, struct err *e)
{
	return prefixes_remove(&m->run->prefixes, id, e);
}

int model_prefix_touch(struct model *m, uint64_t id, struct err *e)
{
	return prefixes_touch(&m->run->prefixes, id, e);
}

int model_prefix_pin(struct model *m, uint64_t id, bool pinned, struct err *e)
{
	return prefixes_pin(&m->run->prefixes, id, pinned, e);
}
