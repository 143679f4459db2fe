#include "engine/source/files.h"
#include "cache/io.h"

#include "cache/checksum.h"
#include "engine/source/source_file.h"
#include "engine/source/tensor_list.h"

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
	uint32_t count;
	size_t room;
	files_note *note; /* NULL: reads are not noted */
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
		io_close(f->file[i].fd);
		free(f->file[i].path);
	}
	free(f->file);
	free(f->folder);
	free(f);
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
	if (f->count == FILES_MOST)
		return err_set(e, EINVAL, "%s: more than %d files of tensors", f->folder,
			       FILES_MOST);
	struct open_file *files = list_grow(f->file, f->count, &f->room, sizeof *files);
	if (!files)
		return err_set(e, ENOMEM, "%s: out of memory for its list of files", f->folder);
	f->file = files;
	struct open_file *new = &files[f->count];
	*new = (struct open_file){.fd = -1, .path = source_file_path(f->folder, name, e)};
	if (!new->path)
		return -ENOMEM;
	f->count++;
	new->fd = source_file_open(new->path, &new->bytes, e);
	return new->fd < 0 ? new->fd : 0;
}

/* ---- open files ---- */

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
