#include "engine/source/files.h"

#include "cache/checksum.h"
#include "engine/source/source_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct open_file {
	char *path;
	int fd;
	uint64_t bytes;
};

struct files {
	char *folder;
	struct open_file *file;
	uint32_t count, room;
	files_note *note; /* NULL: nobody hears of what is read */
	void *note_ctx;
};

/* ---- opening ---- */

int files_create(struct files **out, const char *folder, struct err *e)
{
	struct files *f = calloc(1, sizeof *f);
	if (f)
		f->folder = strdup(folder);
	*out = f;
	if (f && f->folder)
		return 0;
	files_close(f);
	*out = NULL;
	return err_set(e, ENOMEM, "%s: out of memory for its list of files", folder);
}

void files_close(struct files *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->count; i++) {
		if (f->file[i].fd >= 0)
			close(f->file[i].fd);
		free(f->file[i].path);
	}
	free(f->file);
	free(f->folder);
	free(f);
}

static int files_make_room(struct files *f, struct err *e)
{
	if (f->count == FILES_MOST)
		return err_set(e, EINVAL, "%s: more than %d files of tensors", f->folder,
			       FILES_MOST);
	if (f->count < f->room)
		return 0;
	uint32_t room = f->room ? 2 * f->room : 8;
	struct open_file *larger = realloc(f->file, room * sizeof *larger);
	if (!larger)
		return err_set(e, ENOMEM, "%s: out of memory for its list of files", f->folder);
	f->file = larger;
	f->room = room;
	return 0;
}

int files_open(struct files *f, const char *name, uint32_t *number, struct err *e)
{
	if (!*name || strchr(name, '/') || !strcmp(name, "..") || !strcmp(name, "."))
		return err_set(e, EINVAL,
			       "%s: the index names a file outside the checkpoint: %.128s",
			       f->folder, name);
	for (*number = 0; *number < f->count; ++*number)
		if (!strcmp(files_name(f, *number), name))
			return 0;
	int failed = files_make_room(f, e);
	if (failed)
		return failed;
	struct open_file *new = &f->file[f->count];
	*new = (struct open_file){.fd = -1, .path = source_file_path(f->folder, name)};
	if (!new->path)
		return err_set(e, ENOMEM, "out of memory for the name of a file");
	f->count++;
	new->fd = source_file_open(new->path, &new->bytes, e);
	return new->fd < 0 ? new->fd : 0;
}

/* ---- what is open ---- */

uint32_t files_count(const struct files *f)
{
	return f->count;
}

const char *files_path(const struct files *f, uint32_t number)
{
	return f->file[number].path;
}

const char *files_name(const struct files *f, uint32_t number)
{
	return strrchr(f->file[number].path, '/') + 1;
}

uint64_t files_bytes(const struct files *f, uint32_t number)
{
	return f->file[number].bytes;
}

int files_descriptor(const struct files *f, uint32_t number)
{
	return f->file[number].fd;
}

int files_stat(const struct files *f, uint32_t number, struct stat *st, struct err *e)
{
	return fstat(f->file[number].fd, st)
		       ? err_sys(e, errno, "%s: cannot be looked at", f->file[number].path)
		       : 0;
}

int files_read(const struct files *f, uint32_t number, uint64_t offset, void *buffer, size_t bytes,
	       struct err *e)
{
	const struct open_file *file = &f->file[number];
	int failed = source_file_read(file->fd, buffer, bytes, offset, file->path, e);
	if (failed || !f->note)
		return failed;
	return f->note(f->note_ctx, number, offset, bytes, checksum_of(buffer, bytes), e);
}

void files_set_note(struct files *f, files_note *note, void *ctx)
{
	f->note = note;
	f->note_ctx = ctx;
}
