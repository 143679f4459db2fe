/* libFuzzer on a checkpoint whose tensors belong together (codes and their scales): whatever its
 * header and its config.json contain, it is refused with a sentence, or every tensor can be read
 * completely from places in the file.
 *
 * An input is the number of bytes of data, a newline, config.json, a newline, and the header. */
#include "engine/source/package.h"
#include "tests/fuzz/folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DATA_MOST = 1 << 14, HEADER_MOST = 1 << 14 };

struct input {
	size_t data_bytes;
	const uint8_t *config, *header;
	size_t config_bytes, header_bytes;
};

static bool divide(struct input *in, const uint8_t *data, size_t size)
{
	const uint8_t *first = memchr(data, '\n', size), *end = data + size;
	const uint8_t *second = first ? memchr(first + 1, '\n', (size_t)(end - first - 1)) : NULL;
	if (!second || end - second > HEADER_MOST)
		return false;
	*in = (struct input){.config = first + 1,
			     .config_bytes = (size_t)(second - first - 1),
			     .header = second + 1,
			     .header_bytes = (size_t)(end - second - 1)};
	for (const uint8_t *d = data; d < first; d++)
		in->data_bytes = (in->data_bytes * 10 + (*d & 15)) % DATA_MOST;
	return true;
}

static void write_checkpoint(const struct input *in, const char *folder)
{
	static uint8_t file[8 + HEADER_MOST + DATA_MOST];
	for (int i = 0; i < 8; i++)
		file[i] = (uint8_t)((uint64_t)in->header_bytes >> 8 * i);
	memcpy(file + 8, in->header, in->header_bytes);
	for (size_t i = 0; i < in->data_bytes; i++)
		file[8 + in->header_bytes + i] = (uint8_t)(i * 41);
	file_write(folder, "config.json", in->config, in->config_bytes);
	file_write(folder, "model.safetensors", file, 8 + in->header_bytes + in->data_bytes);
}

static void check_places(const struct package *p, const struct package_tensor *t, uint64_t rows)
{
	for (uint32_t i = 0; i < t->parts; i++) {
		struct package_place at = package_place(t, i, 0, (uint32_t)rows);
		uint64_t bytes = files_bytes(package_files(p), at.file);
		if (at.offset > bytes || at.bytes > bytes - at.offset)
			abort();
	}
}

static void read_tensor(const struct package *p, const struct package_tensor *t)
{
	struct err e = {0};
	uint64_t rows = package_rows(t), cols = t->dims ? t->shape[t->dims - 1] : 1;
	if (!t->parts || !rows || !cols)
		return;
	/* No number takes less than two bits of a file. */
	if (rows > 4 * DATA_MOST || cols > 4 * DATA_MOST / rows ||
	    !package_fits(t, t->shape, t->dims))
		abort();
	check_places(p, t, rows);
	float *out = malloc(rows * cols * sizeof *out);
	if (package_read(p, t, 0, (uint32_t)rows, (uint32_t)cols, out, &e))
		abort();
	if (package_read(p, t, rows - 1, 1, (uint32_t)cols, out, &e))
		abort();
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in;
	struct package *p;
	struct err e = {0};
	if (!divide(&in, data, size))
		return 0;
	const char *folder = folder_path();
	write_checkpoint(&in, folder);
	int failed = package_open(&p, folder, &e);
	if (failed && (e.code != -failed || !e.text[0]))
		abort();
	for (size_t i = 0; !failed && i < package_count(p); i++)
		read_tensor(p, package_tensor(p, i));
	if (!failed)
		package_close(p);
	return 0;
}
