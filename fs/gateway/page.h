/* The files of the page, which are in the program. make generates them from page/. */
#ifndef MOEFS_FS_GATEWAY_PAGE_H
#define MOEFS_FS_GATEWAY_PAGE_H

#include <stddef.h>

struct page_file {
	const char *name; /* NULL ends the list */
	const unsigned char *data;
	size_t size;
};
extern const struct page_file page_files[];

#endif
