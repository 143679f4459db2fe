/* What a mount is made of: the mounted models, their sessions, and what the loop has to do.
 *
 * One thread, the loop's, owns everything that is declared here. Others reach it only through the
 * queue of posts (post.h): the engine's `changed` callback and the workers post, and the loop does
 * the rest. That queue and the workers' (workers.c) have the only locks in fs/, and neither is
 * taken under the other. So nothing here is locked, and nothing here may block.
 *
 * This header declares state, and what keeps conversations. What users see of it is node.h;
 * requests that wait are call.h; open files are handle.h. Models come and go by models/, and a
 * mount begins and ends by requests/mount_loop.h.
 */
#ifndef MOEFS_FS_MOUNT_H
#define MOEFS_FS_MOUNT_H

#include "cache/err.h"
#include "engine/model.h"
#include "engine/session.h"
#include "fs/base/list.h"
#include "fs/base/post.h"
#include "fs/base/process.h"
#include "fs/base/text.h"
#include "fs/base/workers.h"
#include "fs/mount/unsubmitted.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum {
	NAME_SIZE = 256,	  /* of a file's name, terminator included */
	MODELS_MAX = 4095,	  /* what an inode number can tell apart, see tree.c */
	SESSIONS_MAX = 1 << 16,	  /* named ones, per model */
	READ_MAX_BYTES = 1 << 20, /* that one read asks for */
};

struct answer;
struct fuse_session;
struct handle;
struct param_given;
struct rescan;
struct said;
struct mounted;

/* A session as the tree shows it: the engine's session, its name and owner, and who waits for it.
 */
struct conversation {
	struct mounted *model;
	struct session *session; /* NULL once it has ended */
	uint32_t id;		 /* never reused; 0 for a question's, which is in no folder */
	char name[NAME_SIZE];
	uid_t uid;
	gid_t gid;
	struct timespec made, changed; /* changed: when the engine last had news */
	/* One reference is the tree's (a question's handle's), one is each open handle's. */
	unsigned references;
	/* The handle that has written to prompt and is not released yet: the session is dirty. */
	struct handle *writer;
	struct link writing;	  /* while there is one: on mounted.writing */
	unsigned relayed;	  /* handles of relays' whose text takes effect at their RELEASE */
	unsigned passed_on; /* handles that their opener has closed, and others have written since */
	unsigned taking;    /* texts that workers take for a RELEASE */
	struct link for_text;	  /* calls waiting until the answer grows or ends */
	struct link for_turn;	  /* calls waiting until the turn ends */
	struct link for_release;  /* calls waiting for the writer's RELEASE */
	struct link pollers;	  /* handles to tell (pollers.h) */
	struct link turn_pollers; /* handles to tell when the turn ends */
	struct post news;	  /* the engine's callback */
	bool error_told;	  /* the present failure is in MOUNT/error already */
	struct err *refused; /* the last refusal, until it is no news (failures.c); else NULL */
	/* What was denied since a prompt was refused, whose reason stays; else NULL. */
	struct err *denied;
	const struct row *refused_row; /* of which file that was */
	uint32_t refused_item;
	struct link refusals; /* prompts that were refused (refusals.c), the oldest first */
	unsigned refusal_count;
	/* Of a name in ask.d: on mounted.asks, and when it was last written or had news. */
	struct link in_asks;
	struct link
		in_nameless; /* the name is gone, and somebody has it open: on mounted.nameless */
	uint64_t used;	     /* CLOCK_MONOTONIC, nanoseconds */
	bool passing;
	unsigned borrowed;	/* by jobs of the workers' */
	struct session *ending; /* that has ended while it was borrowed */
	struct answer *told;	/* whose end was told of (told.c), a reference */
	struct line asker;	/* who opened the prompt of the newest turn; empty: not known */
};

/* A model and its sessions. */
struct mounted {
	struct mount *mount;
	struct model *model;
	char name[NAME_SIZE];
	char *path;			/* where it was found */
	struct job leaving;		/* which closes it once it is gone (models_leave) */
	uint32_t index;			/* in mount.models, and never another's */
	struct conversation **sessions; /* by ascending id; the first is sessions/default */
	struct conversation **named;	/* the same by their names, in the order of their bytes */
	size_t session_count, session_capacity;
	uint32_t next_id;	   /* of sessions and asks */
	struct link asks;	   /* conversations that are names in ask.d, by ascending id */
	struct link nameless;	   /* those that were, and are open still */
	uint64_t private_count;	   /* conversations that questions have had */
	struct link writing;	   /* conversations whose prompt is being written */
	struct link for_trace;	   /* calls waiting for lines of experts/trace */
	struct link trace_pollers; /* handles to tell of them */
	struct post traced;	   /* the engine's callback */
	char *config;		   /* config.json as it was at mount */
	size_t config_length;
	struct timespec config_time; /* its modification: what static files show */
	bool failure_told; /* its failure to load or to be converted is in MOUNT/error already */
};

/* The last failure of a user's. */
struct failure {
	uid_t uid;
	uint64_t order; /* the higher, the newer; 0: none */
	bool denied;	/* by the tree (node_denied): its owner's alone, and no other's reason */
	struct err why;
};
enum { FAILURES_MOST = 64 };

struct mount {
	struct engine *engine;
	struct fuse_session *fuse;
	uid_t uid; /* whose mount this is */
	gid_t gid;
	struct timespec began;
	struct mounted **models; /* NULL: it is gone */
	size_t model_count;
	struct posts *posts;
	struct workers *workers;
	struct link woken;	 /* calls to try again */
	struct link polled;	 /* handles to look at for who polls them (pollers.h) */
	struct link deadlines;	 /* calls with a deadline, the earliest first */
	struct link interrupted; /* calls to end with EINTR */
	struct link handles;	 /* every open file */
	struct link folders;	 /* open folders of sessions */
	char *scratch;		 /* READ_MAX_BYTES of whole pages, for the read being
				    answered; lost when the mount rests */
	struct unsubmitted unsubmitted;
	struct text readme;    /* what README says */
	uint64_t memory;       /* that there is, as engine_memory said at mount */
	struct rescan *rescan; /* of folders of models (models/model_folders.c); NULL: there is none */
	struct text skipped;  /* a line for each model that could not be mounted, with the reason */
	struct link refusals; /* of all sessions, the oldest first */
	unsigned refusal_count;
	struct err error; /* the last failure of nobody's; code 0: none */
	uint64_t error_order, failure_order;
	struct failure failures[FAILURES_MOST]; /* of users */
	uint64_t stirred_ns;  /* when something was last done; 0: it rests (requests/mount_loop.c) */
	bool ready;	      /* the kernel has said INIT */
	bool copies_by_pages; /* the kernel, for who copies without reading (requests/ops_splice.c) */
	uint64_t made_long;   /* how often it was made to ask for pages */
	bool load_asked;      /* somebody has had a model loaded: look how it goes */
	bool verbose;	      /* a line for each answered prompt */
	mode_t umask;	      /* bits that no node has */
	struct said *said;    /* what the daemon has to say; NULL: to nobody */
	const struct param_given *params; /* that sessions begin with (models/models.h) */
	size_t param_count;
};

/* ---- mounted.c ---- */

/* The model behind that one, or the first behind NULL; NULL: there is none more. */
struct mounted *mounted_next(const struct mount *m, const struct mounted *after);

/* ---- failures.c ---- */

/* Records a failure for MOUNT/error: of nobody's (a model, the store), or of a user's; return
 * -e->code. */
int mount_failure(struct mount *m, const struct err *e);
int mount_failure_of(struct mount *m, uid_t uid, const struct err *e);
/* The last failure that is a user's to see: his own and nobody's, others' only for the mount's own
 * user. NULL: none. */
const struct err *mount_failure_seen(const struct mount *m, uid_t viewer);
/* What the tree denied him since. NULL: nothing. */
const struct err *mount_denial_seen(const struct mount *m, uid_t viewer);

/* ---- sessions.c ---- */

/* A session in sessions/, owned by uid:gid. -EEXIST, -EINVAL and -ENAMETOOLONG for the name. */
int sessions_make(struct mounted *model, const char *name, uid_t uid, gid_t gid,
		  struct conversation **out, struct err *e);
/* -EINVAL and -ENAMETOOLONG: no name for a conversation. `folder` is for the words. */
int sessions_name_fits(const struct mounted *model, const char *folder, const char *name,
		       struct err *e);
/* A session of its own, outside the tree, for one open file, which sentences call `name`. The
 * caller has its one reference. */
int sessions_private(struct mounted *model, uid_t uid, const char *name, struct conversation **out,
		     struct err *e);
bool sessions_is_default(const struct conversation *c);
int sessions_rename(struct conversation *c, const char *name, struct err *e);
/* Takes it out of the tree and ends it. */
void sessions_remove(struct conversation *c);
/* Ends it: waiting reads get EIO, and the engine's session is freed. */
void conversation_end(struct conversation *c);
struct conversation *conversation_ref(struct conversation *c);
void conversation_unref(struct conversation *c);
/* The engine's session for a job of the workers', with a reference: until it is returned it is not
 * freed, though it may end. */
struct session *conversation_borrow(struct conversation *c);
void conversation_return(struct conversation *c);
/* There is something new: wakes those whom it may concern. */
void conversation_wake(struct conversation *c);

/* ---- session_index.c ---- */

/* For one session more. -ENOMEM; -ENOSPC: there are as many as there may be. */
int sessions_make_room(struct mounted *model, struct err *e);
void sessions_enter(
	struct conversation *c); /* into the room that was made; its id is the highest */
void sessions_enter_renamed(struct conversation *c, const char *name);
void sessions_leave(struct conversation *c);
/* Of ask.d as well, and of those there whose name is gone, while they are open. */
struct conversation *sessions_by_id(const struct mounted *model, uint32_t id);
struct conversation *sessions_by_name(const struct mounted *model, const char *name);
struct conversation *sessions_after(const struct mounted *model, uint32_t id); /* the next id */

/* ---- writers.c ---- */

/* What an open that must see the newest answer has to know. Closing: text was written to prompt and
 * the process that opened it has flushed since, so that its RELEASE is on its way. Of a relay (see
 * process.h) nothing is known before its RELEASE, which comes by another way than the next OPEN:
 * whatever it has written may be closing, to prompt or to a file whose text is put together. */
bool conversation_closing(const struct conversation *c);
/* How long its RELEASE is waited for. */
unsigned conversation_closing_ms(const struct conversation *c);
/* A conversation of the model's that is closing; NULL: none is. */
struct conversation *sessions_closing(const struct mounted *model);
/* Its writer is this one; NULL: there is none any more. */
void conversation_set_writer(struct conversation *c, struct handle *writer);

/* ---- asks.c ---- */

enum { ASKS_PER_USER = 64 };
/* A conversation that is a name in ask.d, owned by uid:gid. -EEXIST, -EINVAL and -ENAMETOOLONG for
 * the name; -EDQUOT: the user has as many as he may. */
int asks_make(struct mounted *model, const char *name, uid_t uid, gid_t gid,
	      struct conversation **out, struct err *e);
struct conversation *asks_by_name(const struct mounted *model, const char *name);
struct conversation *asks_after(const struct mounted *model, uint32_t id); /* the next id */
/* Takes the name away. The conversation ends with its last open file. */
void asks_forget(struct conversation *c);
/* Takes the name away and ends it. */
void asks_remove(struct conversation *c);
/* Removes those that nobody has open or has used for an hour. */
void asks_expire(struct mount *m);
/* Milliseconds until there may be one; -1: there are none. */
int asks_timeout(const struct mount *m);

#endif
