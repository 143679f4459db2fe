/* Which reader a package is made by. */
#include "engine/source/file.h"
#include "engine/source/package_make.h"

#include <errno.h>
#include <stdlib.h>

int package_open(struct package **out, const char *path, struct err *e)
{
	struct package *p = calloc(1, sizeof *p);
	*out = NULL;
	if (!p)
		return err_set(e, ENOMEM, "%s: out of memory for its list of tensors", path);
	int failed = source_is_file(path) ? package_of_gguf(p, path, e)
					  : package_of_safetensors(p, path, e);
	if (!failed)
		failed = package_sort(p, e);
	if (failed)
		package_close(p);
	else
		*out = p;
	return failed;
}
