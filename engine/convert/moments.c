#include "engine/convert/moments.h"
#include "cache/checksum.h"
#include "cache/store_files.h"
#include "kernels/watch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 2 }; /* version 1 counted look-ahead among the inputs of routers; it is not read */
static const char magic[8] = "moefs\nMO", file_name[] = "moments", partial[] = "moments.new";

struct moments_header {
	char magic[8];
	uint32_t version, count;
	struct moments_key key;
	struct store_digest plan;
	uint64_t bytes; /* of the file */
	struct moments_read read;
};

struct moments_entry {
	uint32_t role, layer, expert, cols;
	uint32_t block; /* columns whose pairs are all summed */
	uint32_t unused;
	uint64_t tokens;
	uint64_t at; /* offset of its sums in the file */
};

struct moments {
	const struct plan *plan;
	uint32_t
		*of_layer; /* [layers + 1][TENSOR_ROLES]: entry + 1; the last row is the output's */
	uint32_t *of_expert;   /* [routed layers][experts][2]: of gate and up, of down */
	uint32_t pairs;	       /* columns of a block, at most */
	uint32_t expert_pairs; /* the same of experts' own sums; 0: they have none */
	struct moments_header *file;
	struct moments_entry *entry;
	bool counting; /* no file yet: entries are only counted */
	uint32_t count;
	uint64_t bytes;
};

/* ---- the list of sums ---- */

/* The first of the roles that have the same input. */
static enum tensor_role moments_first_role(const struct moments *m, enum tensor_role role)
{
	static const uint8_t first[TENSOR_ROLES] = {
		[TENSOR_K] = TENSOR_Q,
		[TENSOR_V] = TENSOR_Q,
		[TENSOR_DELTA_Z] = TENSOR_DELTA_QKV,
		[TENSOR_KIMI_K] = TENSOR_KIMI_Q,
		[TENSOR_KIMI_V] = TENSOR_KIMI_Q,
		[TENSOR_MAMBA_XBC] = TENSOR_MAMBA_Z,
		[TENSOR_UP] = TENSOR_GATE,
		[TENSOR_SHARED_UP] = TENSOR_SHARED_GATE,
		[TENSOR_EXPERT_UP] = TENSOR_EXPERT_GATE,
	};
	bool up = role == TENSOR_UP || role == TENSOR_SHARED_UP || role == TENSOR_EXPERT_UP;
	if (!first[role] || (up && m->plan->first_part > 0)) /* without a gate up is the first */
		return role;
	return (enum tensor_role)first[role];
}

bool moments_counts(const struct moments *m, enum tensor_role role)
{
	return moments_first_role(m, role) == role;
}

static bool moments_rounds(const struct shape *s)
{
	return format_tq_bits(s->format) != 0;
}

static uint32_t *moments_place(const struct moments *m, struct tensor_id id)
{
	enum tensor_role role = moments_first_role(m, id.role);
	const struct plan *p = m->plan;
	if (tensor_roles[role].place == PLACE_EXPERT && id.expert != MOMENTS_ALL) {
		uint32_t routed = p->routed_of[id.layer];
		return &m->of_expert[((size_t)routed * p->experts + id.expert) * 2 +
				     (role == TENSOR_EXPERT_DOWN)];
	}
	bool of_layer =
		tensor_roles[role].place == PLACE_LAYER || tensor_roles[role].place == PLACE_EXPERT;
	return &m->of_layer[(size_t)(of_layer ? id.layer : p->layers) * TENSOR_ROLES + role];
}

static uint64_t moments_triangle(uint64_t n)
{
	return n * (n + 1) / 2;
}

static uint64_t moments_floats(uint32_t cols, uint32_t block)
{
	uint32_t rest = cols % block;
	return cols / block * moments_triangle(block) + moments_triangle(rest);
}

/* Adds an entry for a tensor's input, unless there is one. */
static void moments_list(struct moments *m, struct tensor_id id, uint32_t cols, uint32_t pairs)
{
	uint32_t *place = moments_place(m, id), block = pairs < cols ? pairs : cols;
	if (*place && m->counting)
		return;
	if (m->counting) {
		*place = ++m->count;
		m->bytes += moments_floats(cols, block) * sizeof(float);
		return;
	}
	struct moments_entry *e = &m->entry[*place - 1];
	if (e->cols)
		return;
	*e = (struct moments_entry){
		.role = moments_first_role(m, id.role),
		.layer = id.layer,
		.expert = id.expert,
		.cols = cols,
		.block = block,
		.at = m->bytes,
	};
	m->bytes += moments_floats(cols, block) * sizeof(float);
}

static void moments_list_record(struct moments *m, uint32_t routed)
{
	const struct plan *p = m->plan;
	for (uint32_t part = p->first_part; part < EXPERT_PARTS; part++) {
		const struct shape *s = &p->record[routed].part[part];
		struct tensor_id id = {plan_part_role(part), p->layer_of[routed], MOMENTS_ALL};
		if (!moments_rounds(s))
			continue;
		moments_list(m, id, s->cols, m->pairs);
		for (id.expert = 0; id.expert < p->experts && m->expert_pairs; id.expert++)
			moments_list(m, id, s->cols, m->expert_pairs);
	}
}

static void moments_list_all(struct moments *m)
{
	const struct plan *p = m->plan;
	for (uint32_t i = 0; i < p->dense_count; i++)
		if (moments_rounds(&p->dense[i].shape))
			moments_list(m, p->dense[i].id, p->dense[i].shape.cols, m->pairs);
	for (uint32_t routed = 0; routed < p->routed_layers; routed++)
		moments_list_record(m, routed);
}

/* ---- life ---- */

static void moments_count(struct moments *m)
{
	const struct plan *p = m->plan;
	memset(m->of_layer, 0, (size_t)(p->layers + 1) * TENSOR_ROLES * sizeof *m->of_layer);
	memset(m->of_expert, 0,
	       ((size_t)p->routed_layers * p->experts * 2 + 1) * sizeof *m->of_expert);
	m->count = 0;
	m->bytes = 0;
	m->counting = true;
	moments_list_all(m);
	m->counting = false;
	m->bytes += sizeof *m->file + m->count * sizeof *m->entry + sizeof(uint64_t);
}

/* The most columns of a block. Rounding a block of n columns (rounding.h) takes a few matrices of
 * n² numbers per thread (4 MiB each at most) and time of order n³. */
enum { MOST_BLOCK = 8 * TQ_GROUP };

/* Chooses the largest blocks for which all sums fit into `most` bytes. */
static int moments_choose(struct moments *m, uint64_t most, struct err *e)
{
	static const uint32_t pairs[][2] = {
		{MOST_BLOCK, MOST_BLOCK},
		{MOST_BLOCK, TQ_GROUP},
		{MOST_BLOCK, 1},
		{TQ_GROUP, TQ_GROUP},
		{TQ_GROUP, 1},
		{TQ_GROUP, 0},
		{1, 1},
		{1, 0},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		m->pairs = pairs[i][0];
		m->expert_pairs = pairs[i][1];
		moments_count(m);
		if (m->bytes <= most)
			return 0;
	}
	return err_set(e, ENOMEM,
		       "the moments of this model's inputs take %llu bytes; %llu are allowed",
		       (unsigned long long)m->bytes, (unsigned long long)most);
}

static int moments_make_file(struct moments *m, const struct moments_key *key, struct err *e)
{
	uint64_t bytes = m->bytes;
	m->file = calloc(1, bytes);
	if (!m->file)
		return err_set(e, ENOMEM, "out of memory for the moments of a model's inputs");
	*m->file = (struct moments_header){
		.version = VERSION,
		.count = m->count,
		.key = *key,
		.plan = m->plan->digest,
		.bytes = bytes,
	};
	memcpy(m->file->magic, magic, sizeof magic);
	m->entry = (struct moments_entry *)(void *)(m->file + 1);
	m->bytes = sizeof *m->file + m->count * sizeof *m->entry;
	moments_list_all(m);
	m->bytes = bytes;
	return 0;
}

int moments_create(struct moments **out, const struct plan *p, const struct moments_key *key,
		   uint64_t most, struct err *e)
{
	struct moments *m = calloc(1, sizeof *m);
	*out = m;
	if (!m)
		return err_set(e, ENOMEM, "out of memory for the moments of a model's inputs");
	m->plan = p;
	m->of_layer = calloc((size_t)(p->layers + 1) * TENSOR_ROLES, sizeof *m->of_layer);
	m->of_expert = calloc((size_t)p->routed_layers * p->experts * 2 + 1, sizeof *m->of_expert);
	int failed =
		m->of_layer && m->of_expert
			? moments_choose(m, most, e)
			: err_set(e, ENOMEM, "out of memory for the moments of a model's inputs");
	if (!failed)
		failed = moments_make_file(m, key, e);
	if (!failed)
		return 0;
	moments_free(m);
	*out = NULL;
	return failed;
}

void moments_free(struct moments *m)
{
	if (!m)
		return;
	free(m->of_layer);
	free(m->of_expert);
	free(m->file);
	free(m);
}

uint64_t moments_bytes(const struct moments *m)
{
	return m->bytes;
}

/* ---- adding ---- */

int64_t moments_find(const struct moments *m, struct tensor_id id)
{
	return (int64_t)*moments_place(m, id) - 1;
}

uint32_t moments_cols(const struct moments *m, int64_t sum)
{
	return m->entry[sum].cols;
}

uint64_t moments_tokens(const struct moments *m, int64_t sum)
{
	return m->entry[sum].tokens;
}

/* Row i of a sum, from column i to the last of its block. */
static float *moments_row(const struct moments *m, const struct moments_entry *s, uint32_t i,
			  uint32_t *end)
{
	uint32_t first = i / s->block * s->block, in = i - first;
	uint32_t width = s->cols - first < s->block ? s->cols - first : s->block;
	uint64_t at = first / s->block * moments_triangle(s->block) + moments_triangle(width) -
		      moments_triangle(width - in);
	*end = first + width;
	return (float *)(void *)((uint8_t *)m->file + s->at) + at;
}

void moments_add(struct moments *m, const struct kernels *k, int64_t sum, const float *x,
		 const uint32_t *rows, uint32_t n, uint32_t begin, uint32_t end)
{
	struct moments_entry *s = &m->entry[sum];
	if (!begin)
		s->tokens += n;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t last;
		float *to = moments_row(m, s, i, &last);
		for (uint32_t t = 0; t < n; t++) {
			const float *from = x + (size_t)(rows ? rows[t] : t) * s->cols;
			watch_add_scaled(k, to, from[i], from + i, last - i);
		}
	}
}

/* ---- weighing ---- */

/* An expert's own moments are mixed with those of its layer, as if the expert had met this many
 * more tokens: with fewer tokens than columns, its own moments know nothing about most directions.
 */
static const double prior_tokens = 64;

/* The sums of a matrix's inputs: the matrix's, or those of all experts of its layer; and this
 * expert's own. -1: there is none. */
struct moments_known {
	int64_t whole, own;
};

static struct moments_known moments_known(const struct moments *m, struct tensor_id id)
{
	struct tensor_id all = id;
	all.expert = MOMENTS_ALL;
	bool expert = tensor_roles[id.role].place == PLACE_EXPERT;
	return (struct moments_known){moments_find(m, expert ? all : id),
				      expert ? moments_find(m, id) : -1};
}

/* h[n][n] += scale · the sum's columns [first, first + n). Pairs across blocks, which have no sums,
 * stay as they are. */
static void moments_add_sum(const struct moments *m, const struct moments_entry *s, uint32_t first,
			    uint32_t n, float scale, float *h)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t end;
		const float *from = moments_row(m, s, first + i, &end);
		for (uint32_t j = i; j < n && first + j < end; j++) {
			h[(size_t)i * n + j] += scale * from[j - i];
			if (j > i)
				h[(size_t)j * n + i] += scale * from[j - i];
		}
	}
}

bool moments_weigh(const struct moments *m, struct tensor_id id, uint32_t first, uint32_t n,
		   float *h)
{
	memset(h, 0, (size_t)n * n * sizeof *h);
	const struct moments_known k = moments_known(m, id);
	int64_t whole = k.whole, own = k.own;
	if (whole < 0 || !m->entry[whole].tokens)
		return false;
	double prior = own < 0 ? 1 : prior_tokens;
	double tokens = prior + (own < 0 ? 0 : (double)m->entry[own].tokens);
	moments_add_sum(m, &m->entry[whole], first, n,
			(float)(prior / tokens / (double)m->entry[whole].tokens), h);
	if (own >= 0)
		moments_add_sum(m, &m->entry[own], first, n, (float)(1 / tokens), h);
	return true;
}

uint32_t moments_block(const struct moments *m, struct tensor_id id, uint64_t *same)
{
	const struct moments_known k = moments_known(m, id);
	if (k.whole < 0)
		return 0;
	*same = (uint64_t)(k.own < 0 ? k.whole : k.own);
	uint32_t block = m->entry[k.whole].block;
	return block < TQ_GROUP && block < m->entry[k.whole].cols ? TQ_GROUP : block;
}

/* ---- the file ---- */

struct moments_read *moments_read_of(struct moments *m)
{
	return &m->file->read;
}

static uint64_t moments_checksum(const void *file, uint64_t bytes)
{
	return checksum_of(file, bytes - sizeof(uint64_t));
}

uint64_t moments_sum(const struct moments *m)
{
	return moments_checksum(m->file, m->bytes);
}

static int moments_damaged(const char *folder, struct err *e)
{
	return err_set(e, EIO,
		       "%s/%s is damaged: its checksum does not match its content; remove it and "
		       "refine again",
		       folder, file_name);
}

/* True if the file's entries have the roles, places and sizes that follow from the plan. */
static bool moments_same_table(const struct moments *m, const struct moments_entry *read)
{
	for (uint32_t i = 0; i < m->count; i++) {
		struct moments_entry own = m->entry[i];
		own.tokens = read[i].tokens;
		if (memcmp(&own, &read[i], sizeof own) != 0)
			return false;
	}
	return true;
}

int moments_load(struct moments *m, const char *folder, struct err *e)
{
	uint8_t *file;
	size_t bytes;
	uint64_t sum;
	int failed = store_small_file_read(&file, &bytes, m->bytes + 1, folder, file_name, e);
	if (failed)
		return failed;
	const struct moments_header *own = m->file;
	const struct moments_header *h = (const struct moments_header *)(const void *)file;
	if (bytes < sizeof *h || memcmp(h->magic, magic, sizeof magic) != 0)
		failed = moments_damaged(folder, e);
	else if (h->version != VERSION || h->count != own->count || h->bytes != own->bytes ||
		 memcmp(&h->key, &own->key, sizeof h->key) != 0 ||
		 memcmp(&h->plan, &own->plan, sizeof h->plan) != 0)
		failed = err_set(e, ENOENT, "%s/%s is of another text or model", folder, file_name);
	else if (bytes != m->bytes)
		failed = moments_damaged(folder, e);
	if (!failed) {
		memcpy(&sum, file + m->bytes - sizeof sum, sizeof sum);
		const void *table = h + 1;
		if (sum != moments_checksum(file, m->bytes) || !moments_same_table(m, table))
			failed = moments_damaged(folder, e);
	}
	if (!failed) { /* replaces our file: two of them would be twice the memory allowed */
		void *old = m->file;
		m->file = (struct moments_header *)(void *)file;
		m->entry = (struct moments_entry *)(void *)(m->file + 1);
		file = old;
	}
	free(file);
	return failed;
}

int moments_save(struct moments *m, const char *folder, struct err *e)
{
	uint64_t sum = moments_sum(m);
	memcpy((uint8_t *)m->file + m->bytes - sizeof sum, &sum, sizeof sum);
	return store_small_file_write(m->file, m->bytes, folder, file_name, partial, e);
}
