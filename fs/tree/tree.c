/* The ways between the table's rows, inode numbers and names. See tree.h. */
#include "fs/tree/tree.h"
#include "fs/tree/rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What a folder's files are of, besides the mount: it says what is in their inode numbers. */
enum scope { SCOPE_MOUNT, SCOPE_MODEL, SCOPE_SESSION, SCOPE_LAYER, SCOPE_TENSORS };

static enum scope scope_of(const struct row *row)
{
	static const enum scope folders[FOLDER_COUNT] = {
		[FOLDER_MODEL] = SCOPE_MODEL,	  [FOLDER_SESSIONS] = SCOPE_MODEL,
		[FOLDER_SESSION] = SCOPE_SESSION, [FOLDER_PARAMS] = SCOPE_SESSION,
		[FOLDER_INFO] = SCOPE_MODEL,	  [FOLDER_EXPERTS] = SCOPE_MODEL,
		[FOLDER_LAYER] = SCOPE_LAYER,	  [FOLDER_ASKS] = SCOPE_MODEL,
		[FOLDER_TOKENIZER] = SCOPE_MODEL, [FOLDER_TENSORS] = SCOPE_TENSORS,
	};
	if (row->flags & ROW_PASSING)
		return SCOPE_SESSION;
	return folders[S_ISDIR(row->mode) ? (enum folder)(row - rows) : row->in];
}

size_t tree_rows(void)
{
	return row_count;
}

const struct row *tree_row(size_t index)
{
	return index > FOLDER_NONE && index < row_count ? &rows[index] : NULL;
}

void tree_path(const struct row *row, char *buffer, size_t size)
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
 *     bits 0…7 row, 8…19 model, 20…51 session's number, layer or tensor, 52…63 expert or param */

uint64_t tree_inode(const struct node *n)
{
	uint64_t inode = (uint64_t)(n->row - rows);
	enum scope scope = scope_of(n->row);
	if (scope != SCOPE_MOUNT)
		inode |= (uint64_t)n->model->index << 8;
	if (scope == SCOPE_SESSION)
		inode |= (uint64_t)n->conversation->id << 20;
	if (scope == SCOPE_LAYER)
		inode |= (uint64_t)n->layer << 20;
	if (scope == SCOPE_TENSORS)
		return inode | (uint64_t)n->item << 20;
	return inode | (uint64_t)n->item << 52;
}

int tree_node(struct mount *m, uint64_t inode, uid_t viewer, struct node *out)
{
	size_t model = inode >> 8 & 0xfff;
	uint32_t key = (uint32_t)(inode >> 20);
	const struct row *row = tree_row(inode & 0xff);
	if (!row)
		return -ESTALE;
	*out = (struct node){
		.row = row, .mount = m, .item = (uint32_t)(inode >> 52), .viewer = viewer};
	enum scope scope = scope_of(row);
	if (scope == SCOPE_MOUNT)
		return 0;
	if (model >= m->model_count)
		return -ESTALE;
	out->model = m->models[model];
	if (!out->model)
		return -ESTALE;
	if (scope == SCOPE_LAYER)
		out->layer = key;
	if (scope == SCOPE_TENSORS)
		out->item = key;
	if (scope == SCOPE_SESSION && !(out->conversation = sessions_by_id(out->model, key)))
		return -ESTALE;
	return 0;
}

void tree_parent(const struct node *n, struct node *out)
{
	*out = *n;
	out->item = 0;
	if (n->row != &rows[FOLDER_ROOT])
		out->row = &rows[n->row->in];
}

/* ---- names ---- */

/* Whether a row is in a folder, and if so the child that it makes there, but for its member. */
static bool row_is_in(const struct row *row, const struct node *folder, struct node *child)
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
		const struct row *row = &rows[i];
		if (!row_is_in(row, folder, out))
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

/* A place is the row and the member that came last. */
bool tree_next(const struct node *folder, uint64_t *place, struct node *child, char name[NAME_SIZE])
{
	uint64_t member = *place >> 8;
	size_t i = *place & 0xff;
	for (i = i ? i : FOLDER_ROOT + 1; i < row_count; i++, member = 0) {
		const struct row *row = &rows[i];
		if (!row_is_in(row, folder, child))
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
