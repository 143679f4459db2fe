/* What a mount is made of: models, their conversations, and what the loop has to do.
 *
 * One thread, the loop's, owns everything declared here. Other threads reach it only through the
 * queue of posts (post.h): the engine's callbacks and the workers post, and the loop does the rest.
 * So nothing here is locked, and nothing here may block.
 *
 * This header declares the state, and the functions for failures and conversations. What users see
 * is node.h; requests that wait are call.h; open files are handle.h. Models come and go by models/;
 * a mount begins and ends by requests/mount_loop.h. */
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
	NAME_SIZE = 256,	  /* of a file's name, terminator included */
	MODELS_MAX = 4095,	  /* as many as an inode number can tell apart, see tree.c */
	SESSIONS_MAX = 1 << 16,	  /* in sessions/, per model */
	READ_MAX_BYTES = 1 << 20, /* of one read */
};

struct answer;
struct fuse_session;
struct handle;
struct param_given;
struct rescan;
struct daemon_log;
struct mounted;

/* A session as the tree shows it: the engine's session, its name and owner, and the
 * requests that wait for it. */
struct conversation {
	struct mounted *model;
	struct session *session; /* NULL once it has ended */
	uint32_t id; /* never reused; 0 for a question's conversation, which is in no folder */
	char name[NAME_SIZE];
	uid_t uid;
	gid_t gid;
	struct timespec made, changed; /* changed: when the engine last had news */
	/* One for the tree (or the question's handle), and one for each open handle. */
	unsigned references;
	/* The handle that has written to prompt and is not released yet: the session is dirty. */
	struct handle *writer;
	struct link writing;  /* on mounted.writing while there is a writer */
	unsigned relayed;     /* handles of relays whose text takes effect at their RELEASE */
	unsigned passed_on;   /* handles that the opener has closed and another process has written
				 since */
	unsigned taking;      /* texts that workers take after their RELEASE */
	struct link for_text; /* calls that wait until the answer grows or ends */
	struct link for_turn; /* calls that wait until the turn ends */
	struct link for_release;  /* calls that wait for the writer's RELEASE */
	struct link pollers;	  /* handles to tell of news (handle.h) */
	struct link turn_pollers; /* handles to tell of the turn's end */
	struct post news;	  /* posted by the engine's callback */
	bool error_told;	  /* the present failure is in MOUNT/error already */
	struct err *refused;	  /* the last refusal that still counts (failures.c); else NULL */
	struct err *denied; /* a denial after a refused prompt, whose reason stays in `refused`;
			       else NULL */
	const struct tree_row *refused_row; /* the file that `refused` is of */
	uint32_t refused_item;
	struct link refusals; /* refused prompts (refusals.c), the oldest first */
	unsigned refusal_count;
	bool passing;	     /* a name in ask.d or embed.d, or one that was */
	bool embeds;	     /* in embed.d: what is written is embedded, not asked */
	struct link in_asks; /* on mounted.asks */
	struct link
		in_nameless; /* on mounted.nameless: the name is gone, and a file of it is open */
	uint64_t used;	     /* last written or news: CLOCK_MONOTONIC, nanoseconds */
	unsigned borrowed;   /* jobs of workers that use the engine's session */
	struct session *ending; /* the session, if it ended while borrowed */
	struct answer *logged;	/* the last answer with a line in the log (-v); a reference */
	struct kept *kept;	/* its file (models/kept.h), allocated; NULL: it never had one */
	struct lineage asker;	/* who opened the prompt of the newest turn; empty: unknown */
};

/* A model and its conversations. */
struct mounted {
	struct mount *mount;
	struct model *model;
	char name[NAME_SIZE];
	char *path;			/* of the checkpoint or GGUF file */
	struct job leaving;		/* closes the model once it is gone (models_leave) */
	uint32_t index;			/* in mount.models; never reused */
	struct conversation **sessions; /* by ascending id; the first is sessions/default */
	struct conversation **named;	/* the same, by the bytes of their names */
	size_t session_count, session_capacity;
	uint32_t next_id;	   /* of sessions and names in ask.d */
	struct link asks;	   /* conversations that are names in ask.d, by ascending id */
	struct link nameless;	   /* conversations whose name in ask.d is gone and that are open */
	uint64_t private_count;	   /* conversations that questions have had */
	struct link writing;	   /* conversations whose prompt is being written */
	struct link for_trace;	   /* calls that wait for lines of experts/trace */
	struct link trace_pollers; /* handles to tell of such lines */
	struct post traced;	   /* posted by the engine's callback */
	char *config;		   /* config.json as at mount */
	size_t config_length;
	char *examples;		   /* lines of questions, as at mount */
	struct timespec config_time; /* its modification time, which static files show */
	int kept_lock;	   /* of models/kept.h; 0: the model's sessions are not kept */
	uint32_t kept_last; /* the highest number of a file there */
	bool gone;	   /* nothing was at its path when its folder was last looked into */
	bool failure_told; /* that it cannot be loaded or converted is in MOUNT/error already */
};

/* The last failure of a user. */
struct user_failure {
	uid_t uid;
	uint64_t order; /* higher is newer; 0: none */
	bool denied;	/* a denial (failure_denied): only this user sees it */
	struct err why;
};
enum { FAILURES_MOST = 64 };

/* Unsubmitted text, by user (unsubmitted.c). */
struct unsubmitted {
	struct unsubmitted_user {
		uid_t uid;
		uint64_t bytes; /* not 0 */
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
	char *scratch; /* READ_MAX_BYTES of whole pages, for the read being served; its pages are
			  given back when the mount rests */
	struct unsubmitted unsubmitted;
	struct text readme; /* the contents of README */
	uint64_t
		memory; /* of the machine or control group, bytes, as engine_memory said at mount */
	struct rescan
		*rescan; /* of folders of models (models/model_folders.c); NULL: none is mounted */
	struct text skipped;  /* a line for each model that could not be mounted, with the reason */
	struct link refusals; /* of all conversations, the oldest first */
	unsigned refusal_count;
	struct err error; /* the last failure that concerns everybody; code 0: none */
	uint64_t error_order, failure_order;
	struct user_failure failures[FAILURES_MOST];
	uint64_t stirred_ns;  /* when something last happened; 0: the mount rests
				 (requests/mount_loop.c) */
	bool ready;	      /* the kernel has sent INIT */
	bool copies_by_pages; /* the kernel can be made to read by pages (requests/ops_splice.c) */
	uint64_t made_long;   /* how often it was */
	bool load_asked;      /* somebody asked to load a model: the loop looks how that goes */
	bool verbose;	      /* -v: log a line for each answered prompt */
	mode_t umask;	      /* permission bits that no node has */
	struct daemon_log *log;		  /* NULL: none */
	struct {
		const char *path; /* -o sessions=; NULL: sessions end with the mount */
		int folder;	  /* opened */
		bool failed;	  /* a session could not be written, and that was said */
		void (*changed)(struct conversation *c); /* NULL: nobody keeps sessions */
	} kept;
	const struct param_given *params; /* that sessions begin with (models/models.h) */
	size_t param_count;
};

/* The texts or params of a session in the tree have changed, or may have. */
static inline void mount_note_change(struct conversation *c)
{
	if (c->model->mount->kept.changed)
		c->model->mount->kept.changed(c);
}

/* The model after `after`, or the first if that is NULL; NULL: no more. */
static inline struct mounted *mount_next_model(const struct mount *m, const struct mounted *after)
{
	for (size_t i = after ? after->index + 1 : 0; i < m->model_count; i++)
		if (m->models[i])
			return m->models[i];
	return NULL;
}

/* ---- failures.c ---- */

/* Records a failure for MOUNT/error: one that concerns everybody (of a model, the store), or a
 * user's. Both return -e->code. */
int failure_of_mount(struct mount *m, const struct err *e);
int failure_of_user(struct mount *m, uid_t uid, const struct err *e);
/* The last failure that a user may see: the user's own or everybody's; the mount's owner sees all.
 * NULL: none. */
const struct err *failures_seen(const struct mount *m, uid_t viewer);
/* What the tree denied the user since that failure. NULL: nothing. */
const struct err *failures_denial_seen(const struct mount *m, uid_t viewer);

/* ---- conversations.c ---- */

/* A session in sessions/, owned by uid:gid. -EEXIST, -EINVAL and -ENAMETOOLONG for the name,
 * -ENOSPC: there are as many as there may be. out may be NULL. */
int conversation_make(struct mounted *model, const char *name, uid_t uid, gid_t gid,
		      struct conversation **out, struct err *e);
/* -EINVAL and -ENAMETOOLONG: a session cannot be named so. `folder` is for the sentence. */
int conversation_check_name(const struct mounted *model, const char *folder, const char *name,
			    struct err *e);
/* A session outside the tree for one open file, called `name` in sentences. The caller has the one
 * reference. */
int conversation_make_private(struct mounted *model, uid_t uid, const char *name,
			      struct conversation **out, struct err *e);
bool conversation_is_default(const struct conversation *c);
int conversation_rename(struct conversation *c, const char *name, struct err *e);
/* Takes a session out of the tree and ends it. */
void conversation_remove(struct conversation *c);
/* Frees the engine's session: waiting reads get EIO. */
void conversation_end(struct conversation *c);
struct conversation *conversation_ref(struct conversation *c);
void conversation_unref(struct conversation *c);
/* The engine's session for a worker's job, with a reference. It may end, but is not freed until it
 * is returned. */
struct session *conversation_borrow(struct conversation *c);
void conversation_return(struct conversation *c);
/* Wakes all that wait for news of the conversation. */
void conversation_wake(struct conversation *c);

/* By id: in sessions/ and ask.d, and those whose name in ask.d is gone while they are open. */
struct conversation *conversations_by_id(const struct mounted *model, uint32_t id);
/* In sessions/ only: by name, and the one with the next id after `id`. */
struct conversation *conversations_by_name(const struct mounted *model, const char *name);
struct conversation *conversations_after(const struct mounted *model, uint32_t id);

/* Whether a turn is about to begin, which an open that must see the newest answer waits for: text
 * was written to prompt and the opener has flushed since, so RELEASE is on its way. Of a relay
 * (proc.h) nothing is known before its RELEASE, which may arrive after the next OPEN: whatever a
 * relay has written counts, to prompt or to an assembled file. */
bool conversation_closing(const struct conversation *c);
/* How long to wait for that RELEASE, in milliseconds. */
unsigned conversation_closing_ms(const struct conversation *c);
/* A conversation of the model that is closing; NULL: none. */
struct conversation *conversations_closing(const struct mounted *model);
/* Sets the handle that writes to prompt; NULL: none does any more. */
void conversation_set_writer(struct conversation *c, struct handle *writer);

/* ---- asks.c ---- */

enum { ASKS_PER_USER = 64 };
/* A conversation as a name in ask.d or, if it embeds, in embed.d, owned by uid:gid. -EEXIST, -EINVAL and -ENAMETOOLONG for the
 * name; -EDQUOT: the user has ASKS_PER_USER. */
int asks_make(struct mounted *model, bool embeds, const char *name, uid_t uid, gid_t gid,
	      struct conversation **out, struct err *e);
struct conversation *asks_by_name(const struct mounted *model, bool embeds, const char *name);
/* The one with the next id. */
struct conversation *asks_after(const struct mounted *model, bool embeds, uint32_t id);
/* Takes the name away. The conversation ends with its last open file. */
void asks_forget(struct conversation *c);
/* Takes the name away and ends the conversation. */
void asks_remove(struct conversation *c);
/* Removes names that nobody has open or has used for an hour. */
void asks_expire(struct mount *m);
/* Milliseconds until there may be such a name; -1: there are no names. */
int asks_timeout(const struct mount *m);

#endif
