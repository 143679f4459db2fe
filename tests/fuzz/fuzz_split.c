/* libFuzzer on answers: any text in any form is split the same way however it is cut, content
 * never changes once it came out, and arguments are JSON objects. The first byte says how thinking
 * begins, how long pieces are and whether the answer ends or is cut, the second the form. */
#include "engine/answer/split.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char TOOLS[] =
	"[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": "
	"\"integer\"}, \"b\": {\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"object\"}]}, \"c\": "
	"{\"enum\": [1, \"x\", true]}}}}}]";

static struct split *taken_apart(const struct split_form *form, const char *text, size_t n,
				 size_t step, const struct json *tools,
				 enum split_thinking thinking, bool cut)
{
	struct split *s = split_new(tools, thinking);
	struct err e = {0};
	size_t thoughts = 0, content = 0, calls = 0;
	if (!s)
		abort();
	split_set_form(s, form);
	for (size_t at = 0; at < n; at += step) {
		if (split_feed(s, text + at, n - at < step ? n - at : step, &e))
			abort();
		struct split_result r = split_result(s);
		if (r.thoughts_n < thoughts || r.content_n < content || r.calls->count < calls)
			abort();
		thoughts = r.thoughts_n;
		content = r.content_n;
		calls = r.calls->count;
	}
	if (cut ? split_cut(s, &e) : split_finish(s, &e))
		abort();
	return s;
}

static void compare(const struct split *a, const struct split *b)
{
	struct split_result x = split_result(a), y = split_result(b);
	bool same = x.thoughts_n == y.thoughts_n && x.content_n == y.content_n &&
		    x.calls->count == y.calls->count &&
		    memcmp(x.thoughts, y.thoughts, x.thoughts_n) == 0 &&
		    memcmp(x.content, y.content, x.content_n) == 0;
	for (size_t i = 0; same && i < x.calls->count; i++) {
		struct json *arguments;
		struct err e = {0};
		const struct call *c = &x.calls->items[i];
		const struct call *d = &y.calls->items[i];
		same = strcmp(c->name, d->name) == 0 && strcmp(c->arguments, d->arguments) == 0 &&
		       strcmp(c->id ? c->id : "", d->id ? d->id : "") == 0;
		if (json_parse_text(&arguments, c->arguments, c->arguments_n, "call", &e) ||
		    json_kind(arguments) != JSON_OBJECT)
			abort();
		json_free(arguments);
	}
	if (!same)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct json *tools;
	struct err e = {0};
	if (!tools && json_parse_text(&tools, TOOLS, sizeof TOOLS - 1, "tools", &e))
		abort();
	if (size < 2)
		return 0;
	enum split_thinking thinking = data[0] % 3;
	const char *text = (const char *)data + 2;
	size_t n = size - 2, forms = 0, step = 1 + data[0] / 3 % 16;
	while (split_form_at(forms))
		forms++;
	bool cut = data[0] & 128;
	const struct split_form *form = split_form_at(data[1] % forms);
	struct split *whole = taken_apart(form, text, n, size, tools, thinking, cut);
	struct split *pieces = taken_apart(form, text, n, step, tools, thinking, cut);
	compare(whole, pieces);
	split_free(whole);
	split_free(pieces);
	return 0;
}
