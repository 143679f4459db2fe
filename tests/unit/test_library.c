/* Folders in which other programs keep models: what is found there and under which name, what
 * ollama's manifests say, and that nothing is written there. */
#include "checkpoint_help.h"
#include "engine/admin/check.h"
#include "engine/json/json.h"
#include "engine/library/library.h"
#include "engine/library/ollama.h"
#include "engine/model.h"
#include "engine/session/params.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "gguf_convert.h"
#include "golden.h"
#include "store_help.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char home[32]; /* of every test; no variable of another program's is set */
static struct err e;
static const struct gguf_conversion plain = {
	.fixture = "qwen3_moe", .architecture = "qwen3moe", .type = "BF16"};

static int setup(void **state)
{
	static const char *const unset[] = {"OLLAMA_MODELS", "HF_HUB_CACHE",   "HF_HOME",
					    "LLAMA_CACHE",   "XDG_CACHE_HOME", NULL};
	(void)state;
	test_folder_make(home);
	for (size_t i = 0; unset[i]; i++)
		unsetenv(unset[i]);
	setenv("HOME", home, 1);
	e = (struct err){0};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_folder_remove(home);
	return 0;
}

/* Valid until the 32nd next call. */
static const char *in_home(const char *name)
{
	static char paths[32][512];
	static int next;
	char *path = paths[next++ % 32];
	(void)snprintf(path, sizeof *paths, "%s/%s", home, name);
	return path;
}

/* With all folders above it. */
static const char *folder(const char *name)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s/", in_home(name));
	for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = 0;
		assert_true(!mkdir(path, 0700) || errno == EEXIST);
	}
	return in_home(name);
}

static void write_text(const char *path, const char *text)
{
	test_file_write(path, text, strlen(text));
}

static void make_gguf(const char *in, const char *name)
{
	char path[512];
	test_gguf_convert(&plain, folder(in), name, path);
}

/* ---- ollama's folder ---- */

#define OLLAMA ".ollama/models"

/* The layer with this number, as a member of a manifest's layers. */
static const char *layer(const char *type, unsigned number)
{
	static char texts[8][256];
	static int next;
	char *text = texts[next++ % 8];
	(void)snprintf(text, sizeof *texts,
		       "{\"mediaType\": \"application/vnd.ollama.image.%s\", \"digest\": "
		       "\"sha256:%064x\", \"size\": 1}",
		       type, number);
	return text;
}

static const char *blob(unsigned number)
{
	char name[128];
	(void)snprintf(name, sizeof name, OLLAMA "/blobs/sha256-%064x", number);
	return in_home(name);
}

static void write_manifest(const char *name, const char *layers)
{
	char path[512], text[4096];
	(void)snprintf(path, sizeof path, OLLAMA "/manifests/%s", name);
	*strrchr(path, '/') = 0;
	(void)folder(path);
	path[strlen(path)] = '/';
	(void)snprintf(text, sizeof text, "{\"schemaVersion\": 2, \"layers\": [%s]}", layers);
	write_text(in_home(path), text);
}

enum { WEIGHTS = 1, TEMPLATE, SYSTEM, PARAMS };

/* A model registry.ollama.ai/library/tiny, with these texts; NULL: without the layer. */
static const char *make_tiny(const char *go, const char *system, const char *params)
{
	char path[512], layers[2048];
	test_gguf_convert(&plain, folder(OLLAMA "/blobs"), "x", path);
	assert_int_equal(rename(path, blob(WEIGHTS)), 0);
	(void)snprintf(layers, sizeof layers, "%s%s%s%s%s%s%s", layer("model", WEIGHTS),
		       go ? ", " : "", go ? layer("template", TEMPLATE) : "", system ? ", " : "",
		       system ? layer("system", SYSTEM) : "", params ? ", " : "",
		       params ? layer("params", PARAMS) : "");
	if (go)
		write_text(blob(TEMPLATE), go);
	if (system)
		write_text(blob(SYSTEM), system);
	if (params)
		write_text(blob(PARAMS), params);
	write_manifest("registry.ollama.ai/library/tiny/4b", layers);
	return in_home(OLLAMA "/manifests/registry.ollama.ai/library/tiny/4b");
}

static void a_manifest_names_its_layers(void **state)
{
	(void)state;
	struct ollama_manifest m;
	char text[2048], name[OLLAMA_DIGEST];
	(void)snprintf(text, sizeof text, "{\"layers\": [%s, %s, %s, %s, %s]}", layer("license", 9),
		       layer("model", 1), layer("template; name=x", 2), layer("projector", 3),
		       layer("messages", 4));
	if (ollama_manifest_read(&m, text, strlen(text), "m", &e))
		fail_msg("%s", e.text);
	(void)snprintf(name, sizeof name, "sha256-%064x", 1);
	assert_string_equal(m.file[OLLAMA_WEIGHTS], name);
	(void)snprintf(name, sizeof name, "sha256-%064x", 2);
	assert_string_equal(m.file[OLLAMA_TEMPLATE], name);
	assert_string_equal(m.file[OLLAMA_SYSTEM], "");
	assert_true(m.messages);
}

static void a_manifest_that_cannot_be_used_is_refused_with_its_reason(void **state)
{
	(void)state;
#define MODEL_OF(digest)                                                         \
	"{\"layers\": [{\"mediaType\": \"application/vnd.ollama.image.model\", " \
	"\"digest\": " digest "}]}"
#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
	char adapter[1024], two[1024], tensor[1024], unknown[1024];
	(void)snprintf(adapter, sizeof adapter, "{\"layers\": [%s, %s]}", layer("model", 1),
		       layer("adapter", 2));
	(void)snprintf(two, sizeof two, "{\"layers\": [%s, %s]}", layer("model", 1),
		       layer("model", 2));
	(void)snprintf(tensor, sizeof tensor, "{\"layers\": [%s]}", layer("tensor; name=a", 1));
	(void)snprintf(unknown, sizeof unknown, "{\"layers\": [%s]}", layer("novelty", 1));
	const struct {
		const char *text, *words;
	} cases[] = {
		{"", "JSON"},
		{"[]", "object"},
		{"{}", "layers"},
		{"{\"layers\": {}}", "layers"},
		{"{\"layers\": [1]}", "object"},
		{"{\"layers\": [{}]}", "mediaType"},
		{"{\"layers\": []}", "no weights"},
		{MODEL_OF("7"), "digest"},
		{MODEL_OF("\"sha256:\""), "64 hexadecimal digits"},
		{MODEL_OF("\"md5:" DIGITS "f\""), "64 hexadecimal digits"},
		{MODEL_OF("\"sha256:" DIGITS "\""), "64 hexadecimal digits"},
		{MODEL_OF("\"sha256:" DIGITS "ff\""), "64 hexadecimal digits"},
		{MODEL_OF("\"sha256:" DIGITS "/\""), "64 hexadecimal digits"},
		{MODEL_OF("\"sha256:../../../../" DIGITS "f\""), "64 hexadecimal digits"},
		{adapter, "it has an adapter"},
		{two, "two layers \"model\""},
		{tensor, "a file per tensor"},
		{unknown, "novelty\" is not known"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct ollama_manifest m;
		int failed =
			ollama_manifest_read(&m, cases[i].text, strlen(cases[i].text), "m", &e);
		if (!failed || !strstr(e.text, cases[i].words))
			fail_msg("%s: gave %d, \"%s\"", cases[i].text, failed,
				 failed ? e.text : "");
	}
}

static void a_manifest_leads_to_its_weights(void **state)
{
	(void)state;
	struct model_place place;
	struct ollama_model *said;
	const char *path = make_tiny(NULL, NULL, NULL);
	if (library_find(&place, &said, path, &e))
		fail_msg("%s", e.text);
	assert_string_equal(place.path, blob(WEIGHTS));
	assert_string_equal(place.name, "tiny:4b");
	assert_string_equal(place.keeper, "ollama's folder");
	assert_non_null(said);
	place_free(&place);
	ollama_close(said);
	assert_int_equal(unlink(blob(WEIGHTS)), 0);
	assert_int_equal(library_find(&place, &said, path, &e), -ENOENT);
	assert_non_null(strstr(e.text, "its weights"));
	write_text(blob(WEIGHTS), "GGML");
	assert_int_equal(library_find(&place, &said, path, &e), -EINVAL);
	assert_non_null(strstr(e.text, "not a GGUF file"));
}

/* ---- params ---- */

static struct generation generation;

static int take_params(const char *params)
{
	struct ollama_model m = {.name = "tiny"};
	struct err ignored;
	generation = (struct generation)GENERATION_DEFAULTS;
	if (json_parse_text(&m.params, params, strlen(params), "params", &ignored))
		fail_msg("%s", params);
	int failed = ollama_take_defaults(&m, &generation, &e);
	json_free(m.params);
	return failed;
}

static void params_become_defaults(void **state)
{
	(void)state;
	assert_int_equal(take_params("{\"temperature\": 0.5, \"top_k\": 20, \"top_p\": 0.75, "
				     "\"min_p\": 0.25, \"repeat_penalty\": 1.5, \"seed\": 7, "
				     "\"num_predict\": 99, \"num_ctx\": 4096, \"stop\": [\"a\"]}"),
			 0);
	assert_true(generation.temperature == .5 && generation.top_p == .75 &&
		    generation.min_p == .25 && generation.repetition_penalty == 1.5);
	assert_int_equal(generation.top_k, 20);
	assert_int_equal(generation.max_new_tokens, 99);
	assert_true(generation.seeded && generation.seed == 7);
	assert_string_equal(generation.words,
			    "temperature 0.5\ntop_k 20\ntop_p 0.75\nmin_p 0.25\n"
			    "repetition_penalty 1.5\nseed 7\nmax_new_tokens 99\nignored num_ctx "
			    "4096");
	/* No limit, and random. */
	assert_int_equal(take_params("{\"num_predict\": -1, \"seed\": -1, \"top_k\": -1}"), 0);
	assert_int_equal(generation.max_new_tokens, 0);
	assert_false(generation.seeded);
	assert_int_equal(take_params("{\"temperature\": -3}"), -EINVAL);
	assert_int_equal(take_params("{\"top_p\": \"high\"}"), -EINVAL);
	assert_int_equal(take_params("{\"seed\": 1.5}"), -EINVAL);
}

static void stop_texts_become_lines(void **state)
{
	(void)state;
	struct json *json;
	char *stops, many[1024] = "{\"stop\": [\"a\"";
	static const char text[] =
		"{\"stop\": [\"<|im_end|>\", \"\", \"a\\nb\\\\c\\t\", \"User:\"]}";
	assert_int_equal(json_parse_text(&json, text, strlen(text), "p", &e), 0);
	assert_int_equal(ollama_stops(&stops, json, "p", &e), 0);
	assert_string_equal(stops, "<|im_end|>\na\\nb\\\\c\\t\nUser:");
	free(stops);
	json_free(json);
	for (int i = 0; i < 64; i++)
		(void)snprintf(many + strlen(many), sizeof many - strlen(many), ", \"a\"");
	(void)snprintf(many + strlen(many), sizeof many - strlen(many), "]}");
	assert_int_equal(json_parse_text(&json, many, strlen(many), "p", &e), 0);
	assert_int_equal(ollama_stops(&stops, json, "p", &e), -EINVAL);
	json_free(json);
}

static void params_are_an_object(void **state)
{
	(void)state;
	static const char *const others[] = {"[[[]]", "[1]", "7", "null"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct engine *g;
		struct model *m;
		struct engine_options o = {0};
		assert_int_equal(engine_create(&g, &o, &e), 0);
		assert_int_equal(model_open(&m, g, make_tiny("{{ .Prompt }}", NULL, others[i]), &e),
				 -EINVAL);
		engine_destroy(g);
	}
}

static void sessions_begin_with_what_a_manifest_says(void **state)
{
	(void)state;
	struct engine *g;
	struct model *m;
	struct engine_options o = {0};
	struct session *s;
	const char *path =
		make_tiny("{{ .System }}<|im_start|>{{ .Prompt }}<|im_end|>", "You are tiny.\n",
			  "{\"temperature\": 0.5, \"seed\": 7, \"stop\": [\"x\"]}");
	assert_int_equal(engine_create(&g, &o, &e), 0);
	if (model_open(&m, g, path, &e))
		fail_msg("%s", e.text);
	assert_int_equal(session_create(&s, m, NULL, NULL, &e), 0);
	static const char *const expected[][2] = {{"system", "You are tiny."},
						  {"temperature", "0.5"},
						  {"seed", "7"},
						  {"stop", "x"},
						  {"top_k", "0"}};
	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
		char *value = session_param_get(s, params_find(expected[i][0]));
		assert_string_equal(value, expected[i][1]);
		free(value);
	}
	session_end(s);
	model_close(m);
	engine_destroy(g);
}

/* ---- templates ---- */

static void a_form_is_known_by_its_marks(void **state)
{
	(void)state;
	static const struct {
		const char *go, *form;
	} cases[] = {
		{"{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>{{ end }}", "ChatML"},
		{"<|start_header_id|>user<|end_header_id|>\n\n{{ .Prompt }}<|eot_id|>", "Llama 3"},
		{"<start_of_turn>user\n{{ .Prompt }}<end_of_turn>", "Gemma"},
		{"[INST] <<SYS>>{{ .System }}<</SYS>>\n\n{{ .Prompt }} [/INST]", "Llama 2"},
		{"[INST] {{ .System }} {{ .Prompt }} [/INST]", "Mistral"},
		{"<|user|>\n{{ .Prompt }}<|end|>\n<|assistant|>", "Phi 3"},
		{"<|user|>\n{{ .Prompt }}</s>\n<|assistant|>", "Zephyr"},
		{"{{ .Prompt }}", "none"},
		{"  {{- .Prompt }}\n", NULL},
		{"{{.Prompt}}\n", "none"},
		{"[SYSTEM_PROMPT]{{ .System }}[INST]{{ .Prompt }}[/INST]", NULL},
		{"### Instruction:\n{{ .Prompt }}\n\n### Response:\n", NULL},
		{"{{ .Prompt }}{{ .Prompt }}", NULL},
		{"", NULL},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct ollama_form *form = ollama_form_of(cases[i].go);
		const char *name = form ? form->name : NULL;
		if (!name != !cases[i].form || (name && strcmp(name, cases[i].form) != 0))
			fail_msg("%s: %s", cases[i].go, name ? name : "unknown");
	}
}

/* What a form makes of a short conversation with the tokenizer of the fixture, whose text ends with
 * <|im_end|> and begins with nothing. */
static void assert_renders(const char *go, const char *expected)
{
	static const char conversation[] =
		"[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": "
		"\"U\"}, {\"role\": \"assistant\", \"content\": \"A\"}, {\"role\": \"user\", "
		"\"content\": \"V\"}]";
	struct tokenizer *t = NULL;
	struct chat_template *c = NULL;
	struct messages m = {0};
	struct template_text out = {0};
	const struct tm clock = {0};
	if (tokenizer_open(&t, test_fixture("qwen3_moe"), &e) ||
	    chat_template_open_text(&c, ollama_form_of(go)->jinja, NULL, "form", t, &e) ||
	    messages_read(&m, conversation, strlen(conversation), &e) ||
	    chat_render(c, &(struct chat_input){.messages = &m, .clock = &clock, .answer = true},
			NULL, &out, &e))
		fail_msg("%s: %s", go, e.text);
	assert_int_equal(out.length, strlen(expected));
	assert_memory_equal(out.bytes, expected, out.length);
	template_text_free(&out);
	messages_free(&m);
	chat_template_close(c);
	tokenizer_close(t);
}

static void forms_write_conversations(void **state)
{
	(void)state;
#define HEAD3(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
	assert_renders("<|start_header_id|><|eot_id|>",
		       HEAD3("system") "S<|eot_id|>" HEAD3("user") "U<|eot_id|>" HEAD3(
			       "assistant") "A<|eot_id|>" HEAD3("user") "V<|eot_id|>" HEAD3("assist"
											    "ant"));
	assert_renders("<start_of_turn><end_of_turn>",
		       "<start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_"
		       "turn>\n<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n");
	assert_renders("[INST]<<SYS>>", "[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A <|im_end|>"
					"[INST] V [/INST]");
	assert_renders("[INST][/INST]", "[INST] S\n\nU [/INST] A<|im_end|>[INST] V [/INST]");
	assert_renders("<|user|><|end|>",
		       "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n"
		       "<|user|>\nV<|end|>\n<|assistant|>\n");
	assert_renders("<|user|></s>",
		       "<|system|>\nS<|im_end|>\n<|user|>\nU<|im_end|>\n<|assistant|>\nA<|im_end|>"
		       "\n<|user|>\nV<|im_end|>\n<|assistant|>\n");
}

static void a_template_of_no_known_form_is_refused_unless_the_file_has_its_own(void **state)
{
	(void)state;
	struct ollama_model *m;
	char path[512], own[512];
	(void)snprintf(own, sizeof own, "%s", make_tiny("### {{ .Prompt }}", NULL, NULL));
	assert_int_equal(ollama_open(&m, own, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "of no known form"));
	struct test_gguf file = {0};
	test_gguf_string(&file, "general.architecture", "qwen3moe");
	test_gguf_string(&file, "tokenizer.chat_template", "{{ messages }}");
	(void)snprintf(path, sizeof path, "%s", blob(WEIGHTS));
	test_gguf_write(&file, path);
	test_gguf_free(&file);
	if (ollama_open(&m, own, &e))
		fail_msg("%s", e.text);
	assert_null(m->form);
	ollama_close(m);
}

/* ---- lists ---- */

static struct library_list list;

static void look(void)
{
	struct library_list folders = {0};
	library_free(&list);
	assert_int_equal(library_folders(&folders, &e), 0);
	for (size_t i = 0; i < folders.folder_count; i++)
		if (library_look(&list, folders.folders[i], &e))
			fail_msg("%s", e.text);
	assert_int_equal(library_name(&list, &e), 0);
	library_free(&folders);
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names, sorted, with a space behind each; of a model that cannot be opened in parentheses. */
static void assert_listed(const char *expected)
{
	char text[4096] = "", *names[64];
	assert_true(list.count <= 64);
	for (size_t i = 0; i < list.count; i++) {
		const struct library_model *m = &list.models[i];
		assert_true(asprintf(&names[i], m->why ? "(%s)" : "%s",
				     m->name ? m->name : m->path) > 0);
	}
	qsort(names, list.count, sizeof *names, compare_lines);
	for (size_t i = 0; i < list.count; i++) {
		(void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", names[i]);
		free(names[i]);
	}
	assert_string_equal(text, expected);
	library_free(&list);
}

static void each_program_s_models_have_their_names(void **state)
{
	(void)state;
	look();
	assert_listed("");
	make_tiny(NULL, NULL, NULL);
	write_manifest("registry.ollama.ai/library/tiny/latest", layer("model", WEIGHTS));
	write_manifest("registry.ollama.ai/library/gone/latest", layer("model", 77));
	write_manifest("hf.co/some/repo/Q8", layer("model", WEIGHTS));
	make_gguf(".lmstudio/models/Pub/Repo-GGUF", "Repo-Q4");
	make_gguf(".lmstudio/models/Pub/Two", "Two-Q4");
	make_gguf(".lmstudio/models/Pub/Two", "Two-Q8");
	write_text(in_home(".lmstudio/models/Pub/Two/mmproj-Two.gguf"), "GGUF");
	write_text(in_home(".lmstudio/models/Pub/Two/Two-mmproj-f16.gguf"), "GGUF");
	write_text(in_home(".lmstudio/models/Pub/Two/README.md"), "read me");
	make_gguf(".cache/llama.cpp", "org_Repo_Small-Q4");
	write_text(in_home(".cache/llama.cpp/org_Repo_Small-Q4.gguf.json"), "{}");
	write_text(in_home(".cache/llama.cpp/cut.gguf"), "GG");
	look();
	assert_listed(
		"(cut.gguf) (gone:latest) Repo-Q4 Two-Q4 Two-Q8 org_Repo_Small-Q4 repo:Q8 tiny "
		"tiny:4b ");
}

static void a_file_in_parts_is_one_model(void **state)
{
	(void)state;
	char path[512];
	struct gguf_conversion parts = plain;
	parts.parts = 3;
	test_gguf_convert(&parts, folder(".lmstudio/models/Pub/Big/Q4"), "Big-Q4", path);
	make_gguf(".lmstudio/models/Pub/Big", "Big-Q2");
	look();
	assert_listed("Big-Q2 Big-Q4 ");
}

static void a_hub_s_cache_shows_its_revisions(void **state)
{
	(void)state;
#define HUB ".cache/huggingface/hub/"
	make_gguf(HUB "models--Org--Tiny/snapshots/aaaaaaaaaaaa", "Tiny-Q4");
	folder(HUB "models--Org--Tiny/refs/pr");
	folder(HUB "datasets--Org--Data/snapshots/a");
	make_gguf(HUB "models--Org--Tiny/snapshots/bbbbbbbbbbbb", "Tiny-Q4");
	make_gguf(HUB "models--Org--Tiny/snapshots/cccccccccccc", "Tiny-Q4");
	make_gguf(HUB "models--Org--Tiny/snapshots/dddddddddddd", "Tiny-Q4");
	write_text(in_home(HUB "models--Org--Tiny/refs/main"), "bbbbbbbbbbbb");
	write_text(in_home(HUB "models--Org--Tiny/refs/v1.0"), "cccccccccccc\n");
	write_text(in_home(HUB "models--Org--Tiny/refs/pr/1"), "dddddddddddd");
	make_gguf(HUB "models--Org--Pair/snapshots/a", "Pair-Q4");
	make_gguf(HUB "models--Org--Pair/snapshots/a", "Pair-Q8");
	folder(HUB "models--Org--Begun/blobs");
	look();
	assert_listed("(Begun) Pair-Q4 Pair-Q8 Tiny-Q4 Tiny-Q4@aaaaaaaa Tiny-Q4@pr-1 "
		      "Tiny-Q4@v1.0 ");
}

static void equal_names_get_their_publisher_s(void **state)
{
	(void)state;
	make_gguf(".lmstudio/models/One/R", "Same");
	make_gguf(".lmstudio/models/Two/R", "Same");
	make_gguf(".lmstudio/models/Two/S", "Same");
	make_gguf(".lmstudio/models/Two/S", "Other");
	look();
	assert_listed("One-Same Other Two-Same Two-Same-2 ");
}

static void variables_say_where_models_are(void **state)
{
	(void)state;
	make_gguf(".lmstudio/models/P/R", "Studio");
	make_gguf(".cache/llama.cpp", "o_r_default");
	make_gguf("elsewhere", "o_r_given");
	make_gguf("hf/hub/models--O--N/snapshots/a", "Hub");
	setenv("LLAMA_CACHE", in_home("elsewhere"), 1);
	setenv("HF_HOME", in_home("hf"), 1);
	setenv("OLLAMA_MODELS", "relative", 1); /* means nothing here */
	look();
	assert_listed("Hub Studio o_r_given ");
	setenv("LLAMA_CACHE", in_home("hf/hub"), 1); /* one folder of two programs */
	look();
	assert_listed("Hub Studio ");
}

/* ---- nothing is written ---- */

static char seen[16384];

static int note_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)type;
	(void)ftw;
	size_t used = strlen(seen);
	assert_true(used + 600 < sizeof seen);
	(void)snprintf(seen + used, sizeof seen - used, "%s %lld %lld.%09ld\n", path,
		       (long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	return 0;
}

/* What is below a folder, with sizes and times. */
static char *state_of(const char *path)
{
	*seen = 0;
	assert_int_equal(nftw(path, note_path, 8, FTW_PHYS), 0);
	return strdup(seen);
}

static void store_of(const char *path, char store[4096])
{
	struct engine *g;
	struct model *m;
	struct engine_options o = {0};
	assert_int_equal(engine_create(&g, &o, &e), 0);
	if (model_open(&m, g, path, &e) || model_wait(m, &e))
		fail_msg("%s: %s", path, e.text);
	assert_int_equal(model_fact(m, FACT_STORE, store, 4096), 0);
	model_close(m);
	engine_destroy(g);
}

static void stores_go_to_the_cache_folder(void **state)
{
	(void)state;
	char store[4096];
	make_gguf(".lmstudio/models/P/R", "Studio");
	make_gguf("own", "Mine");
	make_gguf("copied/models--O--N/snapshots/a", "Hub");
	const char *ollama = make_tiny(NULL, NULL, NULL);
	const struct {
		const char *path, *root;
	} kept[] = {
		{in_home(".lmstudio/models/P/R/Studio.gguf"), in_home(".lmstudio")},
		{in_home("copied/models--O--N"), in_home("copied")},
		{ollama, in_home(".ollama")},
		{blob(WEIGHTS), in_home(".ollama")},
	};
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
		char *before = state_of(kept[i].root);
		store_of(kept[i].path, store);
		char *after = state_of(kept[i].root);
		assert_string_equal(before, after);
		assert_memory_equal(store, in_home(".cache/moefs/"), strlen(home) + 14);
		assert_int_equal(access(store, F_OK), 0);
		free(before);
		free(after);
	}
	store_of(in_home("own/Mine.gguf"), store);
	assert_memory_equal(store, in_home("own/Mine.gguf.moefs/"), strlen(home) + 21);
}

static void a_store_that_was_made_beside_a_model_is_still_read(void **state)
{
	(void)state;
	char store[4096], path[512];
	make_gguf("later/models/P/R", "Studio");
	(void)snprintf(path, sizeof path, "%s", in_home("later/models/P/R/Studio.gguf"));
	struct engine *g;
	struct model *m;
	struct engine_options o = {.quant = "bf16"};
	for (int i = 0; i < 2; i++) { /* the second time it is LM Studio's folder */
		assert_int_equal(engine_create(&g, &o, &e), 0);
		char *before = i ? state_of(in_home(".lmstudio")) : NULL;
		if (model_open(&m, g, path, &e) || model_wait(m, &e))
			fail_msg("%s", e.text);
		struct model_progress p;
		for (model_progress(m, &p); strcmp(p.doing, "idle") != 0; model_progress(m, &p))
			usleep(1000);
		assert_int_equal(model_fact(m, FACT_STORE, store, sizeof store), 0);
		model_close(m);
		engine_destroy(g);
		assert_non_null(strstr(store, "/Studio.gguf.moefs/bf16"));
		if (i) {
			char *after = state_of(in_home(".lmstudio"));
			assert_string_equal(before, after);
			free(before);
			free(after);
		}
		if (!i)
			assert_int_equal(rename(in_home("later"), in_home(".lmstudio")), 0);
		(void)snprintf(path, sizeof path, "%s",
			       in_home(".lmstudio/models/P/R/Studio.gguf"));
	}
}

/* ---- looking is cheap ---- */

/* Bytes that this process has read so far. */
static unsigned long long bytes_read(void)
{
	unsigned long long bytes = 0;
	FILE *f = fopen("/proc/self/io", "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "rchar: %llu", &bytes), 1);
	(void)fclose(f);
	return bytes;
}

static void two_hundred_models_are_looked_at_by_their_headers(void **state)
{
	(void)state;
	enum { MODELS = 200, MIB = 1 << 20 };
	char one[512], path[512];
	struct stat st;
	test_gguf_convert(&plain, folder(".lmstudio/models/P/R"), "One", one);
	/* Weights that nobody may read: 64 MiB behind the file's own. */
	assert_int_equal(stat(one, &st), 0);
	assert_int_equal(truncate(one, st.st_size + 64L * MIB), 0);
	for (int i = 1; i < MODELS; i++) {
		(void)snprintf(path, sizeof path, ".lmstudio/models/P%d/R/Model-%d.gguf", i % 9, i);
		*strrchr(path, '/') = 0;
		(void)folder(path);
		path[strlen(path)] = '/';
		assert_int_equal(link(one, in_home(path)), 0);
	}
	unsigned long long before = bytes_read();
	look();
	assert_int_equal(list.count, MODELS);
	assert_true(bytes_read() - before < MODELS * 256ull); /* the first bytes of each */
	before = bytes_read();
	for (size_t i = 0; i < list.count; i++)
		if (model_glance(list.models[i].path, &e))
			fail_msg("%s", e.text);
	/* Once for the keys and once for the plan's tensors, a MiB at a time. */
	assert_true(bytes_read() - before < MODELS * (2ull * MIB + 4096));
	library_free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_manifest_names_its_layers),
		TEST(a_manifest_that_cannot_be_used_is_refused_with_its_reason),
		TEST(a_manifest_leads_to_its_weights),
		TEST(params_become_defaults),
		TEST(params_are_an_object),
		TEST(stop_texts_become_lines),
		TEST(sessions_begin_with_what_a_manifest_says),
		TEST(a_form_is_known_by_its_marks),
		TEST(forms_write_conversations),
		TEST(a_template_of_no_known_form_is_refused_unless_the_file_has_its_own),
		TEST(each_program_s_models_have_their_names),
		TEST(a_file_in_parts_is_one_model),
		TEST(a_hub_s_cache_shows_its_revisions),
		TEST(equal_names_get_their_publisher_s),
		TEST(variables_say_where_models_are),
		TEST(stores_go_to_the_cache_folder),
		TEST(a_store_that_was_made_beside_a_model_is_still_read),
		TEST(two_hundred_models_are_looked_at_by_their_headers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
