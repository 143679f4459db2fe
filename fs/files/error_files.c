/* error and error.json, of a session and of the mount: the last failures as sentences for people,
 * and the same as codes and numbers for programs. */
#include "fs/files/files.h"
#include "fs/models/models.h"

#include <inttypes.h>
#include <string.h>

/* ---- what there is to tell ---- */

/* Why the session's last turn failed; false: it did not. A turn that waits for a model which cannot
 * be loaded has no better reason than the model's. */
static bool turn_failure(const struct node *n, struct err *why)
{
	session_failure(n->conversation->session, why);
	if (!*why->text && model_state(n->model->model) == MODEL_FAILED)
		model_failure(n->model->model, why);
	return *why->text;
}

void session_error_render(const struct node *n, struct text *out)
{
	struct err why;
	if (turn_failure(n, &why))
		text_format(out, "%s\n", why.text);
	if (n->conversation->refused)
		text_format(out, "%s\n", n->conversation->refused->text);
	if (n->conversation->denied)
		text_format(out, "%s\n", n->conversation->denied->text);
}

void mount_error_render(const struct node *n, struct text *out)
{
	models_watch(n->mount);
	text_add(out, n->mount->skipped.data, n->mount->skipped.length);
	const struct err *failure = failures_seen(n->mount, n->viewer);
	if (failure)
		text_format(out, "%s\n", failure->text);
	const struct err *denied = failures_denial_seen(n->mount, n->viewer);
	if (denied)
		text_format(out, "%s\n", denied->text);
}

/* ---- as JSON ---- */

/* The members of a failure's object, without its braces. */
static void add_members(struct text *out, const struct err *why)
{
	text_string(out, "\"code\": ");
	text_json(out, err_word(why));
	text_string(out, ", \"message\": ");
	text_json(out, why->text);
	if (err_why(why)) {
		text_string(out, ", \"reason\": ");
		text_json(out, err_why(why));
	}
	text_string(out, ", \"numbers\": {");
	for (unsigned i = 0; i < ERR_NUMBERS && why->numbers[i].name; i++)
		text_format(out, "%s\"%s\": %" PRIu64, i ? ", " : "", why->numbers[i].name,
			    why->numbers[i].value);
	text_string(out, "}");
}

/* The first that there is, and the others as its members of these names. NULL: there is none. */
static bool add_failures(struct text *out, const struct err *const why[3])
{
	static const char *const names[3] = {NULL, "refused", "denied"};
	bool begun = false;
	for (unsigned i = 0; i < 3; i++) {
		if (why[i] && begun)
			text_format(out, ",\n \"%s\": {", names[i]);
		if (why[i])
			add_members(out, why[i]);
		if (why[i] && begun)
			text_string(out, "}");
		begun |= why[i] != NULL;
	}
	return begun;
}

void session_error_json_render(const struct node *n, struct text *out)
{
	struct err why;
	const struct conversation *c = n->conversation;
	bool failed = turn_failure(n, &why);
	text_string(out, "{");
	(void)add_failures(out,
			   (const struct err *[]){failed ? &why : NULL, c->refused, c->denied});
	text_string(out, "}\n");
}

/* Lines, each as a string of a list. */
static void add_lines(struct text *out, const struct text *lines)
{
	char line[sizeof((struct err *)0)->text];
	for (size_t at = 0, length; at < lines->length; at += length + 1) {
		const char *from = lines->data + at;
		length = (size_t)((const char *)memchr(from, '\n', lines->length - at) - from);
		size_t shown = length < sizeof line - 1 ? length : sizeof line - 1;
		memcpy(line, from, shown);
		line[shown] = 0;
		text_string(out, at ? ", " : "");
		text_json(out, line);
	}
}

void mount_error_json_render(const struct node *n, struct text *out)
{
	models_watch(n->mount);
	const struct mount *m = n->mount;
	text_string(out, "{");
	if (add_failures(out, (const struct err *[]){failures_seen(m, n->viewer), NULL,
						     failures_denial_seen(m, n->viewer)}))
		text_string(out, ",\n ");
	text_string(out, "\"not_mounted\": [");
	add_lines(out, &n->mount->skipped);
	text_string(out, "]}\n");
}
