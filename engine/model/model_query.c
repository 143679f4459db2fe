/* Queries of a mounted model for any thread (model.h, model_state.h): identity, complete store,
 * counters of experts, tokens that end an answer. No function here waits for a step. */
#include "cache/utf8.h"
#include "engine/json/json.h"
#include "engine/family/gguf_family.h"
#include "engine/model/model_state.h"
#include "engine/source/source_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- what was mounted ---- */

/* More than the average bytes per token of any published vocabulary on real text. */
enum { BYTES_PER_TOKEN = 16, LEAST_PROMPT_BYTES = 64 << 10, MOST_PROMPT_BYTES = 64 << 20 };

enum model_state model_state(const struct model *m)
{
	return (enum model_state)atomic_load(&m->state);
}

const char *model_name(const struct model *m)
{
	return m->id.name;
}

uint64_t model_max_prompt_bytes(const struct model *m)
{
	uint64_t bytes = (uint64_t)m->id.context * BYTES_PER_TOKEN;
	if (bytes < LEAST_PROMPT_BYTES)
		return LEAST_PROMPT_BYTES;
	return bytes < MOST_PROMPT_BYTES ? bytes : MOST_PROMPT_BYTES;
}

uint32_t model_layers(const struct model *m)
{
	return m->id.config.layers;
}

uint32_t model_experts(const struct model *m, uint32_t layer)
{
	return config_routed(&m->id.config, layer) ? m->id.config.experts : 0;
}

int model_config(const struct model *m, char **text, size_t *length, struct timespec *modified,
		 struct err *e)
{
	enum { MOST = 4 << 20 };
	struct stat st = {0};
	bool gguf = source_is_file(m->id.directory);
	char *path = gguf ? strdup(m->id.directory)
			  : source_file_path(m->id.directory, "config.json", NULL);
	int failed = path ? 0 : err_set(e, ENOMEM, "out of memory for the name of a file");
	if (!failed)
		failed = gguf ? gguf_config_of(path, text, length, e)
			      : json_read_file(text, length, path, MOST, e);
	if (!failed && !stat(path, &st))
		*modified = st.st_mtim;
	free(path);
	return failed;
}

/* ---- questions to begin with ---- */

/* Removes blank and unusable lines from `text`, in place. */
static void model_keep_questions(char *text)
{
	enum { LINES = 12, LONGEST = 500 };
	char *to = text, *rest = text;
	int count = 0;
	for (char *line; count < LINES && (line = strsep(&rest, "\n"));) {
		size_t n = strlen(line);
		bool plain = utf8_valid_length(line, n) == n && n <= LONGEST;
		for (size_t i = 0; i < n; i++)
			plain &= (unsigned char)line[i] >= ' ' && line[i] != 0x7f;
		if (!plain || strspn(line, " ") == n)
			continue;
		memmove(to, line, n);
		to[n] = '\n';
		to += n + 1;
		count++;
	}
	*to = 0;
}

char *model_examples(const struct model *m)
{
	enum { MOST = 64 << 10 };
	char *path = source_is_file(m->id.directory)
			     ? NULL
			     : source_file_path(m->id.directory, "examples.txt", NULL);
	char *text = NULL;
	size_t length;
	if (path && !json_read_file(&text, &length, path, MOST, NULL))
		model_keep_questions(text);
	free(path);
	return text ? text : strdup("");
}

/* ---- texts ---- */

int model_template_words(const struct model *m, char *text, size_t size)
{
	if (m->loaded.chat)
		return snprintf(text, size, "%s", chat_template_origin(m->loaded.chat));
	if (m->loaded.no_chat.code == ENODATA)
		return snprintf(text, size, "none");
	return snprintf(text, size, "unusable: %s", m->loaded.no_chat.text);
}

bool model_ends(const struct model *m, bool chat, uint32_t id)
{
	for (uint32_t i = 0; i < m->id.config.generation.end_count; i++)
		if (m->id.config.generation.end_tokens[i] == id)
			return true;
	return tokenizer_ends(m->loaded.tokenizer, id, chat) ||
	       (chat && chat_template_ends(m->loaded.chat, id));
}

/* ---- the store and the experts ---- */

bool model_hold_store(const struct model_store *s)
{
	pthread_rwlock_t *lock = (pthread_rwlock_t *)&s->lock; /* nothing is changed */
	pthread_rwlock_rdlock(lock);
	if (atomic_load(&s->has_store))
		return true;
	pthread_rwlock_unlock(lock);
	return false;
}

void model_release_store(const struct model_store *s)
{
	pthread_rwlock_unlock((pthread_rwlock_t *)&s->lock);
}

void model_cache_stats(const struct model *m, struct pager_stats *out)
{
	pthread_rwlock_t *looking = (pthread_rwlock_t *)&m->loaded.looking; /* nothing is changed */
	pthread_rwlock_rdlock(looking);
	if (m->loaded.experts) {
		pager_source_stats(m->loaded.experts, out);
	} else {
		pager_stats(m->engine->pager, out);
		*out = (struct pager_stats){.budget = out->budget, .peak = out->peak};
	}
	const struct pager_stats *before = &m->loaded.experts_before;
	out->hits += before->hits;
	out->misses += before->misses;
	out->evictions += before->evictions;
	out->bytes_read += before->bytes_read;
	out->wait_ns += before->wait_ns;
	pthread_rwlock_unlock(looking);
}
