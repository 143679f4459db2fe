/* libFuzzer on ollama's manifests and params: a manifest gives names of files without a slash, or
 * an error with a sentence; params give valid defaults and stop texts, or likewise. The first byte
 * says which of the two the rest is. */
#include "engine/json/json.h"
#include "engine/library/ollama.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(int failed, const struct err *e)
{
	if (failed && (e->code != -failed || !e->text[0]))
		abort();
}

static void check_manifest(const char *text, size_t n)
{
	struct ollama_manifest m;
	struct err e = {0};
	int failed = ollama_manifest_read(&m, text, n, "manifest", &e);
	check_error(failed, &e);
	for (int i = 0; i < OLLAMA_LAYERS && !failed; i++) {
		size_t length = strnlen(m.file[i], OLLAMA_DIGEST);
		if ((length && length != OLLAMA_DIGEST - 1) || strchr(m.file[i], '/') ||
		    strchr(m.file[i], '.'))
			abort();
	}
	if (!failed && !*m.file[OLLAMA_WEIGHTS])
		abort();
}

static void check_defaults(const struct ollama_model *m)
{
	struct generation g = GENERATION_DEFAULTS;
	struct err e = {0};
	check_error(ollama_take_defaults(m, &g, &e), &e);
	/* Written so that NaN fails. */
	if (!(g.temperature >= 0 && g.temperature <= 100) || !(g.top_p >= 0 && g.top_p <= 1) ||
	    !(g.min_p >= 0 && g.min_p <= 1) ||
	    !(g.repetition_penalty >= .01 && g.repetition_penalty <= 100) ||
	    !memchr(g.words, 0, sizeof g.words))
		abort();
}

static void check_params(const char *text, size_t n)
{
	struct ollama_model m = {.name = (char[]){"fuzz"}};
	struct err e = {0};
	if (json_parse_text(&m.params, text, n, "params", &e))
		return;
	int failed = ollama_stops(&m.stop, m.params, "params", &e);
	check_error(failed, &e);
	if (!failed)
		check_defaults(&m);
	free(m.stop);
	json_free(m.params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	char *text = malloc(size); /* a byte more, for the end of a template */
	if (!text)
		abort();
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	if (*data & 1)
		check_params(text, size - 1);
	else
		check_manifest(text, size - 1);
	(void)ollama_form_of(text);
	free(text);
	return 0;
}
