/* The program as a helper of mount(8). See mount_helper.h. */
#include "fs/program/mount_helper.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool mount_helper_is(const char *program)
{
	const char *slash = program ? strrchr(program, '/') : NULL;
	return program && !strcmp(slash ? slash + 1 : program, "mount.moefs");
}

int mount_helper_read(struct mount_helper *h, int argc, char **argv, struct err *e)
{
	static char moefs[] = "moefs", o[] = "-o", v[] = "-v";
	char *options = NULL;
	bool verbose = false;
	int c;
	*h = (struct mount_helper){0};
	opterr = 0;
	while ((c = getopt(argc, argv, "sfnvN:o:t:")) != -1) {
		if (c == '?')
			return err_set(e, EINVAL,
				       "mount.moefs: -%c is not what mount(8) passes; moefs is "
				       "the command for people",
				       optopt);
		if (c == 'N')
			return err_set(e, EINVAL, "mount.moefs: mounts in no other namespace (-N)");
		h->lenient |= c == 's';
		h->fake |= c == 'f';
		verbose |= c == 'v';
		if (c == 'o')
			options = optarg;
	}
	if (argc - optind != 2)
		return err_set(e, EINVAL,
			       "usage: mount.moefs SOURCE MOUNTPOINT [-sfnv] [-o options]");
	h->arguments[h->count++] = moefs;
	if (verbose)
		h->arguments[h->count++] = v;
	if (options && *options) {
		h->arguments[h->count++] = o;
		h->arguments[h->count++] = options;
	}
	h->arguments[h->count++] = argv[optind];
	h->arguments[h->count++] = argv[optind + 1];
	return 0;
}
