/* The state of a mount: models, their conversations, and the work of the loop.
 *
 * One thread, the loop's, owns everything declared here. Other threads reach it only through the
 * queue of posts (post.h): the engine's callbacks and the workers post, and the loop does the rest.
 * So nothing here is locked, and nothing here may block.
 *
 * This header declares the state, and the functions for failures and conversations. node.h declares
 * the files that users see, call.h the requests that wait, handle.h open files. models/ adds and
 * removes models; requests/mount_loop.h begins and ends a mount. */
#ifndef MOEFS_FS_MOUNT_MOUNT_H
#define MOEFS_FS_MOUNT_MOUNT_H

#include "cache/err.h"
#include "engine/model.h"
#include "engine/session.h"
#include "fs/base/list.h"
#include "fs/base/post.h"
#include "fs/base/proc.h"
#include "fs/base/text.h"
#include "fs/base/workers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum {
	NAME_SIZE = 256,	  /* bytes of a file's name, terminator included */
	MODELS_MAX = 4095,	  /* inode numbers have room for no more (tree/tree.c) */
	SESSIONS_MAX = 1 << 16,	  /* in sessions/, for each model */
	READ_MAX_BYTES = 1 << 20, /* most bytes of one read */
};

struct answer;
struct fuse_session;
struct handle;
struct param_given;
struct rescan;
struct daemon_log;
struct mounted;

/* A session in the tree: the engine's session, its name and owner, and the requests that wait for
 * it. */
struct conversation {
	struct mounted *model;
	struct session *session; /* NULL once it has ended */
	uint32_t id; /* never reused; 0: a question's conversation, in no folder */
	char name[NAME_SIZE];
	uid_t uid;
	gid_t gid;
	struct timespec made, changed; /* changed: time of the engine's last news */
	/* One for the tree (or the question's handle), and one for each open handle. */
	unsigned references;
	/* The handle that has written to prompt and is not released yet; the session is dirty. */
	struct handle *writer;
	struct link writing;  /* on mounted.writing while `writer` is set */
	unsigned relayed;     /* handles of relays whose text takes effect at RELEASE */
	unsigned passed_on;   /* handles written to by another process since the opener's close */
	unsigned taking;      /* texts that workers are applying after RELEASE */
	struct link for_text; /* calls that wait until the answer grows or ends */
	struct link for_turn; /* calls that wait until the turn ends */
	struct link for_release;  /* calls that wait for the writer's RELEASE */
	struct link pollers;	  /* handles to notify of news (handle.h) */
	struct link turn_pollers; /* handles to notify of the turn's end */
	struct post news;	  /* posted by the engine's callback */
	bool error_told;	  /* the present failure has been put into MOUNT/error */
	struct err *refused;	  /* the last refusal that still counts (failures.c), or NULL */
	struct err *denied; /* a denial after a refused prompt, or NULL; `refused` stays */
	const struct tree_row *refused_row; /* the file that refused */
	uint32_t refused_item;
	struct link refusals; /* refused prompts (refusals.c), the oldest first */
	unsigned refusal_count;
	bool passing;	     /* has, or had, a name in ask.d or embed.d */
	bool embeds;	     /* in embed.d: text is embedded, not answered */
	struct link in_asks; /* on mounted.asks */
	struct link in_nameless; /* on mounted.nameless: removed from ask.d while open */
	uint64_t used;	     /* last write or news: CLOCK_MONOTONIC, nanoseconds */
	unsigned borrowed;   /* jobs of workers that use the engine's session */
	struct session *ending; /* the session to free, if it ended while borrowed */
	struct answer *logged;	/* the last answer logged by -v; a reference */
	struct kept *kept;	/* its file (models/kept.h), allocated; NULL: it never had one */
	struct lineage asker;	/* who opened the prompt of the newest turn; empty: unknown */
};

/* A model and its conversations. */
struct mounted {
	struct mount *mount;
	struct model *model;
	char name[NAME_SIZE];
	char *path;			/* of the checkpoint or GGUF file */
	struct job leaving;		/* closes the model after models_leave */
	uint32_t index;			/* in mount.models; never reused */
	struct conversation **sessions; /* by ascending id; the first is sessions/default */
	struct conversation **named;	/* the same, sorted by the bytes of their names */
	size_t session_count, session_capacity;
	uint32_t next_id;	   /* for the next session or name in ask.d */
	struct link asks;	   /* conversations with names in ask.d, by ascending id */
	struct link nameless;	   /* open conversations whose name in ask.d was removed */
	uint64_t private_count;	   /* number of conversations made for questions */
	struct link writing;	   /* conversations whose prompt is being written */
	struct link for_trace;	   /* calls that wait for lines of experts/trace */
	struct link trace_pollers; /* handles to notify of new lines of experts/trace */
	struct post traced;	   /* posted by the engine's callback */
	char *config;		   /* contents of config.json at the mount */
	size_t config_length;
	char *examples;		   /* lines with example questions, as at the mount */
	struct timespec config_time; /* its modification time, also shown for static files */
	int kept_lock;	   /* for models/kept.h; 0: the model's sessions are not kept */
	uint32_t kept_last; /* the highest file number used there */
	bool gone;	   /* the last look into its folder did not find the model */
	bool failure_told; /* MOUNT/error has said that loading or converting failed */
};

/* The last failure of a user. */
struct user_failure {
	uid_t uid;
	uint64_t order; /* a higher number is newer; 0: none */
	bool denied;	/* a denial (failure_denied): only this user sees it */
	struct err why;
};
enum { FAILURES_MOST = 64 };

/* Unsubmitted text, by user (unsubmitted.c). */
struct unsubmitted {
	struct unsubmitted_user {
		uid_t uid;
		uint64_t bytes; /* never 0 */
	} * users;
	size_t count, capacity;
};

struct mount {
	struct engine *engine;
	struct fuse_session *fuse;
	uid_t uid; /* the user whose mount this is */
	gid_t gid;
	struct timespec began;
	struct mounted **models; /* NULL: the model is gone */
	size_t model_count;
	struct posts *posts;
	struct workers *workers;
	struct link woken;	 /* calls to serve again */
	struct link polled;	 /* handles whose pollers may have news (handle.h) */
	struct link deadlines;	 /* calls with a deadline, the earliest first */
	struct link interrupted; /* calls to end with EINTR */
	struct link handles;	 /* every open file */
	struct link folders;	 /* open folders of sessions */
	char *scratch; /* READ_MAX_BYTES of whole pages, for the read being served */
	struct unsubmitted unsubmitted;
	struct text readme; /* the contents of README */
	uint64_t memory; /* bytes of the machine or control group (engine_memory) at the mount */
	struct rescan *rescan; /* for folders of models (models/model_folders.c); NULL: none */
	struct text skipped;  /* a line with the reason for each model that could not be mounted */
	struct link refusals; /* refusals of all conversations, the oldest first */
	unsigned refusal_count;
	struct err error; /* the last failure that concerns all users; code 0: none */
	uint64_t error_order, failure_order;
	struct user_failure failures[FAILURES_MOST];
	uint64_t stirred_ns;  /* last activity; 0: the mount rests (requests/mount_loop.c) */
	bool ready;	      /* the kernel has sent INIT */
	bool copies_by_pages; /* the kernel can be made to read by pages (requests/ops_splice.c) */
	uint64_t made_long;   /* how often ops_splice.c made it do so */
	bool load_asked;      /* a user asked to load a model: the loop watches it */
	bool gpu_told;	      /* that the GPU has failed has been reported */
	bool verbose;	      /* -v: log a line for each answered prompt */
	mode_t umask;	      /* permission bits that no node has */
	struct daemon_log *log;		  /* NULL: none */
	struct {
		const char *path; /* from -o sessions=; NULL: sessions end with the mount */
		int folder;	  /* the open folder */
		bool failed;	  /* a session could not be written, and this has been reported */
		void (*changed)(struct conversation *c); /* NULL: sessions are not kept */
	} kept;
	const struct param_given *params; /* params of every new session (models/models.h) */
	size_t param_count;
};

/* Call when the texts or params of a session in the tree may have changed. */
static inline void mount_note_change(struct conversation *c)
{
	if (c->model->mount->kept.changed)
		c->model->mount->kept.changed(c);
}

/* The model after `after` (NULL: the first); NULL: there are no more. */
static inline struct mounted *mount_next_model(const struct mount *m, const struct mounted *after)
{
	for (size_t i = after ? after->index + 1 : 0; i < m->model_count; i++)
		if (m->models[i])
			return m->models[i];
	return NULL;
}

/* ---- failures.c ---- */

/* Record a failure for MOUNT/error: failure_of_mount one that concerns everybody (a model, the
 * store), failure_of_user one of a user. Both return -e->code. */
int failure_of_mount(struct mount *m, const struct err *e);
int failure_of_user(struct mount *m, uid_t uid, const struct err *e);
/* The last failure that a user may see: the user's own or everybody's. The mount's owner sees all.
 * NULL: none. */
const struct err *failures_seen(const struct mount *m, uid_t viewer);
/* The operation denied to the user since that failure. NULL: none. */
const struct err *failures_denial_seen(const struct mount *m, uid_t viewer);

/* ---- conversations.c ---- */

/* Makes a session in sessions/, owned by uid:gid. -EEXIST, -EINVAL and -ENAMETOOLONG concern the
 * name; -ENOSPC: there are already SESSIONS_MAX sessions. out may be NULL. */
int conversation_make(struct mounted *model, const char *name, uid_t uid, gid_t gid,
		      struct conversation **out, struct err *e);
/* Checks a session's name: -EINVAL or -ENAMETOOLONG. `folder` is used in the sentence. */
int conversation_check_name(const struct mounted *model, const char *folder, const char *name,
			    struct err *e);
/* Makes a session outside the tree for one open file, called `name` in sentences. The caller owns
 * the only reference. */
int conversation_make_private(struct mounted *model, uid_t uid, const char *name,
			      struct conversation **out, struct err *e);
bool conversation_is_default(const struct conversation *c);
int conversation_rename(struct conversation *c, const char *name, struct err *e);
/* Removes a session from the tree and ends it. */
void conversation_remove(struct conversation *c);
/* Frees the engine's session. Waiting reads get EIO. */
void conversation_end(struct conversation *c);
struct conversation *conversation_ref(struct conversation *c);
void conversation_unref(struct conversation *c);
/* The engine's session for a worker's job, with a reference. The session may end meanwhile, but is
 * freed only after conversation_return. */
struct session *conversation_borrow(struct conversation *c);
void conversation_return(struct conversation *c);
/* Wakes everything that waits for news of the conversation. */
void conversation_wake(struct conversation *c);

/* Finds a conversation by id in sessions/ and ask.d, also an open one whose name was removed from
 * ask.d. */
struct conversation *conversations_by_id(const struct mounted *model, uint32_t id);
/* In sessions/ only: finds a conversation by name, or the one with the next id after `id`. */
struct conversation *conversations_by_name(const struct mounted *model, const char *name);
struct conversation *conversations_after(const struct mounted *model, uint32_t id);

/* Whether a turn is about to begin. An open that must see the newest answer waits for that. True if
 * text was written to prompt and the opener has flushed since: then RELEASE will follow. The
 * RELEASE of a relay (proc.h) may arrive after the next OPEN, and no flush tells of it. So for a
 * relay any text written counts, to prompt or to an assembled file. */
bool conversation_closing(const struct conversation *c);
/* How long to wait for that RELEASE, in milliseconds. */
unsigned conversation_closing_ms(const struct conversation *c);
/* A conversation of the model that is closing; NULL: none. */
struct conversation *conversations_closing(const struct mounted *model);
/* Sets the handle that writes to prompt; NULL: no handle does. */
void conversation_set_writer(struct conversation *c, struct handle *writer);

/* ---- asks.c ---- */

enum { ASKS_PER_USER = 64 };
/* Makes a conversation with a name in ask.d, or if `embeds` in embed.d, owned by uid:gid. -EEXIST,
 * -EINVAL and -ENAMETOOLONG concern the name; -EDQUOT: the user has ASKS_PER_USER already. */
int asks_make(struct mounted *model, bool embeds, const char *name, uid_t uid, gid_t gid,
	      struct conversation **out, struct err *e);
struct conversation *asks_by_name(const struct mounted *model, bool embeds, const char *name);
/* The conversation with the next id after `id`. */
struct conversation *asks_after(const struct mounted *model, bool embeds, uint32_t id);
/* Removes the name. The conversation ends with its last open file. */
void asks_forget(struct conversation *c);
/* Removes the name and ends the conversation. */
void asks_remove(struct conversation *c);
/* Removes names that are not open and were not used for an hour. */
void asks_expire(struct mount *m);
/* Milliseconds until a name may expire; -1: there are no names. */
int asks_timeout(const struct mount *m);

#endif
