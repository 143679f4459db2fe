/* Faults on demand: replacements of the functions of cache/io.h that fail as a test tells them to.
 *
 * The linker wraps them around the library's functions (--wrap in the Makefile). They are active
 * only in groups of tests whose main calls faults_begin(); all other groups call the library's
 * functions. They sync nothing, so that many conversions take little time.
 *
 * A power cut is a kill after which everything that was not synced is undone: writes, renames and
 * removals, all of them or a random half, as a disk may have written some of them.
 */
#ifndef MOEFS_TESTS_UNIT_FAULT_IO_H
#define MOEFS_TESTS_UNIT_FAULT_IO_H

#include "cache/io.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum fault_op {
	OP_READ = 1,
	OP_WRITE = 2,
	OP_SYNC = 4,
	OP_RESERVE = 8,
	OP_FOLDER = 16, /* renames, removals, and the syncing of the folder */
	OP_SUBMIT = 32,
};

enum cut { CUT_NOTHING, CUT_ALL, CUT_HALF };

struct faults {
	long kill_at;		  /* the operation before which the process dies, from 1; 0 never */
	enum cut cut;		  /* which unsynced operations are lost then */
	_Atomic unsigned fail_on; /* the kinds of operations that fail, or-ed */
	_Atomic long fail_at;	  /* which of these fails, from 1; 0: every one */
	_Atomic int fail_code;	  /* an errno; 0: a read at the end of the file */
	_Atomic bool stutter; /* transfers of at most 700 bytes, and every third call interrupted */
	uint64_t free_bytes;  /* free space of the disk; 0: the real one */
	_Atomic long hold_at; /* the read that hangs, from 1, until this is 0 again */
	_Atomic bool held;    /* a read hangs */
	_Atomic uint64_t
		hang_file; /* an inode: every io_pread of that file hangs, until this is 0 again */
	_Atomic long hanging;	       /* so many do */
	const char *_Atomic hold_sync; /* syncs of files with this in their names hang, until it is
					  NULL */
	_Atomic long syncs_held;       /* so many do */
	_Atomic long reads;	       /* so far */
	_Atomic long operations, failable;
	struct {
		enum fault_op op;
		int fd;
	} trace[64]; /* operations of one thread while `tracing` */
	unsigned traced;
	bool tracing;
};
extern struct faults faults;

/* From now on this process uses fault_io.c's functions. */
void faults_begin(void);

/* How long a loop that waits for the disk pauses. */
static const struct timespec fault_moment = {.tv_nsec = 1000000};

#endif
