/* See library.h. */
#include "engine/library/library.h"

#include "engine/library/ollama.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- places ---- */

static const char hub_keeper[] = "a hub's cache", ollama_keeper[] = "ollama's folder",
		  lm_studio_keeper[] = "LM Studio's folder", llama_keeper[] = "llama.cpp's cache";

/* A variable of the program's own says where all its models are. */
static const struct library_place places[] = {
	{ollama_keeper, "OLLAMA_MODELS", "", .instead = true, .manifests = true},
	{ollama_keeper, "HOME", "/.ollama/models", .manifests = true},
	{ollama_keeper, NULL, "/usr/share/ollama/.ollama/models", .manifests = true},
	{lm_studio_keeper, "HOME", "/.lmstudio/models", .instead = false},
	{lm_studio_keeper, "HOME", "/.cache/lm-studio/models", .instead = false},
	{hub_keeper, "HF_HUB_CACHE", "", .instead = true},
	{hub_keeper, "HF_HOME", "/hub", .instead = true},
	{hub_keeper, "XDG_CACHE_HOME", "/huggingface/hub", .instead = true},
	{hub_keeper, "HOME", "/.cache/huggingface/hub", .instead = false},
	{llama_keeper, "LLAMA_CACHE", "", .instead = true, .flat = true},
	{llama_keeper, "XDG_CACHE_HOME", "/llama.cpp", .instead = true, .flat = true},
	{llama_keeper, "HOME", "/.cache/llama.cpp", .flat = true},
};

const struct library_place *library_place(unsigned i)
{
	return i < sizeof places / sizeof *places ? &places[i] : NULL;
}

bool library_place_path(const struct library_place *p, char *path)
{
	const char *root = p->variable ? getenv(p->variable) : "";
	if (!root || (p->variable && *root != '/'))
		return false;
	return snprintf(path, PATH_MAX, "%s%s", root, p->below) < PATH_MAX;
}

/* Any row counts: what a variable no longer points to is another program's all the same. */
const char *library_keeper(const char *path)
{
	char folder[PATH_MAX], real[PATH_MAX];
	const struct library_place *p;
	for (unsigned i = 0; (p = library_place(i)); i++) {
		if (!library_place_path(p, folder) || !realpath(folder, real))
			continue;
		size_t n = strlen(real);
		if (!strncmp(path, real, n) && path[n] == '/')
			return p->keeper;
	}
	return ollama_is_blob(path) ? ollama_keeper : NULL;
}

/* ---- finding ---- */

static int library_find_manifest(struct model_place *out, struct ollama_model **said,
				 const char *given, struct err *e)
{
	*out = (struct model_place){0};
	int failed = ollama_open(said, given, e);
	if (failed)
		return failed;
	out->path = strdup((*said)->weights);
	out->name = strdup((*said)->name);
	out->keeper = ollama_keeper;
	if (out->path && out->name)
		return 0;
	place_free(out);
	ollama_close(*said);
	*said = NULL;
	return err_set(e, ENOMEM, "out of memory for the name of a model");
}

int library_find(struct model_place *out, struct ollama_model **said, const char *given,
		 struct err *e)
{
	*said = NULL;
	if (ollama_is_manifest(given))
		return library_find_manifest(out, said, given, e);
	int failed = place_find(out, given, e);
	if (!failed && !out->keeper)
		out->keeper = library_keeper(out->path);
	return failed;
}
