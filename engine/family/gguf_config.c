/* A GGUF file's keys as the config.json that they were made from (gguf_family.h).
 *
 * One that no table has (gguf_keys.c) is refused by its name, since it may change what is computed.
 */
#include "engine/family/gguf_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one key ---- */

/* What all elements of an array are that are not 0; a layer without the part in question has a 0.
 */
static int get_equal(const struct gguf_writer *w, const struct gguf_value *v, uint64_t *out)
{
	uint64_t one;
	*out = 0;
	for (uint64_t i = 0; i < v->count; i++) {
		if (!gguf_uint(v, i, &one))
			return err_set(w->e, EINVAL, "%s: %s must be whole numbers", w->name,
				       v->key);
		if (one && *out && one != *out)
			return err_set(w->e, ENOTSUP,
				       "%s: %s differs between layers, which is not supported",
				       w->name, v->key);
		*out = one ? one : *out;
	}
	return 0;
}

static int check_neutral(const struct gguf_writer *w, const struct gguf_key *k,
			 const struct gguf_value *v)
{
	double is = 0;
	bool number = v->kind == GGUF_BOOL || (v->kind != GGUF_ARRAY && gguf_double(v, 0, &is));
	if (v->kind == GGUF_BOOL)
		is = *v->bytes;
	if (number && ((is == 0 && v->kind != GGUF_BOOL) || is == k->neutral))
		return 0;
	return err_set(w->e, ENOTSUP, "%s: %s is %s%.6g, but only %g is supported", w->name, v->key,
		       number ? "" : "not a number: ", is, k->neutral);
}

static int put_key(const struct gguf_writer *w, const struct gguf_key *k,
		   const struct gguf_value *v)
{
	uint64_t number;
	double real;
	bool flag;
	int failed = 0;
	switch (k->rule) {
	case GGUF_COPIED:
		failed = v->kind == GGUF_ARRAY ? get_equal(w, v, &number)
					       : gguf_get_uint(w->g, v->key, w->name, 0, UINT32_MAX,
							       &number, w->e);
		if (!failed)
			gguf_put_uint(w, k->name, number);
		return failed;
	case GGUF_REAL:
		failed = gguf_get_double(w->g, v->key, w->name, &real, w->e);
		if (!failed)
			gguf_put_real(w, k->name, real);
		return failed;
	case GGUF_FLAG:
		failed = gguf_get_bool(w->g, v->key, w->name, &flag, w->e);
		if (!failed)
			gguf_put_bool(w, k->name, flag);
		return failed;
	case GGUF_NEUTRAL:
		return check_neutral(w, k, v);
	case GGUF_ROPE: /* by put_rope */
	case GGUF_KNOWN:
		break;
	}
	return 0;
}

/* All keys of the architecture, in their order. */
static int put_keys(const struct gguf_writer *w)
{
	size_t n = strlen(w->architecture);
	int failed = 0;
	for (size_t i = 0; i < w->g->count && !failed; i++) {
		const struct gguf_value *v = &w->g->values[i];
		if (strncmp(v->key, w->architecture, n) != 0 || v->key[n] != '.')
			continue;
		const struct gguf_key *k = gguf_key_find(w->family->gguf, v->key + n + 1);
		failed = k ? put_key(w, k, v)
			   : err_set(w->e, ENOTSUP,
				     "%s: the key %.128s is not known, and may change what the "
				     "model computes",
				     w->name, v->key);
	}
	return failed;
}

/* ---- the text ---- */

static int put_all(const struct gguf_writer *w, const char *model_type)
{
	(void)fprintf(w->out, "{\n  \"model_type\": \"%s\"", model_type);
	int failed = put_keys(w);
	if (!failed)
		failed = gguf_put_derived(w);
	if (w->family->gguf->also)
		(void)fprintf(w->out, ",\n  %s", w->family->gguf->also);
	(void)fprintf(w->out, "\n}\n");
	return failed;
}

/* Whether there are routed experts; a wrong value is told when all keys are read. */
static bool is_routed(const struct gguf *g, const char *architecture)
{
	char key[GGUF_KEY_BYTES];
	uint64_t experts;
	(void)snprintf(key, sizeof key, "%s.expert_count", architecture);
	const struct gguf_value *v = gguf_find(g, key);
	return v && v->kind != GGUF_ARRAY && gguf_uint(v, 0, &experts) && experts > 0;
}

static int find_family(struct gguf_writer *w, char architecture[GGUF_KEY_BYTES / 2])
{
	const char *text;
	char known[256];
	size_t length;
	int failed = gguf_get_string(w->g, "general.architecture", w->name, &text, &length, w->e);
	if (failed == -ENOENT)
		return err_damaged(w->e,
				   "%s is damaged, or not a model: its header has no "
				   "general.architecture",
				   w->name);
	if (failed)
		return failed;
	(void)snprintf(architecture, GGUF_KEY_BYTES / 2, "%.*s", (int)(length < 64 ? length : 64),
		       text);
	w->architecture = architecture;
	w->family = family_of_gguf(architecture, is_routed(w->g, architecture));
	if (w->family)
		return 0;
	family_list_gguf(known, sizeof known);
	return err_set(w->e, ENOTSUP,
		       "%s: models of architecture %s are not supported in GGUF files; these are: %s",
		       w->name, architecture, known);
}

int gguf_config_text(const struct gguf *g, const struct package *p, const char *name, char **text,
		     size_t *length, struct err *e)
{
	struct gguf_writer w = {.g = g, .package = p, .name = name, .e = e};
	char architecture[GGUF_KEY_BYTES / 2];
	int failed = find_family(&w, architecture);
	if (failed)
		return failed;
	*text = NULL;
	w.out = open_memstream(text, length);
	if (!w.out)
		return err_set(e, ENOMEM, "%s: out of memory for its config", name);
	failed = put_all(&w, w.family->model_types[0]);
	if (fclose(w.out) && !failed)
		failed = err_set(e, ENOMEM, "%s: out of memory for its config", name);
	if (failed) {
		free(*text);
		*text = NULL;
	}
	return failed;
}

int gguf_config_of(const char *path, char **text, size_t *length, struct err *e)
{
	struct gguf *g = NULL;
	struct package *p = NULL;
	int failed = gguf_open(&g, path, 0, e);
	if (!failed)
		failed = package_open(&p, path, e);
	if (!failed)
		failed = gguf_config_text(g, p, path, text, length, e);
	gguf_close(g);
	package_close(p);
	return failed;
}
