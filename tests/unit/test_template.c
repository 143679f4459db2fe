/* Chat templates, compared with Jinja2's renderings if these are available; and tests of single
 * rules. */
#include "tests/unit/tokenizer_help.h"

#include "engine/json/json.h"
#include "engine/template/template.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* x: a text of 2^20 times a, repeated as often as wanted. */
#define LONG_A                                                                              \
	"{% set ns = namespace(x='a') %}{% for i in range(20) %}{% set ns.x = ns.x + ns.x " \
	"%}{% endfor %}{% set z = ns.x.replace('a', 'b') + 'a' %}"
#define ALWAYS(expression) \
	"{% for i in range(100000) %}{% if " expression " %}{% endif %}{% endfor %}"

/* 2026-01-02 03:04:05, a Friday. */
static const struct tm CLOCK = {.tm_year = 126,
				.tm_mon = 0,
				.tm_mday = 2,
				.tm_hour = 3,
				.tm_min = 4,
				.tm_sec = 5,
				.tm_wday = 5,
				.tm_yday = 1};

static int render(const char *source, size_t n, const char *variables, struct template_text *out,
		  struct err *e)
{
	struct template *t;
	struct json *json;
	struct err own = {0};
	must(json_parse_text(&json, variables, strlen(variables), "variables", &own), &own);
	int rc = template_open(&t, source, n, "chat_template", e);
	if (rc == 0) {
		rc = template_render(t, json, &CLOCK, NULL, out, e);
		template_close(t);
	}
	json_free(json);
	return rc;
}

/* --- published renderings --- */

/* The next line of a text, without its end; NULL behind the last. */
static char *next_line(char **rest)
{
	char *line = *rest && **rest ? *rest : NULL;
	char *end = line ? strchr(line, '\n') : NULL;
	if (end)
		*end = '\0';
	*rest = end ? end + 1 : NULL;
	return line;
}

static const char *skip_value(const char *p)
{
	int depth = 0;
	do {
		if (*p == '"')
			for (p++; *p != '"'; p++)
				p += *p == '\\';
		depth += *p == '{' || *p == '[';
		depth -= *p == '}' || *p == ']';
		p++;
	} while (depth > 0 || (*p && !strchr(",}]", *p)));
	return p;
}

/* A member of an object in its spelling, since numbers keep theirs; "null" if it is missing. */
static const char *raw_member(const char *object, const char *key, int *n)
{
	for (const char *p = object + 1; *p != '}';) {
		const char *name = p + 1;
		p = strchr(name, '"');
		bool found =
			strlen(key) == (size_t)(p - name) && memcmp(name, key, strlen(key)) == 0;
		const char *value = p + 3; /* ": */
		p = skip_value(value);
		if (found) {
			*n = (int)(p - value);
			return value;
		}
		p += strspn(p, ", ");
	}
	*n = 4;
	return "null";
}

/* Whether a rendering equals the golden one; prints the difference. */
static bool as_golden(const struct json *golden, const char *what, int rc,
		      const struct template_text *out, const struct err *e)
{
	size_t n, kind_n;
	const char *want = json_bytes(json_find(golden, "output"), &n);
	if (json_has(golden, "output")) {
		if (rc == 0 && out->length == n && memcmp(out->bytes, want, n) == 0)
			return true;
		print_message("%s: rc %d %s\n--- want\n%.*s\n--- have\n%.*s\n", what, rc,
			      rc ? e->text : "", (int)n, want, rc ? 0 : (int)out->length,
			      rc ? "" : out->bytes);
		return false;
	}
	const char *kind = json_bytes(json_find(golden, "kind"), &kind_n);
	want = json_bytes(json_find(golden, "error"), &n);
	bool raised = kind_n == 6 && memcmp(kind, "raised", 6) == 0;
	size_t unsafe_n;
	const char *unsafe = json_bytes(json_find(golden, "unsafe_output"), &unsafe_n);
	if (rc == 0 && unsafe_n > 0 && out->length == unsafe_n &&
	    memcmp(out->bytes, unsafe, unsafe_n) == 0)
		return true;
	if (rc < 0 && (rc == -EBADMSG) == raised &&
	    (!raised || (strlen(e->text) == n && memcmp(e->text, want, n) == 0)))
		return true;
	print_message("%s: wants the error %.*s (%.*s), has %d %s\n", what, (int)n, want,
		      (int)kind_n, kind, rc, rc ? e->text : out->bytes);
	return false;
}

static void each_rule_is_jinja_s(void **state)
{
	(void)state;
	const char *path = foreign("templates/snippets.jsonl");
	if (!path)
		skip();
	size_t n, count = 0, wrong = 0;
	char *file = read_any(path, &n), *rest = file;
	for (char *line; (line = next_line(&rest)); count++) {
		struct json *golden;
		struct err e = {0};
		struct template_text out = {0};
		int context_n;
		must(json_parse_text(&golden, line, strlen(line), "snippet", &e), &e);
		const char *source = json_bytes(json_find(golden, "template"), &n);
		const char *id = json_bytes(json_find(golden, "id"), &(size_t){0});
		const char *context = raw_member(line, "context", &context_n);
		char *variables = strndup(context, (size_t)context_n);
		if (strcmp(variables, "null") == 0)
			strcpy(variables, "{}");
		int rc = render(source, n, variables, &out, &e);
		wrong += !as_golden(golden, id, rc, &out, &e);
		template_text_free(&out);
		free(variables);
		json_free(golden);
	}
	free(file);
	assert_int_equal(count, 204);
	assert_int_equal(wrong, 0);
}

enum { CONVERSATIONS_MAX = 100, TEMPLATES_MAX = 100 };
struct goldens {
	char *file;
	const char *conversations[CONVERSATIONS_MAX]; /* lines */
	size_t count;
	struct {
		char name[64];
		struct template *template;
	} templates[TEMPLATES_MAX];
	size_t template_count;
};

static const char *find_conversation(const struct goldens *g, const char *id)
{
	for (size_t i = 0; i < g->count; i++) {
		int n;
		const char *have = raw_member(g->conversations[i], "id", &n);
		if (strlen(id) == (size_t)n - 2 && memcmp(have + 1, id, strlen(id)) == 0)
			return g->conversations[i];
	}
	fail_msg("no conversation %s", id);
	return NULL;
}

static const struct template *find_template(struct goldens *g, const char *name)
{
	for (size_t i = 0; i < g->template_count; i++)
		if (strcmp(g->templates[i].name, name) == 0)
			return g->templates[i].template;
	char path[256];
	size_t n;
	struct err e = {0};
	assert_true(g->template_count < TEMPLATES_MAX);
	snprintf(path, sizeof path, "templates/%s.jinja", name);
	char *source = read_any(foreign(path), &n);
	snprintf(g->templates[g->template_count].name, 64, "%s", name);
	must(template_open(&g->templates[g->template_count].template, source, n,
			   g->templates[g->template_count].name, &e),
	     &e);
	free(source);
	return g->templates[g->template_count++].template;
}

/* All variables of the template, as JSON; freed by the caller. */
static char *all_variables(const struct goldens *g, const char *conversation, const char *line)
{
	static const char *const KEYS[] = {"messages", "tools", "documents"};
	const char *of = find_conversation(g, conversation);
	char *json;
	size_t n;
	int part_n;
	FILE *f = open_memstream(&json, &n);
	fprintf(f, "{");
	for (size_t i = 0; i < 3; i++) {
		const char *part = raw_member(of, KEYS[i], &part_n);
		fprintf(f, "\"%s\": %.*s, ", KEYS[i], part_n, part);
	}
	const char *variables = raw_member(line, "variables", &part_n);
	fprintf(f, "%.*s", part_n - 1, variables + 1);
	fclose(f);
	return json;
}

static bool check_golden(struct goldens *g, const char *line)
{
	struct json *golden, *json;
	struct err e = {0};
	struct template_text out = {0};
	char what[256];
	const char *name, *conversation;
	must(json_parse_text(&golden, line, strlen(line), "golden", &e), &e);
	must(json_get_string(golden, "template", "golden", &name, &e), &e);
	must(json_get_string(golden, "conversation", "golden", &conversation, &e), &e);
	char *variables = all_variables(g, conversation, line);
	must(json_parse_text(&json, variables, strlen(variables), "variables", &e), &e);
	snprintf(what, sizeof what, "%s of %s", name, conversation);
	int rc = template_render(find_template(g, name), json, &CLOCK, NULL, &out, &e);
	bool right = as_golden(golden, what, rc, &out, &e);
	template_text_free(&out);
	free(variables);
	json_free(json);
	json_free(golden);
	return right;
}

static void each_published_template_renders_as_jinja_renders_it(void **state)
{
	(void)state;
	const char *path = foreign("templates/conversations.jsonl");
	struct goldens g = {0};
	size_t n, count = 0, wrong = 0;
	if (!path)
		skip();
	g.file = read_any(path, &n);
	char *rest = g.file;
	for (char *line; (line = next_line(&rest)); g.count++)
		g.conversations[g.count] = line;
	char *goldens = read_any(foreign("templates/goldens.jsonl.zst"), &n);
	rest = goldens;
	for (char *line; wrong < 20 && (line = next_line(&rest)); count++)
		wrong += !check_golden(&g, line);
	for (size_t i = 0; i < g.template_count; i++)
		template_close(g.templates[i].template);
	free(goldens);
	free(g.file);
	assert_int_equal(wrong, 0);
	assert_int_equal(count, 4066);
	assert_int_equal(g.template_count, 62);
}

/* --- rules by themselves --- */

static const char VARIABLES[] =
	"{\"bos_token\": \"<s>\", \"messages\": [{\"role\": \"user\", \"content\": \"a<|x|>b\"}, "
	"{\"role\": \"assistant\", \"content\": \"<think>c\"}], \"n\": 3, \"f\": 1.0, "
	"\"o\": {\"b\": [1, null, true], \"a\": \"it's\"}, \"big\": 100000000000000000000}";

static void expect(const char *source, const char *want)
{
	struct template_text out = {0};
	struct err e = {0};
	int rc = render(source, strlen(source), VARIABLES, &out, &e);
	if (rc < 0 || out.length != strlen(want) || memcmp(out.bytes, want, out.length) != 0)
		fail_msg("%s: %d %s \"%.*s\"", source, rc, e.text, (int)out.length,
			 out.bytes ? out.bytes : "");
	template_text_free(&out);
}

static void templates_render(void **state)
{
	(void)state;
	/* Work is counted once for each look at a value. */
	expect("{{ ('some words\\n' * 200000).split('\\n') | length }}", "200001");
	expect("{{ ('<a' * 1000000).replace('<a', 'b') | length }}{{ '<b' in '<a' * 1000000 }}",
	       "1000000False");
	expect("{% for m in messages %}\n  {{- m.role }}{{ ',' if not loop.last }}\n{% endfor %}",
	       "user,\nassistant\n");
	expect("{{ o }} {{ o | tojson }} {{ f }} {{ n }} {{ big }} {{ missing }}",
	       "{'b': [1, None, True], 'a': \"it's\"} {\"b\": [1, null, true], \"a\": \"it's\"} "
	       "1.0 3 "
	       "100000000000000000000 ");
	expect("{% set ns = namespace(i=0) %}{% for x in [1, 2] %}{% set ns.i = ns.i + x %}{% set "
	       "y = x %}"
	       "{% endfor %}{{ ns.i }}{{ y is defined }}",
	       "3False");
	expect("{% macro f(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) ~ f(1, b=3) }}",
	       "[12][13]");
	expect("{% if false %}a{% elif 0 %}b{% else %}{% if true %}c{% endif %}d{% endif %}", "cd");
	expect("{{ 'x,y'.split(',')[-1] }}{{ 'abc'[::-1] }}{{ -7 // 2 }}{{ 2 ** 3 }}{{ 7 % -3 }}",
	       "ycba-48-2");
	expect("{{ messages | map(attribute='role') | join('|') }}", "user|assistant");
	/* A float's whole part, however large. */
	expect("{{ '%d %d %d %i' % (1.9, -1.9, -0.5, 9007199254740993) }}",
	       "1 -1 0 9007199254740993");
	expect("{{ '%d' % 1e22 }} {{ '%d' % -1e19 }} {{ ('%d' % 1e300) | length }}",
	       "10000000000000000000000 -10000000000000000000 301");
	expect("a\n{%- set x %}b{% endset -%}\n{{ x | upper }}\n", "aB");
	expect("", "");
}

static void expect_error(const char *source, int code, const char *words)
{
	struct template_text out = {0};
	struct err e = {0};
	int rc = render(source, strlen(source), VARIABLES, &out, &e);
	if (rc != -code || !strstr(e.text, words))
		fail_msg("%.60s: %d %s", source, rc, rc ? e.text : "rendered");
}

static void errors_say_where_and_what(void **state)
{
	(void)state;
	expect_error("a\n{% if x %}", EINVAL, "chat_template line 2: the template ends");
	expect_error("{% include 'x' %}", ENOTSUP, "\"include\"");
	expect_error("{{ '%d' % (1e308 * 10) }}", EINVAL, "%d cannot format infinity");
	expect_error("{{ 1 + }}", EINVAL, "\"}}\" stands where a value is expected");
	expect_error("{{ (1 }}", EINVAL, "unexpected \"}\"");
	expect_error("{{ 'a }}", EINVAL, "' is missing");
	expect_error("{# a", EINVAL, "comment");
	expect_error("a\n\n{{ missing.a }}", EINVAL, "line 3: \"missing\" is undefined");
	expect_error("{{ o.a.b.c }}", EINVAL, "\"b\" is undefined");
	expect_error("{{ 'a' + 1 }}", EINVAL, "cannot compute str + int");
	expect_error("{{ 1 | nope }}", EINVAL, "the filter \"nope\"");
	expect_error("{{ raise_exception('No: ' ~ n) }}", EBADMSG, "No: 3");
	expect_error("{% set o.x = 1 %}", EINVAL, "only a namespace's");
	expect_error("{{ messages.append(1) }}", EINVAL, "undefined");
}

/* Templates that would take all memory, time or stack end with a sentence. */
static void hostile_templates_end_in_words(void **state)
{
	(void)state;
	static const char *const BOMBS[] = {
		"{{ 'a' * 1000000000000 }}",
		"{{ range(1000000000) | length }}",
		"{% set ns = namespace(x='aaaa') %}{% for i in range(100) %}{% set ns.x = ns.x + "
		"ns.x %}"
		"{% endfor %}",
		"{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, "
		"ns.x] %}"
		"{% endfor %}{{ ns.x }}",
		"{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, "
		"ns.x] %}"
		"{% endfor %}{{ ns.x == ns.x }}",
		"{% for a in range(10000) %}{% for b in range(10000) %}{{ a }}{% endfor %}{% "
		"endfor %}",
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"{% macro f(x) %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f(1) %}{{ g() "
		"}}"
		"{% endcall %}{% endmacro %}{{ g() }}",
		"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"{{ 10 ** 1000000000 }}",
		"{{ 9223372036854775807 + 1 }}",
		"{{ -9223372036854775807 - 2 }}",
		"{{ 1 // 0 }}",
		"{{ 'a'.center(100000000000) }}",
		"{{ [1, 2][::0] }}",
		"{{ o | tojson(indent=1000000) }}",
		"{% set ns = namespace(x='a') %}{% for i in range(400000) %}{% set ns.x = (ns.x,) "
		"%}{% endfor %}{{ 'a'.startswith(ns.x) }}",
		LONG_A ALWAYS("ns.x.strip(z)"),
		LONG_A ALWAYS("'aaaaaaaaaaaaaaaaaaaaab' in ns.x"),
		LONG_A ALWAYS("ns.x.split('a' * 100000 + 'b')"),
		LONG_A ALWAYS("ns.x.rsplit('a' * 100000 + 'b', 1)"),
		LONG_A ALWAYS("ns.x + 'b' == ns.x + 'c'"),
		LONG_A "{% set y = ns.x + 'b' %}{% set z = ns.x + 'c' %}" ALWAYS("y == z"),
		LONG_A "{% set y = ns.x + 'b' %}{% set z = ns.x + 'c' %}" ALWAYS("y < z"),
		LONG_A "{% set y = ns.x + 'b' %}" ALWAYS("y.startswith(ns.x)"),
	};
	for (size_t i = 0; i < sizeof BOMBS / sizeof *BOMBS; i++) {
		struct template_text out = {0};
		struct err e = {0};
		int rc = render(BOMBS[i], strlen(BOMBS[i]), VARIABLES, &out, &e);
		if (rc != -EINVAL && rc != -EFBIG)
			fail_msg("%s: %d", BOMBS[i], rc);
		assert_non_null(strstr(e.text, "chat_template line"));
	}
	static const char *const DEEP[] = {
		"{{ ",	       "(",  "[",  "{1:",   "-",    "not ",	  "1+",
		"a.",	       "a[", "f(", "1 if ", "x|f(", "{% if 1 %}", "{% for i in x %}",
		"{% elif 1 %}"};
	for (size_t i = 1; i < sizeof DEEP / sizeof *DEEP; i++) {
		struct template_text out = {0};
		struct err e = {0};
		char *source = malloc(1 << 18);
		size_t n = 0;
		if (DEEP[i][0] != '{' || DEEP[i][1] == '1')
			n = (size_t)sprintf(source, "{{ ");
		else if (strstr(DEEP[i], "elif"))
			n = (size_t)sprintf(source, "{%% if 1 %%}");
		while (n < 200000)
			n += (size_t)sprintf(source + n, "%s", DEEP[i]);
		int rc = render(source, n, VARIABLES, &out, &e);
		assert_true(rc == -EINVAL);
		free(source);
	}
}

static void a_rendering_ends_when_it_is_stopped(void **state)
{
	(void)state;
	static const _Atomic bool stop = true;
	struct template *t;
	struct template_text out = {0};
	struct json *json;
	struct err e = {0};
	must(json_parse_text(&json, "{}", 2, "variables", &e), &e);
	must(template_open(&t, "{{ 1 }}", 7, "t", &e), &e);
	assert_int_equal(template_render(t, json, &CLOCK, &stop, &out, &e), -ECANCELED);
	template_close(t);
	json_free(json);
}

static void template_reads_finds_the_variables_of_a_template(void **state)
{
	(void)state;
	static const char SOURCE[] =
		"{% if enable_thinking %}{{ f(x=[{'k': a.b[c]}]) }}{% endif %}";
	struct template *t;
	struct err e = {0};
	must(template_open(&t, SOURCE, sizeof SOURCE - 1, "t", &e), &e);
	assert_true(template_reads(t, "enable_thinking"));
	assert_true(template_reads(t, "a"));
	assert_true(template_reads(t, "c"));
	assert_false(template_reads(t, "b"));
	assert_false(template_reads(t, "k"));
	assert_false(template_reads(t, "reasoning_effort"));
	template_close(t);
}

/* The text with each byte's origin instead of it: t(emplate), u(ser and others), a(ssistant). */
static void expect_from(const char *source, const char *want)
{
	struct template_text out = {0};
	struct err e = {0};
	must(render(source, strlen(source), VARIABLES, &out, &e), &e);
	char have[256] = "";
	assert_true(out.length < sizeof have);
	for (size_t i = 0; i < out.length; i++)
		have[i] = "tua"[out.from[i]];
	assert_string_equal(have, want);
	template_text_free(&out);
}

static void each_byte_knows_where_it_came_from(void **state)
{
	(void)state;
	expect_from("{{ bos_token }}<|x|>{{ messages[0].content }}", "ttt"
								     "ttttt"
								     "uuuuuuu");
	expect_from("{{ messages[1].content }}", "aaaaaaaa");
	expect_from("{{ ' ' + messages[0].content | upper | trim + '!' }}", "t"
									    "uuuuuuu"
									    "t");
	expect_from("{{ messages[0].content | replace('b', '<|y|>') }}", "uuuuuu"
									 "ttttt");
	expect_from("{{ messages[0].content[::-1] }}{{ messages[0].content[1:3] }}", "uuuuuuu"
										     "uu");
	expect_from("{{ messages[0].content.split('<')[1] }}", "uuuuu");
	expect_from("{{ [messages[0].content] | join(',') }}{{ messages[0].content | tojson }}",
		    "uuuuuuu"
		    "tuuuuuuut");
	expect_from("{{ [messages[0].content] }}", "tt"
						   "uuuuuuu"
						   "tt");
	expect_from("{% set x %}{{ messages[0].content }}{% endset %}{{ '%s' % x }}", "uuuuuuu");
	expect_from("{% for k, v in o | items %}{{ k }}{% endfor %}", "uu");
	expect_from("{% macro f(x) %}({{ x }}){% endmacro %}{{ f(messages[1].content) }}",
		    "taaaaaaaat");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rule_is_jinja_s),
		cmocka_unit_test(each_published_template_renders_as_jinja_renders_it),
		cmocka_unit_test(templates_render),
		cmocka_unit_test(errors_say_where_and_what),
		cmocka_unit_test(hostile_templates_end_in_words),
		cmocka_unit_test(a_rendering_ends_when_it_is_stopped),
		cmocka_unit_test(template_reads_finds_the_variables_of_a_template),
		cmocka_unit_test(each_byte_knows_where_it_came_from),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
