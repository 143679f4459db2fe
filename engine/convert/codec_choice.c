/* Chooses the codec for a new store. Compresses and decompresses a few experts from all parts of
 * the model, and measures the device's reading speed. The choice is the codec with which a layer
 * waits less for missing experts. */
#include "cache/checksum.h"
#include "cache/clock.h"
#include "cache/codec.h"
#include "cache/device.h"
#include "engine/convert/convert_inside.h"
#include "engine/source/source_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 4, DECODERS_MOST = 8 }; /* 8 decoders are faster than any single device */
static const double decoding_seconds = .03;
/* A small gain does not count: decoding takes cores from computing, and a measurement covers only a
 * moment. */
static const double least_gain = 1.05;

/* Missing records of a layer are read one after the other. If they are compressed, the device reads
 * the next record while earlier ones are decoded, and the slower of the two determines the time.
 * Decoding the last record begins when its read ends, and one thread does it. All times are in
 * seconds per byte of each record. */
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

struct codec_samples {
	size_t record_most;
	uint32_t count;
	uint8_t *stored[SAMPLES];
	size_t bytes[SAMPLES], record_bytes[SAMPLES]; /* compressed and decoded sizes */
};

static void codec_free_samples(struct codec_samples *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		free(s->stored[i]);
}

/* Reads an expert as its record will be: the checkpoint's own numbers, in the plan's order. */
static int codec_read_record(uint8_t *record, const struct sources *sources, const struct plan *p,
			     uint32_t layer, uint32_t expert, struct err *e)
{
	int failed = 0;
	for (uint32_t part = p->first_part; part < EXPERT_PARTS && !failed; part++) {
		struct source from;
		failed = sources_find(sources, plan_part_id(p, layer * p->experts + expert, part),
				      &from, e);
		if (!failed)
			failed = sources_read(sources, &from, 0, from.rows,
					      record + p->record[layer].part_offset[part], e);
	}
	return failed;
}

static int codec_take_samples(struct codec_samples *s, const struct sources *sources,
			      const struct plan *p, struct err *e)
{
	uint32_t records = plan_records(p);
	*s = (struct codec_samples){.record_most = p->record_bytes};
	uint8_t *record = malloc(p->record_bytes);
	int failed = 0;
	for (uint32_t i = 0; i < SAMPLES && i < records && !failed; i++) {
		/* A different expert from each quarter of the layers. */
		uint32_t layer = (uint32_t)((uint64_t)i * p->routed_layers / SAMPLES);
		uint32_t expert = i * (p->experts / SAMPLES) % p->experts;
		uint8_t *stored = malloc(codec_most(p->record_bytes));
		s->record_bytes[s->count] = p->record[layer].bytes;
		s->stored[s->count++] = stored;
		if (!record || !stored)
			failed = -ENOMEM;
		else
			failed = codec_read_record(record, sources, p, layer, expert, e);
		if (!failed)
			failed = codec_encode(stored, &s->bytes[i], record, s->record_bytes[i]);
	}
	free(record);
	if (failed == -ENOMEM)
		err_set(e, ENOMEM, "out of memory for coding an expert");
	if (failed)
		codec_free_samples(s);
	return failed;
}

static double codec_share(const struct codec_samples *s)
{
	double bytes = 0, decoded = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		bytes += (double)s->bytes[i];
		decoded += (double)s->record_bytes[i];
	}
	return bytes / decoded;
}

/* ---- speeds ---- */

struct codec_decoder {
	const struct codec_samples *samples;
	uint64_t end_ns;
	double speed; /* the result; 0 if it could not be measured */
	pthread_t thread;
};

/* Processor time of the calling thread in seconds. */
static double codec_cpu_time(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* cannot fail for this clock */
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Decodes samples like store_unpack_expert. Measures the thread's own processor time, since other
 * processes may use the core now but not later. */
static void *codec_decode_samples(void *ctx)
{
	struct codec_decoder *d = ctx;
	const struct codec_samples *s = d->samples;
	uint8_t *record = malloc(s->record_most + CODEC_TEMP);
	double begin = codec_cpu_time(), bytes = 0;
	bool right = record;
	for (uint32_t i = 0; right && (i < s->count || clock_ns() < d->end_ns); i++) {
		uint32_t k = i % s->count;
		volatile uint64_t sum = checksum_of(s->stored[k], s->bytes[k]);
		(void)sum;
		right = !codec_decode(record, s->record_bytes[k], s->stored[k], s->bytes[k],
				      record + s->record_bytes[k]);
		bytes += (double)s->record_bytes[k];
	}
	double seconds = codec_cpu_time() - begin;
	free(record);
	d->speed = right && seconds > 0 ? bytes / seconds : 0;
	return NULL;
}

/* Decoding speed of several threads, which share caches and memory, in bytes of records per second;
 * 0: could not be measured. */
static double codec_decode_speed(const struct codec_samples *s, uint32_t threads)
{
	struct codec_decoder d[DECODERS_MOST];
	uint32_t started = 0;
	uint64_t end = clock_ns() + (uint64_t)(decoding_seconds * 1e9);
	double speed = 0;
	for (; started < threads; started++) {
		d[started] = (struct codec_decoder){.samples = s, .end_ns = end};
		if (pthread_create(&d[started].thread, NULL, codec_decode_samples, &d[started]))
			break;
	}
	for (uint32_t i = 0; i < started; i++) {
		pthread_join(d[i].thread, NULL);
		speed += d[i].speed;
	}
	return speed;
}

/* ---- the device ---- */

/* Finds the largest file of weights of a source that is on this device. */
static bool codec_largest_file(const char *source, dev_t device, char *path, size_t size)
{
	struct stat st;
	off_t largest = 0;
	if (source_is_file(source))
		return !stat(source, &st) && st.st_dev == device &&
		       snprintf(path, size, "%s", source) < (int)size;
	DIR *d = opendir(source);
	for (struct dirent *x; d && (x = readdir(d));) {
		if (!source_stem(x->d_name, ".safetensors") ||
		    fstatat(dirfd(d), x->d_name, &st, 0) || st.st_dev != device ||
		    st.st_size <= largest)
			continue;
		if (snprintf(path, size, "%s/%s", source, x->d_name) < (int)size)
			largest = st.st_size;
	}
	if (d)
		closedir(d);
	return largest > 0;
}

/* The device of a folder, or of its parent if the folder does not exist yet. */
static bool codec_device_of(const char *folder, dev_t *device)
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

/* ---- choosing ---- */

static void codec_measure(struct codec_choice *out, const struct conversion *v,
			  const struct codec_samples *s)
{
	char path[4096];
	dev_t device;
	uint32_t half = v->config->experts_per_token / 2;
	bool found = codec_device_of(v->folder, &device) &&
		     codec_largest_file(v->directory, device, path, sizeof path);
	struct codec_figures f = {
		.share = codec_share(s),
		.device = found ? device_read_speed(path) : 0,
		.threads = v->threads < DECODERS_MOST ? v->threads : DECODERS_MOST,
		.missing = half > 0 ? half : 1,
	};
	if (f.device <= 0) {
		(void)snprintf(out->words, sizeof out->words, "the device cannot be measured");
		return;
	}
	f.one = codec_decode_speed(s, 1);
	f.all = codec_decode_speed(s, f.threads);
	char instead[32] = ""; /* for a compressed store, info/codec shows the measured share */
	if (codec_pays(&f))
		out->codec = CODEC_ZSTD;
	else
		(void)snprintf(instead, sizeof instead, "zstd would be %.2f, ", f.share);
	(void)snprintf(out->words, sizeof out->words,
		       "%sdevice %.2f GB/s, decoding %.2f GB/s a thread, %.2f by %u", instead,
		       f.device * 1e-9, f.one * 1e-9, f.all * 1e-9, f.threads);
}

/* The codec of a store of the same checkpoint and recipe that is already in the folder: begun by an
 * interrupted conversion or by another process, or just finished. */
static bool codec_begun_with(const struct conversion *v, const struct recipe *asked,
			     enum recipe_codec *codec)
{
	struct store_key key;
	struct recipe r;
	struct store *finished = NULL;
	/* The order matters: a conversion publishes its store before it removes its journal. */
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
	struct codec_samples s;
	*out = (struct codec_choice){.codec = CODEC_NONE};
	if (asked->codec == CODEC_NONE || !recipe_can_code(asked) || !p->record_bytes ||
	    codec_begun_with(v, asked, &out->codec))
		return 0;
	int failed = codec_take_samples(&s, sources, p, e);
	if (failed)
		return failed;
	out->expected_bytes = (uint64_t)(codec_share(&s) * (double)plan_records_bytes(p) /
					 (double)plan_records(p));
	if (asked->codec == CODEC_ZSTD)
		out->codec = CODEC_ZSTD;
	else
		codec_measure(out, v, &s);
	codec_free_samples(&s);
	return 0;
}
