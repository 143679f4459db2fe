#include "engine/tokenizer/tokenizer_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A token's text, given as such or as an object with "content"; NULL: none. */
static int read_text(const struct json *config, const char *key, const char *name,
		     const char **text, struct err *e)
{
	const struct json *value = json_find(config, key);
	*text = NULL;
	if (json_kind(value) == JSON_NULL)
		return 0;
	return json_kind(value) == JSON_OBJECT ? json_get_string(value, "content", name, text, e)
					       : json_as_string(value, key, name, text, e);
}

/* Files name tokens for uses that their model does not have: such a text is no token. */
static int read_token(const struct tokenizer *t, const struct json *config, const char *key,
		      const char *name, int64_t *id, struct err *e)
{
	const char *text;
	int rc = read_text(config, key, name, &text, e);
	if (rc == 0 && text)
		*id = tokenizer_find_text(t, text, strlen(text));
	return rc;
}

int tokenizer_config_take(struct tokenizer *t, const struct json *config, const char *name,
			  struct err *e)
{
	int64_t bos = -1;
	int rc = read_token(t, config, "bos_token", name, &bos, e);
	if (rc == 0)
		rc = read_token(t, config, "eos_token", name, &t->eos, e);
	if (rc == 0)
		rc = json_get_bool_or(config, "add_bos_token", name, t->add_bos, &t->add_bos, e);
	if (rc < 0)
		return rc;
	t->bos = bos >= 0 ? bos : t->bos;
	if (t->add_bos && t->bos < 0)
		return err_set(e, EINVAL,
			       "%s: \"add_bos_token\" is true, but \"bos_token\" names no token",
			       name);
	return 0;
}

int tokenizer_config_read(struct tokenizer *t, const char *directory, struct err *e)
{
	char *path;
	struct json *config = NULL;
	struct err own = {0}; /* not to leave an error behind where there is no file */
	if (asprintf(&path, "%s/tokenizer_config.json", directory) < 0)
		return err_set(e, ENOMEM, "%s: no memory for a path", directory);
	int rc = json_parse_file(&config, path, CONFIG_FILE_MAX, &own);
	if (rc == 0 && json_kind(config) != JSON_OBJECT)
		rc = err_set(&own, EINVAL, "%s: must be a JSON object", path);
	if (rc == 0)
		rc = tokenizer_config_take(t, config, path, &own);
	if (rc == -ENOENT)
		rc = 0;
	if (rc < 0)
		rc = err_set(e, own.code, "%s", own.text);
	json_free(config);
	free(path);
	return rc;
}
