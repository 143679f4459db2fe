/* Keys of a GGUF file in, members of a config.json out (gguf_writer.h). */
#include "engine/family/gguf_writer.h"

/* ARCHITECTURE.suffix; no architecture of ours makes it longer. */
void gguf_full_key(const struct gguf_writer *w, const char *suffix, char key[GGUF_KEY_BYTES])
{
	(void)snprintf(key, GGUF_KEY_BYTES, "%s.%s", w->architecture, suffix);
}

bool gguf_writer_has(const struct gguf_writer *w, const char *suffix)
{
	char key[GGUF_KEY_BYTES];
	gguf_full_key(w, suffix, key);
	return gguf_has(w->g, key);
}

int gguf_writer_uint(const struct gguf_writer *w, const char *suffix, uint64_t *out)
{
	char key[GGUF_KEY_BYTES];
	gguf_full_key(w, suffix, key);
	return gguf_get_uint(w->g, key, w->name, 0, UINT32_MAX, out, w->e);
}

int gguf_writer_uint_or(const struct gguf_writer *w, const char *suffix, uint64_t fallback,
			uint64_t *out)
{
	*out = fallback;
	return gguf_writer_has(w, suffix) ? gguf_writer_uint(w, suffix, out) : 0;
}

void gguf_put_uint(const struct gguf_writer *w, const char *name, uint64_t value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %" PRIu64, name, value);
}

void gguf_put_bool(const struct gguf_writer *w, const char *name, bool value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %s", name, value ? "true" : "false");
}

void gguf_put_real(const struct gguf_writer *w, const char *name, double value)
{
	(void)fprintf(w->out, ",\n  \"%s\": %.17g", name, value);
}
