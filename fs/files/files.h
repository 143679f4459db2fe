/* What the rows of the tree render and set, by the file that defines it. Each appends to out, or
 * takes a value, for the node it is given (struct tree_row in node.h). */
#ifndef MOEFS_FS_FILES_H
#define MOEFS_FS_FILES_H

#include "fs/files/facts.h"
#include "fs/mount/node.h"

/* The kinds, by the file that defines them. */
extern const struct file_ops value_param_ops, text_param_ops; /* param_files.c */
extern const struct file_ops live_ops;			      /* live.c: values, tables, verbs */
extern const struct file_ops news_ops;	    /* the same of what is waited for with poll */
extern const struct file_ops assembled_ops; /* live.c: texts that an editor writes whole */
extern const struct file_ops prompt_ops;    /* prompt.c */
extern const struct file_ops output_ops;    /* output.c, as the next two */
extern const struct file_ops wait_ops;
extern const struct file_ops log_ops;
extern const struct file_ops question_ops;  /* question.c */
extern const struct file_ops ask_d_ops;	    /* ask_d.c */
extern const struct file_ops ctl_ops;	    /* ctl.c */
extern const struct file_ops mount_ctl_ops; /* mount_ctl.c */
extern const struct file_ops config_ops;    /* model_files.c */
/* conversation_files.c: texts that are written whole; the calls of an answer */
extern const struct file_ops conversation_text_ops;
extern const struct file_ops tool_calls_ops;
extern const struct file_ops tool_result_ops; /* tool_result.c */
extern const struct file_ops rendered_ops;    /* rendered.c */
extern const struct file_ops expert_ops;      /* expert_files.c */
extern const struct file_ops trace_ops;	      /* trace.c */
extern const struct file_ops expert_ctl_ops;  /* expert_ctl.c */
extern const struct file_ops state_ops;	      /* state_files.c */
extern const struct file_ops tensor_ops;      /* tensor_files.c */

/* mount_files.c */
void readme_render(const struct node *n, struct text *out);
void version_render(const struct node *n, struct text *out);
void pid_render(const struct node *n, struct text *out);

/* error_files.c */
void mount_error_render(const struct node *n, struct text *out);
void mount_error_json_render(const struct node *n, struct text *out);
void session_error_render(const struct node *n, struct text *out);
void session_error_json_render(const struct node *n, struct text *out);

/* cache_files.c */
void budget_render(const struct node *n, struct text *out);
int budget_set(const struct node *n, const char *value, size_t length, struct err *e);
void context_budget_render(const struct node *n, struct text *out);
int context_budget_set(const struct node *n, const char *value, size_t length, struct err *e);
void policy_render(const struct node *n, struct text *out);
int policy_set(const struct node *n, const char *value, size_t length, struct err *e);
void waiting_render(const struct node *n, struct text *out);
void warming_render(const struct node *n, struct text *out);
void cache_stats_list(const struct node *n, struct facts *f);

/* model_files.c */
extern const struct row_family model_family;
void fact_render(const struct node *n, struct text *out);

/* session_files.c */
extern const struct row_family session_family;
extern const struct row_family value_param_family;
extern const struct row_family text_param_family;
void status_render(const struct node *n, struct text *out);
void session_stats_list(const struct node *n, struct facts *f);

/* param_files.c */
void param_render(const struct node *n, struct text *out);
int param_set(const struct node *n, const char *value, size_t length, struct err *e);

/* conversation_files.c: which text is the row's fact */
enum { CONVERSATION_TEXT_MOST = 64 << 20 };
void conversation_text_render(const struct node *n, struct text *out);
uint64_t conversation_text_size(const struct node *n);
int conversation_text_set(const struct node *n, const char *value, size_t length, struct err *e);

/* ask_d.c */
extern const struct row_family ask_family;

/* prompt.c */
void prompt_render(const struct node *n, struct text *out);

/* ask.c */
extern const struct question ask_question, score_question;

/* tokenizer_files.c */
extern const struct question encode_question, decode_question;

/* tensor_files.c */
extern const struct row_family tensor_family;
extern const struct row_hooks tensor_hooks;
bool tensors_are_prepared(const struct node *folder);
int tensors_prepare(const struct node *folder, struct err *e);

/* expert_files.c */
enum { LAYER_DIGITS = 2, EXPERT_DIGITS = 3 }; /* of their names, at least */
/* A number as the tree prints it; it may have no other digits. */
bool expert_number(const char *name, int digits, uint32_t below, uint32_t *number);
extern const struct row_family layer_family;
extern const struct row_family expert_family;
void expert_map_render(const struct node *n, struct text *out);
void expert_stats_list(const struct node *n, struct facts *f);

/* expert_hooks.c */
extern const struct row_hooks expert_hooks, layer_hooks, model_hooks;

#endif
