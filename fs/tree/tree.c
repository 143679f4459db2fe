/* See tree.h. */
#include "fs/tree/tree.h"
#include "fs/files/ctl.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The part of the mount that a node belongs to, which decides the fields of its inode number. */
enum scope { SCOPE_MOUNT, SCOPE_MODEL, SCOPE_SESSION, SCOPE_LAYER, SCOPE_ITEMS };

static enum scope tree_scope(const struct tree_row *row)
{
	static const enum scope folders[FOLDER_COUNT] = {
		[FOLDER_MODEL] = SCOPE_MODEL,	  [FOLDER_SESSIONS] = SCOPE_MODEL,
		[FOLDER_SESSION] = SCOPE_SESSION, [FOLDER_PARAMS] = SCOPE_SESSION,
		[FOLDER_INFO] = SCOPE_MODEL,	  [FOLDER_EXPERTS] = SCOPE_MODEL,
		[FOLDER_LAYER] = SCOPE_LAYER,	  [FOLDER_ASKS] = SCOPE_MODEL,
		[FOLDER_TOKENIZER] = SCOPE_MODEL, [FOLDER_TENSORS] = SCOPE_ITEMS,
		[FOLDER_PREFIXES] = SCOPE_ITEMS,  [FOLDER_EMBEDS] = SCOPE_MODEL,
	};
	if (row->flags & ROW_PASSING)
		return SCOPE_SESSION;
	return folders[S_ISDIR(row->mode) ? (enum folder)(row - rows) : row->in];
}

size_t tree_rows(void)
{
	return row_count;
}

const struct tree_row *tree_row(size_t index)
{
	return index > FOLDER_NONE && index < row_count ? &rows[index] : NULL;
}

void tree_about(const struct tree_row *row, struct text *out)
{
	if (row->verbs) {
		text_string(out, "verbs: ");
		ctl_verb_names(row->verbs, out);
		text_string(out, "; ");
	}
	text_string(out, row->about);
}

void tree_path(const struct tree_row *row, char *buffer, size_t size)
{
	const char *names[FOLDER_COUNT];
	size_t depth = 0;
	for (; row != &rows[FOLDER_ROOT]; row = &rows[row->in])
		names[depth++] = row->name;
	*buffer = 0;
	while (depth--) {
		size_t used = strlen(buffer);
		(void)snprintf(buffer + used, size - used, "%s%s", used ? "/" : "", names[depth]);
	}
}

/* ---- inode numbers ----
 *
 *     bits 0…7 row, 8…19 model, 20…51 session's number, layer, tensor or
 *     prefix, 52…63 expert or param */

uint64_t tree_inode(const struct node *n)
{
	uint64_t inode = (uint64_t)(n->row - rows);
	enum scope scope = tree_scope(n->row);
	if (scope != SCOPE_MOUNT)
		inode |= (uint64_t)n->model->index << 8;
	if (scope == SCOPE_SESSION)
		inode |= (uint64_t)n->conversation->id << 20;
	if (scope == SCOPE_LAYER)
		inode |= (uint64_t)n->layer << 20;
	if (scope == SCOPE_ITEMS)
		return inode | (uint64_t)n->item << 20;
	return inode | (uint64_t)n->item << 52;
}

int tree_node(struct mount *m, uint64_t inode, uid_t viewer, struct node *out)
{
	size_t model = inode >> 8 & 0xfff;
	uint32_t key = (uint32_t)(inode >> 20);
	const struct tree_row *row = tree_row(inode & 0xff);
	if (!row)
		return -ESTALE;
	*out = (struct node){
		.row = row, .mount = m, .item = (uint32_t)(inode >> 52), .viewer = viewer};
	enum scope scope = tree_scope(row);
	if (scope == SCOPE_MOUNT)
		return 0;
	if (model >= m->model_count)
		return -ESTALE;
	out->model = m->models[model];
	if (!out->model)
		return -ESTALE;
	if (scope == SCOPE_LAYER)
		out->layer = key;
	if (scope == SCOPE_ITEMS)
		out->item = key;
	if (scope == SCOPE_SESSION && !(out->conversation = conversations_by_id(out->model, key)))
		return -ESTALE;
	uid_t owner;
	const struct row_hooks *hooks = row->hooks;
	return hooks && hooks->owner && !hooks->owner(out, &owner) ? -ESTALE : 0;
}

void tree_parent(const struct node *n, struct node *out)
{
	*out = *n;
	out->item = 0;
	if (n->row != &rows[FOLDER_ROOT])
		out->row = &rows[n->row->in];
}

/* ---- names ---- */

/* Whether the folder shows this row. If so, sets *child to the row's node there, without its
 * member. */
static bool tree_row_is_in(const struct tree_row *row, const struct node *folder,
			   struct node *child)
{
	*child = *folder;
	child->row = row;
	if (row->name && &rows[row->in] == folder->row)
		return true;
	if (folder->row != &rows[FOLDER_MODEL] || !(row->flags & ROW_IN_MODEL))
		return false;
	child->conversation = folder->model->sessions[0];
	return true;
}

int tree_child(const struct node *folder, const char *name, struct node *out)
{
	for (size_t i = FOLDER_ROOT + 1; i < row_count; i++) {
		const struct tree_row *row = &rows[i];
		if (!tree_row_is_in(row, folder, out))
			continue;
		if (!row->family && strcmp(row->name, name) == 0)
			return 0;
		uint64_t member = row->family ? row->family->find(folder, name) : 0;
		if (member) {
			row->family->bind(out, member);
			return 0;
		}
	}
	return -ENOENT;
}

/* *place holds the row and the member of the last call: member << 8 | row. */
bool tree_next(const struct node *folder, uint64_t *place, struct node *child, char name[NAME_SIZE])
{
	uint64_t member = *place >> 8;
	size_t i = *place & 0xff;
	for (i = i ? i : FOLDER_ROOT + 1; i < row_count; i++, member = 0) {
		const struct tree_row *row = &rows[i];
		if (!tree_row_is_in(row, folder, child))
			continue;
		if (row->family)
			member = row->family->next(folder, member, name);
		else if (member == 0) {
			(void)snprintf(name, NAME_SIZE, "%s", row->name);
			member = 1;
		} else
			member = 0;
		if (!member)
			continue;
		if (row->family)
			row->family->bind(child, member);
		*place = member << 8 | i;
		return true;
	}
	return false;
}

/* ---- attributes ---- */

/* Settings and facts belong to the mount's user; a session's files belong to the session's owner.
 */
static void tree_set_owner(const struct node *n, struct stat *st)
{
	const struct conversation *c = n->conversation;
	st->st_uid = c ? c->uid : n->mount->uid;
	st->st_gid = c ? c->gid : n->mount->gid;
	if (n->row->hooks && n->row->hooks->owner)
		(void)n->row->hooks->owner(n, &st->st_uid);
}

/* Group and others have the same bits in every mode of the tree, before umask is applied. */
static mode_t tree_mode(const struct node *n)
{
	return n->row->mode & ~n->mount->umask;
}

static uint64_t tree_file_size(const struct node *n)
{
	if (n->row->ops->size)
		return n->row->ops->size(n);
	struct text t = {0};
	n->row->render(n, &t);
	uint64_t size = t.length;
	text_free(&t);
	return size;
}

void tree_attr(const struct node *n, struct stat *st)
{
	/* Other users must not see how long a session's texts are or when they grew. */
	bool shown = tree_allows(n, n->viewer, R_OK);
	*st = (struct stat){
		.st_ino = tree_inode(n),
		.st_mode = tree_mode(n),
		.st_nlink = 1, /* of a folder: says nothing about the number of its subfolders */
		.st_blksize = 4096,
	};
	tree_set_owner(n, st);
	st->st_mtim = n->mount->began;
	if (n->conversation)
		st->st_mtim = node_is_folder(n) || !shown ? n->conversation->made
							  : n->conversation->changed;
	if (!node_is_folder(n) && shown) {
		st->st_size = (off_t)tree_file_size(n);
		if (n->row->caching == CACHING_STATIC)
			st->st_mtim = n->model->config_time;
	}
	st->st_atim = st->st_ctim = st->st_mtim;
	st->st_blocks = (st->st_size + STAT_BLOCK - 1) / STAT_BLOCK;
	if (n->row->hooks && n->row->hooks->attr)
		n->row->hooks->attr(n, st);
	if (st->st_blocks == 0) /* tar -S would store zeros for a file without blocks */
		st->st_blocks = 1;
	if (n->row->flags & ROW_IN_MODEL && conversation_is_default(n->conversation))
		st->st_nlink = 2;
}

double tree_attr_seconds(const struct node *n)
{
	if (n->row->flags & ROW_FRESH)
		return 0;
	if (node_is_folder(n))
		return 1;
	return n->row->caching == CACHING_STATIC ? 3600 : 0;
}

/* The kernel has already checked the viewer's groups, except for root. */
bool tree_allows(const struct node *n, uid_t uid, int wanted)
{
	struct stat st = {0};
	if (wanted & W_OK && !node_is_folder(n) && n->row->effect == EFFECT_NONE)
		return false;
	tree_set_owner(n, &st);
	mode_t mode = tree_mode(n);
	unsigned bits = (uid == st.st_uid ? mode >> 6 : mode >> 3 | mode) & 7;
	return (bits & (unsigned)wanted) == (unsigned)wanted;
}
