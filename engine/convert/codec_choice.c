/* The choice of a codec. A few experts, spread over the model, are coded and decoded again; the
 * device is read from. What decides is how long a layer waits for the experts that it lacks. */
#include "engine/convert/codec_choice.h"

#include "cache/checksum.h"
#include "cache/codec.h"
#include "cache/device.h"
#include "cache/clock.h"
#include "engine/source/source_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 4, DECODERS_MOST = 8 }; /* 8 of them outrun any one device */
static const double decoding_seconds = .03;
/* Decoding takes cores from arithmetic, and the figures are of a moment: a tie is no gain. */
static const double least_gain = 1.05;

/* The records that a layer lacks come one after the other. Coded, the device and the decoding of
 * those that came before go on at once, and the slower of them sets the pace; decoding the last one
 * begins when its read ends, and one thread does it. Seconds for one byte of each record: */
bool codec_pays(const struct codec_figures *f)
{
	if (f->device <= 0 || f->one <= 0 || f->all <= 0)
		return false;
	double reading = f->share / f->device, decoding = 1 / f->all;
	double pace = reading > decoding ? reading : decoding;
	double plain = f->missing / f->device, coded = f->missing * pace + 1 / f->one;
	return plain > least_gain * coded;
}

/* ---- samples ---- */

struct samples {
	size_t record_most;
	uint32_t count;
	uint8_t *stored[SAMPLES];
	size_t bytes[SAMPLES], record_bytes[SAMPLES]; /* stored, and decoded */
};

static void samples_free(struct samples *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		free(s->stored[i]);
}

/* An expert as its record will be: the checkpoint's own numbers, in the plan's order. */
static int read_expert(uint8_t *record, const struct sources *sources, const struct plan *p,
		       uint32_t layer, uint32_t expert, struct err *e)
{
	for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
		const struct tensor_id id = {plan_part_role(part), p->layer_of[layer], expert};
		struct source from;
		int failed = sources_find(sources, id, &from, e);
		if (!failed)
			failed = sources_read(sources, &from, 0, from.rows,
					      record + p->record[layer].part_offset[part], e);
		if (failed)
			return failed;
	}
	return 0;
}

static int take_samples(struct samples *s, const struct sources *sources, const struct plan *p,
			struct err *e)
{
	uint32_t records = p->routed_layers * p->experts;
	*s = (struct samples){.record_most = p->record_bytes};
	uint8_t *record = malloc(p->record_bytes);
	int failed = 0;
	for (uint32_t i = 0; i < SAMPLES && i < records && !failed; i++) {
		/* One from each quarter of the layers, and never the same expert of them. */
		uint32_t layer = (uint32_t)((uint64_t)i * p->routed_layers / SAMPLES);
		uint32_t expert = i * (p->experts / SAMPLES) % p->experts;
		uint8_t *stored = malloc(codec_most(p->record_bytes));
		s->record_bytes[s->count] = p->record[layer].bytes;
		s->stored[s->count++] = stored;
		if (!record || !stored)
			failed = -ENOMEM;
		else
			failed = read_expert(record, sources, p, layer, expert, e);
		if (!failed)
			failed = codec_encode(stored, &s->bytes[i], record, s->record_bytes[i]);
	}
	free(record);
	if (failed == -ENOMEM)
		err_set(e, ENOMEM, "out of memory for coding an expert");
	if (failed)
		samples_free(s);
	return failed;
}

static double share_stored(const struct samples *s)
{
	double bytes = 0, decoded = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		bytes += (double)s->bytes[i];
		decoded += (double)s->record_bytes[i];
	}
	return bytes / decoded;
}

/* ---- speeds ---- */

struct decoder {
	const struct samples *samples;
	uint64_t end_ns;
	double speed; /* the result; 0 if it could not be measured */
	pthread_t thread;
};

/* Of the calling thread, in seconds. */
static double cpu_time(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* cannot fail for this clock */
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What store_unpack_expert does, over and over. The thread's own time counts: a store outlives the
 * neighbours that a core has at this moment. */
static void *decode_samples(void *ctx)
{
	struct decoder *d = ctx;
	const struct samples *s = d->samples;
	uint8_t *record = malloc(s->record_most + CODEC_TEMP);
	double begin = cpu_time(), bytes = 0;
	bool right = record;
	for (uint32_t i = 0; right && (i < s->count || clock_ns() < d->end_ns); i++) {
		uint32_t k = i % s->count;
		volatile uint64_t sum = checksum_of(s->stored[k], s->bytes[k]);
		(void)sum;
		right = !codec_decode(record, s->record_bytes[k], s->stored[k], s->bytes[k],
				      record + s->record_bytes[k]);
		bytes += (double)s->record_bytes[k];
	}
	double seconds = cpu_time() - begin;
	free(record);
	d->speed = right && seconds > 0 ? bytes / seconds : 0;
	return NULL;
}

/* Bytes of records per second of several threads, which share caches and memory; 0 if that cannot
 * be measured. */
static double decode_speed(const struct samples *s, uint32_t threads)
{
	struct decoder d[DECODERS_MOST];
	uint32_t started = 0;
	uint64_t end = clock_ns() + (uint64_t)(decoding_seconds * 1e9);
	double speed = 0;
	for (; started < threads; started++) {
		d[started] = (struct decoder){.samples = s, .end_ns = end};
		if (pthread_create(&d[started].thread, NULL, decode_samples, &d[started]))
			break;
	}
	for (uint32_t i = 0; i < started; i++) {
		pthread_join(d[i].thread, NULL);
		speed += d[i].speed;
	}
	return speed;
}

/* ---- the device ---- */

static bool is_shard(const char *name)
{
	static const char suffix[] = ".safetensors";
	size_t n = strlen(name), end = sizeof suffix - 1;
	return n > end && !strcmp(name + n - end, suffix);
}

/* The largest data file of a checkpoint's folder that lies on that device. */
static bool largest_shard(const char *directory, dev_t device, char *path, size_t size)
{
	off_t largest = 0;
	DIR *d = opendir(directory);
	for (struct dirent *x; d && (x = readdir(d));) {
		struct stat st;
		if (!is_shard(x->d_name) || fstatat(dirfd(d), x->d_name, &st, 0) ||
		    st.st_dev != device || st.st_size <= largest)
			continue;
		if (snprintf(path, size, "%s/%s", directory, x->d_name) < (int)size)
			largest = st.st_size;
	}
	if (d)
		closedir(d);
	return largest > 0;
}

/* The same of a source, which may be one file. */
static bool largest_file(const char *source, dev_t device, char *path, size_t size)
{
	struct stat st;
	if (!source_is_file(source))
		return largest_shard(source, device, path, size);
	return !stat(source, &st) && st.st_dev == device &&
	       snprintf(path, size, "%s", source) < (int)size;
}

/* The device of a folder that may yet have to be made: its parent is there. */
static bool device_of(const char *folder, dev_t *device)
{
	char path[4096];
	struct stat st;
	if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path)
		return false;
	bool found = !stat(path, &st);
	char *slash = strrchr(path, '/');
	if (!found && slash) {
		*slash = 0;
		found = !stat(*path ? path : "/", &st);
	}
	*device = found ? st.st_dev : 0;
	return found;
}

static double device_speed(const struct conversion *v)
{
	char path[4096];
	dev_t device;
	bool found = device_of(v->folder, &device) &&
		     largest_file(v->directory, device, path, sizeof path);
	return found ? device_read_speed(path) : 0;
}

/* ---- choosing ---- */

static void choose_by_measurement(struct codec_choice *out, const struct conversion *v,
				  const struct samples *s)
{
	uint32_t half = v->config->experts_per_token / 2;
	struct codec_figures f = {
		.share = share_stored(s),
		.device = device_speed(v),
		.threads = v->threads < DECODERS_MOST ? v->threads : DECODERS_MOST,
		.missing = half > 0 ? half : 1,
	};
	if (f.device <= 0) {
		(void)snprintf(out->words, sizeof out->words, "the device cannot be measured");
		return;
	}
	f.one = decode_speed(s, 1);
	f.all = decode_speed(s, f.threads);
	char instead[32] = ""; /* info/codec has the share of a store that is coded */
	if (codec_pays(&f))
		out->codec = CODEC_ZSTD;
	else
		(void)snprintf(instead, sizeof instead, "zstd would be %.2f, ", f.share);
	(void)snprintf(out->words, sizeof out->words,
		       "%sdevice %.2f GB/s, decoding %.2f GB/s a thread, %.2f by %u", instead,
		       f.device * 1e-9, f.one * 1e-9, f.all * 1e-9, f.threads);
}

/* The codec of the store that is in the folder already, of the same checkpoint and recipe: begun by
 * an interrupted conversion or by another process, or finished by one just now. */
static bool begun_with(const struct conversion *v, const struct recipe *asked,
		       enum recipe_codec *codec)
{
	struct store_key key;
	struct recipe r;
	struct store *finished = NULL;
	/* In this order: a conversion publishes its store before it forgets its journal. */
	if (store_unfinished(v->folder, &key)) {
		if (store_open(&finished, v->folder, NULL, NULL))
			return false;
		key = store_info(finished)->key;
		store_close(finished);
	}
	if (memcmp(key.fingerprint, v->fingerprint, sizeof key.fingerprint) != 0 ||
	    !recipe_from_text(&r, key.recipe) || strcmp(r.quant, asked->quant) != 0 ||
	    (asked->codec != CODEC_AUTO && asked->codec != r.codec))
		return false;
	*codec = r.codec;
	return true;
}

int codec_choose(struct codec_choice *out, const struct conversion *v,
		 const struct sources *sources, const struct plan *p, struct err *e)
{
	const struct recipe *asked = &p->recipe;
	struct samples s;
	*out = (struct codec_choice){.codec = CODEC_NONE};
	if (asked->codec == CODEC_NONE || !recipe_can_code(asked) || !p->record_bytes ||
	    begun_with(v, asked, &out->codec))
		return 0;
	int failed = take_samples(&s, sources, p, e);
	if (failed)
		return failed;
	double records = (double)p->routed_layers * p->experts;
	out->expected_bytes =
		(uint64_t)(share_stored(&s) * (double)plan_records_bytes(p) / records);
	if (asked->codec == CODEC_ZSTD)
		out->codec = CODEC_ZSTD;
	else
		choose_by_measurement(out, v, &s);
	samples_free(&s);
	return 0;
}
