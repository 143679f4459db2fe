#include "cache/heat.h"

#include "cache/io.h"
#include "cache/store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define HEAT "heat"
#define HEAT_NEW HEAT STORE_PARTIAL

struct heat_head {
	char magic[8], policy[16];
	uint32_t layers, experts;
	uint64_t checksum; /* of the floats */
};
_Static_assert(sizeof(struct heat_head) == HEAT_HEAD, "it is the head as it is in the file");
static const char heat_magic[8] = "MOEHEAT1";

static size_t float_bytes(const struct heat_of *of)
{
	return (size_t)of->layers * of->experts * sizeof(float);
}

static struct heat_head head_of(const struct heat_of *of, const void *floats)
{
	struct heat_head h = {.layers = of->layers, .experts = of->experts};
	memcpy(h.magic, heat_magic, sizeof h.magic);
	strncpy(h.policy, of->policy, sizeof h.policy - 1);
	h.checksum = XXH3_64bits(floats, float_bytes(of));
	return h;
}

int heat_decode(float *heat, const struct heat_of *of, const uint8_t *in, size_t bytes,
		const char *folder, struct err *e)
{
	size_t need = float_bytes(of);
	if (bytes < HEAT_HEAD || bytes - HEAT_HEAD < need)
		return err_set(e, EIO, "%s/" HEAT ": is cut short", folder);
	struct heat_head h, right = head_of(of, in + HEAT_HEAD);
	memcpy(&h, in, sizeof h);
	if (memcmp(&h, &right, offsetof(struct heat_head, checksum)) != 0)
		return err_set(e, ENOENT, "%s/" HEAT ": of another model or policy", folder);
	if (h.checksum != right.checksum)
		return err_set(e, EIO, "%s/" HEAT ": is damaged", folder);
	memcpy(heat, in + HEAT_HEAD, need);
	for (size_t i = 0; i < need / sizeof *heat; i++)
		heat[i] = isfinite(heat[i]) && heat[i] > 0 ? fminf(heat[i], HEAT_MOST) : 0;
	return 0;
}

static int read_file(float *heat, const struct heat_of *of, int dir, const char *folder,
		     struct err *e)
{
	int fd = store_file_open(dir, folder, HEAT, O_RDONLY, e);
	if (fd < 0)
		return fd;
	size_t most = HEAT_HEAD + float_bytes(of);
	int64_t size = store_file_size(fd, folder, HEAT, e);
	int failed = size < 0 ? (int)size : 0;
	size_t bytes = (uint64_t)size < most ? (size_t)size : most;
	uint8_t *in = failed ? NULL : malloc(most);
	if (!failed && !in)
		failed = err_sys(e, ENOMEM, "%s/" HEAT, folder);
	if (!failed)
		failed = store_file_read(fd, in, bytes, 0, folder, HEAT, e);
	if (!failed)
		failed = heat_decode(heat, of, in, bytes, folder, e);
	free(in);
	close(fd);
	return failed;
}

int heat_read(float *heat, const struct heat_of *of, const char *folder, struct err *e)
{
	int dir = store_folder_open(folder, e);
	if (dir < 0)
		return dir;
	int failed = read_file(heat, of, dir, folder, e);
	close(dir);
	return failed;
}

static int write_file(const float *heat, const struct heat_of *of, int dir, const char *folder,
		      struct err *e)
{
	const struct heat_head h = head_of(of, heat);
	int fd = store_file_open(dir, folder, HEAT_NEW, O_RDWR | O_CREAT | O_TRUNC, e);
	if (fd < 0)
		return fd;
	int failed = store_file_write(fd, &h, sizeof h, 0, folder, HEAT_NEW, e);
	if (!failed)
		failed = store_file_write(fd, heat, float_bytes(of), sizeof h, folder, HEAT_NEW, e);
	close(fd);
	if (!failed && (failed = io_rename(dir, HEAT_NEW, HEAT)))
		failed = err_sys(e, -failed, "%s/" HEAT ": cannot be written", folder);
	if (failed)
		(void)io_remove(dir, HEAT_NEW); /* else the next attempt begins it anew */
	return failed;
}

int heat_write(const float *heat, const struct heat_of *of, const char *folder, struct err *e)
{
	int dir = store_folder_open(folder, e);
	if (dir < 0)
		return dir;
	int failed = write_file(heat, of, dir, folder, e);
	close(dir);
	return failed;
}
