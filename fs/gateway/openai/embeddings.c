/* POST /v1/embeddings: vectors of texts, computed by MODEL/embed.npy. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/openai/openai.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMBEDDINGS_MOST = 2048 }; /* most texts of a request, as in OpenAI's API */

struct embeddings { /* of a request */
	struct http_request *request;
	const char *model;
	struct text texts; /* in the form for embed.npy */
	uint64_t count, tokens;
	uint64_t dimensions; /* number to return of each vector; 0: all */
	bool base64;
	struct text file; /* embed.npy's answer */
	uint64_t rows, width;
};

/* ---- the request ---- */

static int embeddings_add(struct embeddings *x, const char *text, size_t n, struct problem *p)
{
	json_object *ids = NULL;
	if (memchr(text, 0, n))
		return problem_set(p, PROBLEM_INVALID, "input",
				   "\"input\" must not contain NUL characters");
	if (!n)
		return problem_set(p, PROBLEM_INVALID, "input", "\"input\" must not be empty");
	if (tokens_encode(x->request, x->model, text, n, &ids, p))
		return -1;
	x->tokens += json_length(ids);
	json_object_put(ids);
	text_add(&x->texts, text, n);
	text_add(&x->texts, "", 1);
	x->count++;
	return x->texts.failed ? problem_no_memory(p) : 0;
}

/* Adds a text, or the ids of a text. */
static int embeddings_add_one(struct embeddings *x, json_object *one, struct problem *p)
{
	struct text text = {0};
	if (json_object_is_type(one, json_type_string))
		return embeddings_add(x, json_object_get_string(one),
				      (size_t)json_object_get_string_len(one), p);
	if (!json_object_is_type(one, json_type_array))
		return problem_set(p, PROBLEM_INVALID, "input",
				   "\"input\" must be a text, a list of texts, or lists of token "
				   "ids");
	int code = tokens_decode(x->request, x->model, one, &text, p);
	if (!code)
		code = embeddings_add(x, text.length ? text.data : "", text.length, p);
	text_free(&text);
	return code;
}

static int embeddings_take_input(struct embeddings *x, json_object *input, struct problem *p)
{
	size_t count = json_length(input);
	json_object *first = count ? json_object_array_get_idx(input, 0) : NULL;
	bool list = json_object_is_type(input, json_type_array) &&
		    !json_object_is_type(first, json_type_int);
	if (!input)
		return problem_set(p, PROBLEM_INVALID, "input", "\"input\" is missing");
	if (list && (!count || count > EMBEDDINGS_MOST))
		return problem_set(p, PROBLEM_INVALID, "input",
				   "\"input\" must have 1 to %d texts", EMBEDDINGS_MOST);
	int code = list ? 0 : embeddings_add_one(x, input, p);
	for (size_t i = 0; i < count && list && !code; i++)
		code = embeddings_add_one(x, json_object_array_get_idx(input, i), p);
	return code;
}

static int embeddings_read(struct embeddings *x, struct problem *p)
{
	json_object *body = x->request->json;
	const char *form = "float";
	if (openai_model(x->request, &x->model, p) ||
	    field_text(body, "encoding_format", &form, p) < 0 ||
	    field_count(body, "dimensions", 1, INT_MAX, &x->dimensions, p) < 0)
		return -1;
	x->base64 = !strcmp(form, "base64");
	if (!x->base64 && strcmp(form, "float") != 0)
		return problem_set(p, PROBLEM_INVALID, "encoding_format",
				   "\"encoding_format\" must be float or base64");
	return embeddings_take_input(x, json_at(body, "input"), p);
}

/* ---- the file ---- */

/* Reads the head of a two-dimensional NumPy file of F32, as written by embed.npy. */
static int embeddings_read_head(struct embeddings *x, const float **vectors, struct problem *p)
{
	enum { FIXED = 10 };
	const struct text *f = &x->file;
	size_t head = f->length > FIXED ? FIXED + (uint8_t)f->data[8] +
						  256U * (uint8_t)f->data[9]
					: SIZE_MAX;
	const char *shape = head < f->length ? strstr(f->data + FIXED, "'shape': (") : NULL;
	char *end = NULL;
	if (shape) {
		x->rows = strtoull(shape + strlen("'shape': ("), &end, 10);
		x->width = strtoull(end + strspn(end, ", "), NULL, 10);
	}
	if (!shape || x->rows != x->count || !x->width ||
	    (f->length - head) / sizeof **vectors / x->width < x->rows)
		return problem_set(p, PROBLEM_FAILED, NULL, "embed.npy: not the array asked for");
	*vectors = (const float *)(const void *)(f->data + head);
	if (x->dimensions > x->width)
		return problem_set(p, PROBLEM_INVALID, "dimensions",
				   "\"dimensions\": this model's embeddings have %ju",
				   (uintmax_t)x->width);
	return 0;
}

/* ---- the answer ---- */

/* The first dimensions of a vector, normalised to the whole vector's length if there are fewer. */
static void embeddings_shorten(const struct embeddings *x, const float *vector, float *to)
{
	double whole = 0, part = 0;
	for (uint64_t i = 0; i < x->width; i++) {
		whole += (double)vector[i] * vector[i];
		part += i < x->dimensions ? (double)vector[i] * vector[i] : 0;
	}
	double by = x->dimensions < x->width && part > 0 ? sqrt(whole / part) : 1;
	for (uint64_t i = 0; i < x->dimensions; i++)
		to[i] = (float)(vector[i] * by);
}

static json_object *embeddings_base64(const void *bytes, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789+/";
	const uint8_t *from = bytes;
	char *out = malloc((n + 2) / 3 * 4), *to = out;
	if (!out)
		return NULL;
	for (size_t i = 0; i < n; i += 3) {
		uint32_t three = (uint32_t)from[i] << 16 | (i + 1 < n ? from[i + 1] << 8 : 0) |
				 (i + 2 < n ? from[i + 2] : 0);
		for (int k = 0; k < 4; k++)
			*to++ = i + (size_t)k <= n ? digits[three >> (18 - 6 * k) & 63] : '=';
	}
	json_object *text = json_object_new_string_len(out, (int)(to - out));
	free(out);
	return text;
}

static json_object *embeddings_list(const float *vector, uint64_t n)
{
	json_object *list = json_object_new_array();
	char number[32];
	for (uint64_t i = 0; i < n; i++) {
		(void)snprintf(number, sizeof number, "%.9g", vector[i]);
		json_object_array_add(list, json_object_new_double_s(vector[i], number));
	}
	return list;
}

static int embeddings_write(struct embeddings *x, const float *vectors, json_object **out,
			    struct problem *p)
{
	x->dimensions = x->dimensions ? x->dimensions : x->width;
	float *one = malloc(x->dimensions * sizeof *one);
	json_object *data = json_object_new_array();
	if (!one) {
		json_object_put(data);
		return problem_no_memory(p);
	}
	for (uint64_t i = 0; i < x->rows; i++) {
		embeddings_shorten(x, vectors + i * x->width, one);
		json_object *vector = x->base64
					      ? embeddings_base64(one, x->dimensions * sizeof *one)
					      : embeddings_list(one, x->dimensions);
		json_object_array_add(data, json_new("object=embedding index=%ju embedding=%p",
						     (uintmax_t)i, vector));
	}
	free(one);
	*out = json_new("object=list data=%p model=%s usage=%p", data, x->model,
			json_new("prompt_tokens=%ju total_tokens=%ju", (uintmax_t)x->tokens,
				 (uintmax_t)x->tokens));
	return 0;
}

enum MHD_Result embeddings_create(struct http_request *r)
{
	struct embeddings x = {.request = r};
	struct problem p = {0};
	const float *vectors = NULL;
	json_object *out = NULL;
	int code = embeddings_read(&x, &p);
	if (!code)
		code = turn_enter(r, &p);
	if (!code) {
		code = tokens_embed(r, x.model, &x.texts, &x.file, &p);
		gate_leave(r->gateway->gate, r->key);
	}
	if (!code)
		code = embeddings_read_head(&x, &vectors, &p);
	if (!code)
		code = embeddings_write(&x, vectors, &out, &p);
	text_free(&x.texts);
	text_free(&x.file);
	return code ? reply_problem(r, &p) : reply_json(r, MHD_HTTP_OK, out);
}
