/* See gpu_driver.h. */
#include "engine/gpu/gpu_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

static const char gpu_library[] = "libcuda.so.1";

/* Finds every function; a driver that lacks one is too old. */
static int gpu_find_functions(struct gpu_driver *d, struct err *e)
{
	static const struct {
		const char *name;
		size_t at;
	} functions[] = {
#define GPU_ROW(field, name, operands) {name, offsetof(struct gpu_driver, field)},
		GPU_FUNCTIONS(GPU_ROW)
#undef GPU_ROW
	};

	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		void *found = dlsym(d->library, functions[i].name);
		if (!found)
			return err_set(e, ENODEV, "%s is too old: it has no %s", gpu_library,
				       functions[i].name);
		memcpy((char *)d + functions[i].at, &found, sizeof found);
	}
	return 0;
}

int gpu_driver_open(struct gpu_driver *d, struct err *e)
{
	memset(d, 0, sizeof *d);
	d->library = dlopen(gpu_library, RTLD_NOW | RTLD_LOCAL);
	if (!d->library) /* dlerror names the library */
		return err_set(e, ENODEV, "no NVIDIA driver is installed (%s)", dlerror());
	int failed = gpu_find_functions(d, e);
	if (!failed)
		failed = gpu_driver_check(d, d->init(0), "the driver does not start", e);
	if (failed)
		gpu_driver_close(d);
	return failed;
}

void gpu_driver_close(struct gpu_driver *d)
{
	if (d->library)
		(void)dlclose(d->library);
	d->library = NULL;
}

int gpu_driver_check(const struct gpu_driver *d, int result, const char *what, struct err *e)
{
	const char *name = NULL, *text = NULL;

	if (result == 0)
		return 0;
	(void)d->error_name(result, &name);
	(void)d->error_text(result, &text);
	return err_set(e,
		       result == GPU_OUT_OF_MEMORY ? ENOMEM
		       : result == GPU_NO_DEVICE   ? ENODEV
						   : EIO,
		       "%s: %s (%s)", what, text ? text : "unknown", name ? name : "no name");
}
